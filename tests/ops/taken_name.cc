// Takes the name of a handler in XLA's table, as another library in the process may have.
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace xla::ffi {
const XLA_FFI_Api* GetXlaFfiApi();  // of libtensorflow_framework
}

namespace {

XLA_FFI_Error* DoNothing(XLA_FFI_CallFrame* frame) {
  static const auto handler = xla::ffi::Ffi::Bind().To([] { return xla::ffi::Error::Success(); });
  return handler->Call(frame);
}

}  // namespace

extern "C" bool tfjac_test_take(const char* name) {
  const XLA_FFI_Api* const api = xla::ffi::GetXlaFfiApi();
  return xla::ffi::Ffi::RegisterStaticHandler(api, name, "Host", DoNothing) == nullptr;
}
