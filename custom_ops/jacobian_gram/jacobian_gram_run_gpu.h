// JacobianGram on a stream, be it of TensorFlow's op or of XLA's call. Compiled by g++, without a CUDA header.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_JACOBIAN_GRAM_RUN_GPU_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_JACOBIAN_GRAM_RUN_GPU_H_

#include "custom_ops/common/gpu/stream.h"
#include "custom_ops/jacobian_gram/jacobian_gram_gpu.h"

namespace tfjac {

template <typename T>
Outcome RunJacobianGram(GpuStream& stream, const Factors<T>& factors, const T* residual, T* gram, T* gradient) {
  return stream.Run(
      "JacobianGram", [&](void* on, int64_t* bytes) { return JacobianGramWorkspace(on, factors, bytes); },
      [&](void* on, void* workspace) { return LaunchJacobianGram(on, factors, residual, gram, gradient, workspace); });
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_JACOBIAN_GRAM_RUN_GPU_H_
