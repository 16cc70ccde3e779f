// JacobianKernel on a stream, be it of TensorFlow's op or of XLA's call. Compiled by g++, without a CUDA header.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_KERNEL_JACOBIAN_KERNEL_RUN_GPU_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_KERNEL_JACOBIAN_KERNEL_RUN_GPU_H_

#include "custom_ops/common/gpu/stream.h"
#include "custom_ops/jacobian_kernel/jacobian_kernel_gpu.h"

namespace tfjac {

template <typename T>
Outcome RunJacobianKernel(GpuStream& stream, const Blocks<T>& blocks, T* kernel) {
  return stream.Run(
      "JacobianKernel", [&](void* on, int64_t* bytes) { return JacobianKernelWorkspace(on, blocks, bytes); },
      [&](void* on, void* workspace) { return LaunchJacobianKernel(on, blocks, kernel, workspace); });
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_KERNEL_JACOBIAN_KERNEL_RUN_GPU_H_
