// What the OpKernels on the GPU share, and XLA's calls of their launchers. Compiled by g++, without a CUDA header.
#ifndef TFJAC_CUSTOM_OPS_COMMON_GPU_SUPPORT_H_
#define TFJAC_CUSTOM_OPS_COMMON_GPU_SUPPORT_H_

#include <cstdint>

#include "custom_ops/common/op/support.h"

namespace tfjac {

// The status for what a launcher of `op` returned.
absl::Status StatusOfLaunch(const char* op, int code);

// Where launchers enqueue their work: a cudaStream_t, and device memory for as long as that work needs it.
class GpuStream {
 public:
  virtual ~GpuStream() = default;

  // Call launch(stream).
  template <typename Launch>
  absl::Status Run(const char* op, Launch launch) {
    return StatusOfLaunch(op, launch(stream_));
  }

  // Call launch(stream, workspace), with as many bytes as workspace(stream, &bytes) asks for; null for none.
  template <typename Workspace, typename Launch>
  absl::Status Run(const char* op, Workspace workspace, Launch launch) {
    int64_t bytes = 0;
    TF_RETURN_IF_ERROR(StatusOfLaunch(op, workspace(stream_, &bytes)));
    void* memory = nullptr;
    if (bytes > 0) TF_RETURN_IF_ERROR(Allocate(bytes, &memory));
    return StatusOfLaunch(op, launch(stream_, memory));
  }

 protected:
  explicit GpuStream(void* stream) : stream_(stream) {}

 private:
  virtual absl::Status Allocate(int64_t bytes, void** memory) = 0;

  void* stream_;
};

// The stream of an op, for the duration of one Compute: TensorFlow's allocator gives what is freed then to later work on
// the same stream only.
class OpStream : public GpuStream {
 public:
  explicit OpStream(tensorflow::OpKernelContext* context);

 private:
  absl::Status Allocate(int64_t bytes, void** memory) override;

  tensorflow::OpKernelContext* const context_;
  tensorflow::Tensor memory_;
};

}  // namespace tfjac

#define TFJAC_REGISTER_GPU(op, Kernel)                                                                \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_GPU).TypeConstraint<float>("T"), Kernel<float>); \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_GPU).TypeConstraint<double>("T"), Kernel<double>)

#endif  // TFJAC_CUSTOM_OPS_COMMON_GPU_SUPPORT_H_
