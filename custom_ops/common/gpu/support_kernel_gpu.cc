#include "custom_ops/common/gpu/support.h"
#include "xla/stream_executor/stream.h"

namespace tfjac {

OpStream::OpStream(tensorflow::OpKernelContext* context)
    : GpuStream(context->op_device_context()->stream()->platform_specific_handle().stream), context_(context) {}

Outcome OpStream::WithWorkspace(int64_t bytes, const Body& body) {
  tensorflow::Tensor memory;
  const absl::Status status = context_->allocate_temp(tensorflow::DT_INT8, tensorflow::TensorShape({bytes}), &memory);
  if (!status.ok()) return {static_cast<Outcome::Code>(status.code()), std::string(status.message())};
  return body(memory.flat<int8_t>().data());
}

}  // namespace tfjac
