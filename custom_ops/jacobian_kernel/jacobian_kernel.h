// JacobianKernel: factors to J Jᵀ.
//
//     kernel[(n,m),(x,y)] = sum_k sum_gio J_k[n,m,(g,i,o)] J_k[x,y,(g,i,o)]
//
// J consists of blocks of rows, one below the other, (n, m) and (x, y) of the same or of two. `kernel` is [rows, rows], row
// (n, m) of a block at n·m_size + m after those of the blocks before; both triangles are written, exactly symmetric; it
// shares no memory with the factors. Factors are added in their order, tile by tile, in tiles cut by sizes alone: the same
// bits for any number of threads.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_KERNEL_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_KERNEL_H_

#include "custom_ops/common/cpu/isa.h"
#include "custom_ops/common/factors.h"
#include "custom_ops/common/runtime.h"

namespace tfjac {

TFJAC_PER_ISA(
    // False where there is no memory for the scratch space.
    template <typename T> bool JacobianKernel(const Runtime& runtime, const Blocks<T>& blocks, T* kernel);)

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_KERNEL_H_
