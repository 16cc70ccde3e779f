#include "absl/strings/str_cat.h"
#include "custom_ops/common/gpu/api.h"
#include "custom_ops/common/gpu/support.h"
#include "xla/stream_executor/stream.h"

namespace tfjac {

void* StreamOf(tensorflow::OpKernelContext* context) {
  return context->op_device_context()->stream()->platform_specific_handle().stream;
}

absl::Status StatusOfLaunch(const char* op, int code) {
  if (code == 0) return absl::OkStatus();
  const std::string message = absl::StrCat(op, " on the GPU: ", tfjac_cuda_error_message(code));
  const bool missing = code == kNoCublas || code == kNoCusolver;
  return missing ? absl::FailedPreconditionError(message) : absl::InternalError(message);
}

absl::Status GpuWorkspace::Allocate(tensorflow::OpKernelContext* context, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  return context->allocate_temp(tensorflow::DT_INT8, tensorflow::TensorShape({bytes}), &memory_);
}

void* GpuWorkspace::data() { return memory_.NumElements() == 0 ? nullptr : memory_.flat<int8_t>().data(); }

}  // namespace tfjac
