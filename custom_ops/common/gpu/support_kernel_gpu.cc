#include "absl/strings/str_cat.h"
#include "custom_ops/common/gpu/api.h"
#include "custom_ops/common/gpu/support.h"
#include "xla/stream_executor/stream.h"

namespace tfjac {

absl::Status StatusOfLaunch(const char* op, int code) {
  if (code == 0) return absl::OkStatus();
  const std::string message = absl::StrCat(op, " on the GPU: ", tfjac_cuda_error_message(code));
  const bool missing = code == kNoCublas || code == kNoCusolver;
  return missing ? absl::FailedPreconditionError(message) : absl::InternalError(message);
}

OpStream::OpStream(tensorflow::OpKernelContext* context)
    : GpuStream(context->op_device_context()->stream()->platform_specific_handle().stream), context_(context) {}

absl::Status OpStream::Allocate(int64_t bytes, void** memory) {
  TF_RETURN_IF_ERROR(context_->allocate_temp(tensorflow::DT_INT8, tensorflow::TensorShape({bytes}), &memory_));
  *memory = memory_.flat<int8_t>().data();
  return absl::OkStatus();
}

}  // namespace tfjac
