// Calling an op's kernel from programs that XLA compiled: custom calls of XLA's foreign function interface.
//
// <op>_call.h has the handler, a struct <Op>Call with a template parameter for the device: it reads operands, results
// and attributes, and calls Run<Op> with the device. The handler is defined by TFJAC_DEFINE_XLA_CALL, in libtfjac.so: in
// <op>_call.cc for the CPU, where the device is XLA's thread pool, in <op>_call_gpu.cc for CUDA, where it is a
// CallStream. <op>_xla.cc registers the handlers with TFJAC_REGISTER_XLA_CALL, in libtfjac_xla.so, and calls them with
// CallKernel. Shapes have been checked there, when the program was compiled.
//
// Of XLA and TensorFlow handlers need the headers xla/ffi/api/ and nothing else, so that JAX can call them as well:
// tests/gpu/build_calls.py.
#ifndef TFJAC_CUSTOM_OPS_COMMON_XLA_CALL_H_
#define TFJAC_CUSTOM_OPS_COMMON_XLA_CALL_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "custom_ops/common/op_factors.h"
#include "custom_ops/common/outcome.h"
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

// What a handler returns for the outcome of its kernel.
xla::ffi::Error ErrorOf(const Outcome& outcome);

}  // namespace tfjac

// Define the handlers tfjac_<name>_f32 and tfjac_<name>_f64 of a call, which run on a device of the type `Device`.
#define TFJAC_DEFINE_XLA_CALL(name, Call, Device)                    \
  TFJAC_DEFINE_XLA_CALL_OF(name##_f32, Call, Device, xla::ffi::F32); \
  TFJAC_DEFINE_XLA_CALL_OF(name##_f64, Call, Device, xla::ffi::F64)
#define TFJAC_DEFINE_XLA_CALL_OF(name, Call, Device, dtype)                                                     \
  using name = Call<Device, dtype>;                                                                             \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* tfjac_##name(XLA_FFI_CallFrame* call_frame); \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(tfjac_##name, name::Handle, name::Binding())

#endif  // TFJAC_CUSTOM_OPS_COMMON_XLA_CALL_H_
