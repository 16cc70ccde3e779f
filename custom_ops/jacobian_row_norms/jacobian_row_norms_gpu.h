// JacobianRowNorms on the GPU: the contract of jacobian_row_norms.h for device pointers. See common/gpu/api.h for what
// launchers share.
//
// Factors with one position of use: a warp per row of J, ‖a‖² ‖d‖² from one reading. Factors with several: a block per
// row, tile by tile of either the pairs of positions (t, s) or the row itself, whichever takes fewer multiply-adds.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_ROW_NORMS_GPU_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_ROW_NORMS_GPU_H_

#include "custom_ops/common/factors.h"
#include "custom_ops/common/gpu/api.h"

// norms: [n, m], squared. Needs no workspace.
TFJAC_API int tfjac_cuda_jacobian_row_norms_f32(void* stream, const tfjac::Factors<float>* factors, float* norms);
TFJAC_API int tfjac_cuda_jacobian_row_norms_f64(void* stream, const tfjac::Factors<double>* factors, double* norms);

namespace tfjac {

inline int LaunchJacobianRowNorms(void* stream, const Factors<float>& factors, float* norms) {
  return tfjac_cuda_jacobian_row_norms_f32(stream, &factors, norms);
}
inline int LaunchJacobianRowNorms(void* stream, const Factors<double>& factors, double* norms) {
  return tfjac_cuda_jacobian_row_norms_f64(stream, &factors, norms);
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_ROW_NORMS_GPU_H_
