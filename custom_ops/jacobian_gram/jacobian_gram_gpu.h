// JacobianGram on the GPU: the contract of jacobian_gram.h for device pointers. See common/gpu/api.h for what launchers
// share.
//
// The columns are cut into spans: a factor whose residuals are worth folding is one alone, runs of other factors are
// another. A block of the result is computed either
//   - from the rows of J: tiles whose panels are made from the factors in shared memory, or, for cuBLAS and for factors
//     with several positions of use, from rows that are formed some examples at a time; or
//   - from pair products, for two factors worth folding: sum_n (a_i a_j)(sum_m d_o d_q), a product over the examples
//     alone and, within one factor, a quarter of the block, from which the others are copied.
// Which is cheaper is decided by costs that were measured (forms.h). Products of rows in memory are gemm's, or syrk's where the
// columns are many.
// The lower triangle is mirrored at the end.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_GPU_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_GPU_H_

#include "custom_ops/common/factors.h"
#include "custom_ops/common/gpu/api.h"

// Bytes of workspace.
TFJAC_API int tfjac_cuda_jacobian_gram_workspace_f32(void* stream, const tfjac::Factors<float>* factors,
                                                     int64_t* bytes);
TFJAC_API int tfjac_cuda_jacobian_gram_workspace_f64(void* stream, const tfjac::Factors<double>* factors,
                                                     int64_t* bytes);

// gram: [p, p]; residual: [n, m] or null; gradient: [p]; p, m and the examples' rows handled at a time below 2^31.
TFJAC_API int tfjac_cuda_jacobian_gram_f32(void* stream, const tfjac::Factors<float>* factors, const float* residual,
                                           float* gram, float* gradient, void* workspace);
TFJAC_API int tfjac_cuda_jacobian_gram_f64(void* stream, const tfjac::Factors<double>* factors, const double* residual,
                                           double* gram, double* gradient, void* workspace);

namespace tfjac {

inline int JacobianGramWorkspace(void* stream, const Factors<float>& factors, int64_t* bytes) {
  return tfjac_cuda_jacobian_gram_workspace_f32(stream, &factors, bytes);
}
inline int JacobianGramWorkspace(void* stream, const Factors<double>& factors, int64_t* bytes) {
  return tfjac_cuda_jacobian_gram_workspace_f64(stream, &factors, bytes);
}
inline int LaunchJacobianGram(void* stream, const Factors<float>& factors, const float* residual, float* gram,
                              float* gradient, void* workspace) {
  return tfjac_cuda_jacobian_gram_f32(stream, &factors, residual, gram, gradient, workspace);
}
inline int LaunchJacobianGram(void* stream, const Factors<double>& factors, const double* residual, double* gram,
                              double* gradient, void* workspace) {
  return tfjac_cuda_jacobian_gram_f64(stream, &factors, residual, gram, gradient, workspace);
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_GPU_H_
