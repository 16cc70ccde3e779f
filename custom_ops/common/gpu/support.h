// What the OpKernels on the GPU share. Compiled by g++, without a CUDA header.
#ifndef TFJAC_CUSTOM_OPS_COMMON_GPU_SUPPORT_H_
#define TFJAC_CUSTOM_OPS_COMMON_GPU_SUPPORT_H_

#include "custom_ops/common/gpu/stream.h"
#include "custom_ops/common/op/support.h"

namespace tfjac {

// The stream of an op, for the duration of one Compute, and workspace of TensorFlow's allocator.
class OpStream : public GpuStream {
 public:
  explicit OpStream(tensorflow::OpKernelContext* context);

 private:
  Outcome WithWorkspace(int64_t bytes, const Body& body) override;

  tensorflow::OpKernelContext* const context_;
};

}  // namespace tfjac

#define TFJAC_REGISTER_GPU(op, Kernel)                                                                        \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_GPU).TypeConstraint<float>("T"), Kernel<float>); \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_GPU).TypeConstraint<double>("T"), Kernel<double>)

#endif  // TFJAC_CUSTOM_OPS_COMMON_GPU_SUPPORT_H_
