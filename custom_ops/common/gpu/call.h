// Calling the launchers from programs that XLA compiled for CUDA. Compiled by g++, without a CUDA header.
#ifndef TFJAC_CUSTOM_OPS_COMMON_GPU_CALL_H_
#define TFJAC_CUSTOM_OPS_COMMON_GPU_CALL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "custom_ops/common/gpu/stream.h"
#include "custom_ops/common/xla/call.h"

namespace tfjac {

// The stream of a call, and workspace of XLA's allocator.
class CallStream : public GpuStream {
 public:
  CallStream(void* stream, const XLA_FFI_Api* api, XLA_FFI_ExecutionContext* context)
      : GpuStream(stream), api_(api), context_(context) {}

 private:
  Outcome WithWorkspace(int64_t bytes, const Body& body) override {
    // XLA refuses to promise more, whatever its memory is aligned to. So there is room to begin a little later.
    constexpr size_t kPromised = 16;
    size_t space = bytes + kWorkspaceAlignment - kPromised;
    xla::ffi::DiagnosticEngine said;
    auto allocator = xla::ffi::CtxDecoding<xla::ffi::ScratchAllocator>::Decode(api_, context_, said);
    const std::optional<void*> allocated = allocator->Allocate(space, kPromised);
    if (!allocated) {
      return {Outcome::kResourceExhausted,
              "no " + std::to_string(bytes) + " bytes of workspace on the GPU: " + said.Result()};
    }
    void* memory = *allocated;
    return body(std::align(kWorkspaceAlignment, bytes, memory, space));
  }

  const XLA_FFI_Api* api_;
  XLA_FFI_ExecutionContext* context_;
};

}  // namespace tfjac

// So that the binding of a handler may ask for one, as the CPU's asks for a thread pool.
template <>
struct xla::ffi::CtxDecoding<tfjac::CallStream> {
  using Type = tfjac::CallStream;

  static std::optional<Type> Decode(const XLA_FFI_Api* api, XLA_FFI_ExecutionContext* context,
                                    DiagnosticEngine& diagnostic) {
    const auto stream = CtxDecoding<PlatformStream<void*>>::Decode(api, context, diagnostic);
    if (!stream) return std::nullopt;
    return Type(*stream, api, context);
  }
};

#endif  // TFJAC_CUSTOM_OPS_COMMON_GPU_CALL_H_
