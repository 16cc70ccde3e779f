// What the OpKernels on the GPU share. Compiled by g++, without a CUDA header.
#ifndef TFJAC_CUSTOM_OPS_COMMON_GPU_SUPPORT_H_
#define TFJAC_CUSTOM_OPS_COMMON_GPU_SUPPORT_H_

#include <cstdint>

#include "custom_ops/common/op/support.h"

namespace tfjac {

// The stream that an op on the GPU runs on, a cudaStream_t.
void* StreamOf(tensorflow::OpKernelContext* context);

// The status for what a launcher of `op` returned.
absl::Status StatusOfLaunch(const char* op, int code);

// Workspace in device memory, for the duration of one Compute and of what it has enqueued: TensorFlow's allocator gives
// the memory to later work on the same stream only. Null for no bytes.
class GpuWorkspace {
 public:
  absl::Status Allocate(tensorflow::OpKernelContext* context, int64_t bytes);
  void* data();

 private:
  tensorflow::Tensor memory_;
};

}  // namespace tfjac

#define TFJAC_REGISTER_GPU(op, Kernel)                                                                \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_GPU).TypeConstraint<float>("T"), Kernel<float>); \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_GPU).TypeConstraint<double>("T"), Kernel<double>)

#endif  // TFJAC_CUSTOM_OPS_COMMON_GPU_SUPPORT_H_
