// Factors and the storage behind them, for what reads them from an op's inputs or from a call's operands.
#ifndef TFJAC_CUSTOM_OPS_COMMON_OP_FACTORS_H_
#define TFJAC_CUSTOM_OPS_COMMON_OP_FACTORS_H_

#include <vector>

#include "custom_ops/common/factors.h"

namespace tfjac {

template <typename T>
struct OpFactors {
  std::vector<Factor<T>> storage;       // those of the first block, then those of the next
  std::vector<Factors<T>> block_views;  // one for each block
  Factors<T> view;                      // the first block: all there is where an op takes no more

  Blocks<T> blocks() const { return Blocks<T>{static_cast<int64_t>(block_views.size()), block_views.data()}; }
};

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_OP_FACTORS_H_
