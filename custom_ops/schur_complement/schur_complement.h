// SchurComplement: the normal equations of residuals that touch few parameters each, without those of which every example
// touches one block.
//
// values is J [n, m, k] of the parameters that stay, in the columns [n, k] that each example touches; block is J [n, m, o] of
// the parameters that go, of the group [n] that the example touches: none where it is negative. For each group there are M
// [o, o], of which the lower triangle is read, positive definite, and v [o]. With W = sum_n valuesᵀ block [k, o], put in the
// columns of the example and the group,
//
//     complement [p, p] = sum_n valuesᵀ values - W M⁻¹ Wᵀ,    projected [p] = W M⁻¹ v
//
// both triangles. A column or group that is named more often, also by one example, adds up. success is whether M of all
// groups are positive definite and everything is finite; the results are zeros where not. Each row is added up in a fixed
// order: the same bits for any number of threads. The results share no memory with the inputs.
#ifndef TFJAC_CUSTOM_OPS_SCHUR_COMPLEMENT_H_
#define TFJAC_CUSTOM_OPS_SCHUR_COMPLEMENT_H_

#include "custom_ops/common/cpu/isa.h"
#include "custom_ops/common/runtime.h"

namespace tfjac {

template <typename T>
struct SparseExamples {
  int64_t n, m, k, o, p, groups;
  const T* values;
  const int32_t* columns;
  const T* block;
  const int32_t* group;
  const T* matrix;
  const T* vector;
};

enum class SchurStatus { kDone, kNoMemory, kOutOfRange };

TFJAC_PER_ISA(template <typename T> SchurStatus SchurComplement(const Runtime& runtime,
                                                                const SparseExamples<T>& examples, T* complement,
                                                                T* projected, bool* success);)

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_SCHUR_COMPLEMENT_H_
