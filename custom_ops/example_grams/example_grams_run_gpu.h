// ExampleGrams on a stream, be it of TensorFlow's op or of XLA's call. Compiled by g++, without a CUDA header.
#ifndef TFJAC_CUSTOM_OPS_EXAMPLE_GRAMS_EXAMPLE_GRAMS_RUN_GPU_H_
#define TFJAC_CUSTOM_OPS_EXAMPLE_GRAMS_EXAMPLE_GRAMS_RUN_GPU_H_

#include "custom_ops/common/gpu/stream.h"
#include "custom_ops/example_grams/example_grams_gpu.h"

namespace tfjac {

template <typename T>
Outcome RunExampleGrams(GpuStream& stream, const ExampleBlocks<T>& blocks, T* gram, T* gradient) {
  return stream.Run("ExampleGrams", [&](void* on) { return LaunchExampleGrams(on, blocks, gram, gradient); });
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_EXAMPLE_GRAMS_EXAMPLE_GRAMS_RUN_GPU_H_
