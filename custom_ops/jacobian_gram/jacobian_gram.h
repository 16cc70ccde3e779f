// JacobianGram: factors and a residual to the normal equations.
//
//     gram[p,q] = sum_nm J[n,m,p] J[n,m,q]        gradient[p] = sum_nm J[n,m,p] residual[n,m]
//
// `gram` is [p, p], both triangles written, exactly symmetric; `gradient` is [p], zeros where `residual` is null, else
// residual is [n, m]. The results share no memory with the factors. J is never formed whole. The plan, by the sizes
// alone: where the result fits in the cache, or a factor has several positions of use, kDepth rows at a time, from which
// all tiles are added to; else tile by tile, its columns formed again; blocks of wide factors from products of pairs.
//
// Sums run over the rows in their order, in tiles cut by sizes alone: the same bits for any number of threads.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_H_

#include "custom_ops/common/cpu/isa.h"
#include "custom_ops/common/factors.h"
#include "custom_ops/common/runtime.h"

namespace tfjac {

TFJAC_PER_ISA(
    // False where there is no memory for the scratch space.
    template <typename T>
    bool JacobianGram(const Runtime& runtime, const Factors<T>& factors, const T* residual, T* gram, T* gradient);)

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_H_
