// JacobianRows on the GPU: the contract of jacobian_rows.h for device pointers. See common/gpu/api.h for what launchers
// share.
//
// Factors with one position of use: a thread per column walks down the rows, some at a time, reading factors from the cache and
// writing J once, all factors in one launch. Factors with several: products of tiles, per example and group, of a[t, i] and
// d[t, (m, o)].
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_ROWS_GPU_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_ROWS_GPU_H_

#include "custom_ops/common/factors.h"
#include "custom_ops/common/gpu/api.h"

// rows: [n, m, p]; m below 2^31. Needs no workspace.
TFJAC_API int tfjac_cuda_jacobian_rows_f32(void* stream, const tfjac::Factors<float>* factors, float* rows);
TFJAC_API int tfjac_cuda_jacobian_rows_f64(void* stream, const tfjac::Factors<double>* factors, double* rows);

namespace tfjac {

inline int LaunchJacobianRows(void* stream, const Factors<float>& factors, float* rows) {
  return tfjac_cuda_jacobian_rows_f32(stream, &factors, rows);
}
inline int LaunchJacobianRows(void* stream, const Factors<double>& factors, double* rows) {
  return tfjac_cuda_jacobian_rows_f64(stream, &factors, rows);
}

// Some columns of one factor with several positions of use: inputs [i_begin, i_begin + i_count) of the groups
// [g_begin, g_begin + g_count), for all rows. Number (g, i, o) of a row lands at
//     out[row * ld + (g - g_begin) * stride_g + (i - i_begin) * stride_i + o * stride_o]
template <typename T>
struct Expansion {
  Factor<T> factor;  // its strides are those above
  int64_t g_begin, g_count, i_begin, i_count;
  T* out;
  int64_t ld;
};
template <typename T>
int LaunchExpansion(void* stream, int64_t n, int64_t m, const Expansion<T>& expansion);

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_ROWS_GPU_H_
