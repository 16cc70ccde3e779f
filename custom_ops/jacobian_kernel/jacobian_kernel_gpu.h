// JacobianKernel on the GPU: the contract of jacobian_kernel.h for device pointers. See common/gpu/api.h for what
// launchers share.
//
// What two blocks of rows, or one with itself, have in the kernel is a sum over factors, computed on and below the diagonal;
// the mirror image is copied at the end. For a factor with one position of use it is a sum over groups of
// (weights[n,x]) ∘ (d dᵀ), the weights a aᵀ being over examples only; factors that share d share it. Many such terms are
// computed in one pass, tile by tile, or, if d dᵀ is large, from products of cuBLAS. For several positions of use the
// factor's rows are formed in the workspace, some columns at a time, for cuBLAS to multiply. Blocks of many examples are
// cut into pieces, so that the workspace does not grow with the kernel.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_KERNEL_GPU_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_KERNEL_GPU_H_

#include "custom_ops/common/factors.h"
#include "custom_ops/common/gpu/api.h"

// Bytes of workspace. Reads sizes only, besides comparing the pointers d.
TFJAC_API int tfjac_cuda_jacobian_kernel_workspace_f32(void* stream, const tfjac::Blocks<float>* blocks,
                                                       int64_t* bytes);
TFJAC_API int tfjac_cuda_jacobian_kernel_workspace_f64(void* stream, const tfjac::Blocks<double>* blocks,
                                                       int64_t* bytes);

// kernel: [rows, rows]; rows below 2^31.
TFJAC_API int tfjac_cuda_jacobian_kernel_f32(void* stream, const tfjac::Blocks<float>* blocks, float* kernel,
                                             void* workspace);
TFJAC_API int tfjac_cuda_jacobian_kernel_f64(void* stream, const tfjac::Blocks<double>* blocks, double* kernel,
                                             void* workspace);

namespace tfjac {

inline int JacobianKernelWorkspace(void* stream, const Blocks<float>& blocks, int64_t* bytes) {
  return tfjac_cuda_jacobian_kernel_workspace_f32(stream, &blocks, bytes);
}
inline int JacobianKernelWorkspace(void* stream, const Blocks<double>& blocks, int64_t* bytes) {
  return tfjac_cuda_jacobian_kernel_workspace_f64(stream, &blocks, bytes);
}
inline int LaunchJacobianKernel(void* stream, const Blocks<float>& blocks, float* kernel, void* workspace) {
  return tfjac_cuda_jacobian_kernel_f32(stream, &blocks, kernel, workspace);
}
inline int LaunchJacobianKernel(void* stream, const Blocks<double>& blocks, double* kernel, void* workspace) {
  return tfjac_cuda_jacobian_kernel_f64(stream, &blocks, kernel, workspace);
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_KERNEL_GPU_H_
