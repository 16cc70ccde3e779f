// ExampleGrams on the GPU: the contract of example_grams.h for device pointers. See common/gpu/api.h for what launchers
// share.
//
// The residual stands for one column more: the last row of the product is the gradient. With few columns a block takes
// several examples, whose rows wait in shared memory, and writes their results in one run. With many, tiles of each example,
// or cuBLAS if there is much to do; in float64 cuBLAS soon, as it multiplies these by tensor cores.
#ifndef TFJAC_CUSTOM_OPS_EXAMPLE_GRAMS_EXAMPLE_GRAMS_GPU_H_
#define TFJAC_CUSTOM_OPS_EXAMPLE_GRAMS_EXAMPLE_GRAMS_GPU_H_

#include "custom_ops/common/gpu/api.h"
#include "custom_ops/example_grams/example_grams.h"

// gram: [n, p, p]; gradient: [n, p]. Needs no workspace.
TFJAC_API int tfjac_cuda_example_grams_f32(void* stream, const tfjac::ExampleBlocks<float>* blocks, float* gram,
                                           float* gradient);
TFJAC_API int tfjac_cuda_example_grams_f64(void* stream, const tfjac::ExampleBlocks<double>* blocks, double* gram,
                                           double* gradient);

namespace tfjac {

inline int LaunchExampleGrams(void* stream, const ExampleBlocks<float>& blocks, float* gram, float* gradient) {
  return tfjac_cuda_example_grams_f32(stream, &blocks, gram, gradient);
}
inline int LaunchExampleGrams(void* stream, const ExampleBlocks<double>& blocks, double* gram, double* gradient) {
  return tfjac_cuda_example_grams_f64(stream, &blocks, gram, gradient);
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_EXAMPLE_GRAMS_EXAMPLE_GRAMS_GPU_H_
