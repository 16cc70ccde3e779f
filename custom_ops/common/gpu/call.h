// Calling the launchers from programs that XLA compiled for CUDA. Compiled by g++, without a CUDA header.
#ifndef TFJAC_CUSTOM_OPS_COMMON_GPU_CALL_H_
#define TFJAC_CUSTOM_OPS_COMMON_GPU_CALL_H_

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "custom_ops/common/gpu/support.h"
#include "custom_ops/common/xla/call.h"

namespace tfjac {

// The stream of a call, for its duration: XLA's allocator gives what is freed then to later work on the same stream only.
class CallStream : public GpuStream {
 public:
  CallStream(void* stream, xla::ffi::ScratchAllocator allocator) : GpuStream(stream), allocator_(std::move(allocator)) {}

 private:
  absl::Status Allocate(int64_t bytes, void** memory) override {
    constexpr size_t kAlignment = 256;  // as cudaMalloc's
    const std::optional<void*> allocated = allocator_.Allocate(bytes, kAlignment);
    if (!allocated) return absl::ResourceExhaustedError(absl::StrCat("no ", bytes, " bytes of workspace on the GPU"));
    *memory = *allocated;
    return absl::OkStatus();
  }

  xla::ffi::ScratchAllocator allocator_;
};

}  // namespace tfjac

// So that the binding of a handler may ask for one, as the CPU's asks for a thread pool.
template <>
struct xla::ffi::CtxDecoding<tfjac::CallStream> {
  using Type = tfjac::CallStream;

  static std::optional<Type> Decode(const XLA_FFI_Api* api, XLA_FFI_ExecutionContext* context,
                                    DiagnosticEngine& diagnostic) {
    const auto stream = CtxDecoding<PlatformStream<void*>>::Decode(api, context, diagnostic);
    auto allocator = CtxDecoding<ScratchAllocator>::Decode(api, context, diagnostic);
    if (!stream || !allocator) return std::nullopt;
    return Type(*stream, *std::move(allocator));
  }
};

#endif  // TFJAC_CUSTOM_OPS_COMMON_GPU_CALL_H_
