// Calling the CPU kernels from programs that XLA compiled for the CPU: custom calls of XLA's foreign function interface.
//
// <op>_call.cc defines the handlers with TFJAC_DEFINE_XLA_CALL, in libtfjac.so, beside the kernels that they call;
// <op>_xla.cc registers them with TFJAC_REGISTER_XLA_CALL, in libtfjac_xla.so, and calls them with CallKernel. Shapes have
// been checked there, when the program was compiled.
#ifndef TFJAC_CUSTOM_OPS_COMMON_XLA_CALL_H_
#define TFJAC_CUSTOM_OPS_COMMON_XLA_CALL_H_

#include <memory>
#include <string_view>
#include <vector>

#include "custom_ops/common/op/support.h"
#include "custom_ops/common/runtime.h"
#include "xla/ffi/api/ffi.h"

namespace tfjac {

// XLA's thread pool, and memory from the heap, for the duration of one call.
class CallRuntime {
 public:
  explicit CallRuntime(xla::ffi::ThreadPool pool);
  const Runtime& runtime() const { return runtime_; }

 private:
  struct Free {
    void operator()(void* memory) const;
  };
  static void Run(void* self, int64_t workers, void (*body)(void*, int64_t), void* state);
  static void* Allocate(void* self, int64_t bytes);

  xla::ffi::ThreadPool pool_;
  std::vector<std::unique_ptr<void, Free>> scratch_;
  Runtime runtime_;
};

// The factors among the operands of a call: `count` times a, then as often d, as many for each of the `blocks`. `layouts` are
// written one after the other, or empty for an op whose result does not depend on them.
template <typename T>
void ReadCallFactors(xla::ffi::RemainingArgs operands, int64_t count, std::string_view layouts, OpFactors<T>* factors,
                     int64_t blocks = 1);

// The data of operand `index`.
template <typename T>
const T* CallOperand(xla::ffi::RemainingArgs operands, int64_t index) {
  return operands.get<xla::ffi::AnyBuffer>(index)->typed_data<T>();
}

// What a handler returns for what its kernel returned.
xla::ffi::Error CallStatus(bool enough_memory, const char* op);

}  // namespace tfjac

// Define the handler tfjac_<name>: `function`, bound to operands, results and attributes by `binding`.
#define TFJAC_DEFINE_XLA_CALL(name, function, binding)                                                           \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* tfjac_##name(XLA_FFI_CallFrame* call_frame);  \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(tfjac_##name, function, binding)

#endif  // TFJAC_CUSTOM_OPS_COMMON_XLA_CALL_H_
