// Some factors as a kernel parameter, their columns numbered through. For files compiled by nvcc.
#ifndef TFJAC_CUSTOM_OPS_COMMON_GPU_FACTOR_TABLE_H_
#define TFJAC_CUSTOM_OPS_COMMON_GPU_FACTOR_TABLE_H_

#include "custom_ops/common/factors.h"
#include "custom_ops/common/gpu/block_sizes.h"

namespace tfjac {

template <typename T>
struct FactorTable {
  Factor<T> factor[kFactorsPerLaunch];
  int64_t first[kFactorsPerLaunch + 1];  // number, within the table, of a factor's first column; the last entry: of all
  int count;

  TFJAC_HOST_DEVICE int64_t columns() const { return first[count]; }
};

// Put the factors [begin, ...) for which `wanted` holds into the table, as many as it takes. Gives the first one left
// out.
template <typename T, typename Wanted>
static inline int64_t FillTable(const Factors<T>& factors, int64_t begin, const Wanted& wanted, FactorTable<T>* table) {
  table->count = 0;
  table->first[0] = 0;
  for (; begin < factors.count; ++begin) {
    const Factor<T>& f = factors.factor[begin];
    if (!wanted(f) || Columns(f) == 0) continue;
    if (table->count == kFactorsPerLaunch) break;
    table->factor[table->count] = f;
    table->first[table->count + 1] = table->first[table->count] + Columns(f);
    ++table->count;
  }
  return begin;
}

// The factor that a column of the table belongs to.
template <typename T>
TFJAC_HOST_DEVICE static inline int FactorAt(const FactorTable<T>& table, int64_t column) {
  int k = 0;
  while (table.first[k + 1] <= column) ++k;
  return k;
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_GPU_FACTOR_TABLE_H_
