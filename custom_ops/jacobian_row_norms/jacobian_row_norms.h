// JacobianRowNorms: factors to the squared norms of the rows of J.
//
//     norms[n,m] = sum_k sum_gio J_k[n,m,(g,i,o)]²
//
// `norms` is [n, m] and shares no memory with the factors. Each number is computed by one thread, factor after factor: the
// same bits for any number of threads.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_ROW_NORMS_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_ROW_NORMS_H_

#include "custom_ops/common/cpu/isa.h"
#include "custom_ops/common/factors.h"
#include "custom_ops/common/runtime.h"

namespace tfjac {

TFJAC_PER_ISA(
    // False where there is no memory for the scratch space.
    template <typename T> bool JacobianRowNorms(const Runtime& runtime, const Factors<T>& factors, T* norms);)

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_ROW_NORMS_H_
