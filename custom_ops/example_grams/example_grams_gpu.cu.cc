#include "custom_ops/example_grams/example_grams_gpu.h"

#include "custom_ops/common/gpu/launch.h"

namespace tfjac {
namespace {

template <typename T>
__global__ void __launch_bounds__(kThreads) ExampleGramsKernel(ExampleBlocks<T> blocks, T* gram, T* gradient) {
  const int64_t m = blocks.m, p = blocks.p;
  for (int64_t n = FirstTask(); n < blocks.n; n += TaskStep()) {
    const T *const jacobian = blocks.jacobian + n * m * p, *const residual = blocks.residual + n * m;
    for (int64_t k = threadIdx.x; k < p * (p + 1); k += kThreads) {
      const int64_t i = k / (p + 1), j = k % (p + 1);  // column p stands for the residual
      if (j > i && j < p) continue;
      T sum = 0;
      for (int64_t row = 0; row < m; ++row) {
        sum += jacobian[row * p + i] * (j < p ? jacobian[row * p + j] : residual[row]);
      }
      if (j == p) {
        gradient[n * p + i] = sum;
      } else {
        gram[(n * p + i) * p + j] = sum;
        gram[(n * p + j) * p + i] = sum;
      }
    }
  }
}

}  // namespace
}  // namespace tfjac

int tfjac_cuda_example_grams_f32(void* stream, const tfjac::ExampleBlocks<float>* blocks, float* gram,
                                 float* gradient) {
  return tfjac::Launch(stream, blocks->n, tfjac::ExampleGramsKernel<float>, *blocks, gram, gradient);
}
int tfjac_cuda_example_grams_f64(void* stream, const tfjac::ExampleBlocks<double>* blocks, double* gram,
                                 double* gradient) {
  return tfjac::Launch(stream, blocks->n, tfjac::ExampleGramsKernel<double>, *blocks, gram, gradient);
}
