// What the XLA kernels share. Each lowers its op to plain HLO, in the form that the twin in tfjac/ops/<op>.py takes for the
// same sizes, so that it compiles for every backend. Where XLA's own Cholesky factorisation and products of matrices fall
// far behind, and there is a kernel of the op for the CPU or for CUDA, that is called instead: see call.h.
#ifndef TFJAC_CUSTOM_OPS_COMMON_XLA_SUPPORT_H_
#define TFJAC_CUSTOM_OPS_COMMON_XLA_SUPPORT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "custom_ops/common/op/checks.h"
#include "custom_ops/common/xla/builder.h"
#include "custom_ops/common/xla/op_kernel.h"

#if TFJAC_HAS_XLA_CALLS
#include "xla/ffi/api/ffi.h"

namespace xla::ffi {
const XLA_FFI_Api* GetXlaFfiApi();  // of libtensorflow_framework; the header that declares it is not in the wheel
}
#endif

namespace tfjac {

// A factor while XLA compiles: values yet to be computed, sizes known.
struct XlaFactor {
  xla::XlaOp a;  // [n, t, g, i]
  xla::XlaOp d;  // [n, m, t, g, o]
  int64_t n, m, t, g, i, o;
  std::string layout;

  int64_t columns() const { return g * i * o; }
};

// Read the inputs "a" and "d", as many for each of the `blocks`, and check every shape. `layouts` has one entry per factor of a
// block, or none.
absl::StatusOr<std::vector<XlaFactor>> ReadXlaFactors(tensorflow::XlaOpKernelContext* context,
                                                      const std::vector<std::string>& layouts, int64_t blocks = 1);

// The shape of an input, by its place.
absl::StatusOr<tensorflow::TensorShape> ShapeOfInput(tensorflow::XlaOpKernelContext* context, int index);

// Einsum in the full precision of the dtype, on every backend.
xla::XlaOp FullEinsum(xla::XlaOp x, xla::XlaOp y, absl::string_view equation);

// a[n, g, i] and d[n, m, g, o] of a factor with one position of use.
xla::XlaOp OnlyPositionOfA(const XlaFactor& f);
xla::XlaOp OnlyPositionOfD(const XlaFactor& f);

// The factor with its a multiplied and its d divided by powers of two, position by position, so that both are of one size:
// J has the same bits, and products of a with a or of d with d leave the range of the type only where those of J do.
XlaFactor Balanced(const XlaFactor& f);

// The columns of a factor, [n, m, g·i·o].
xla::XlaOp ExpandFactor(const XlaFactor& f);

// A scalar zero of the dtype, and sums over some axes.
xla::XlaOp ZeroLike(xla::XlaOp x);
xla::XlaOp SumOver(xla::XlaOp x, const std::vector<int64_t>& axes);

// Whether a program that is being compiled may call the kernel of the op <name> for its device: where there is one, unless
// the environment variable TFJAC_XLA is "hlo", which keeps programs free of calls into this process, so that they can be
// exported. An error for other values.
absl::StatusOr<bool> MayCallKernel(const tensorflow::XlaOpKernelContext* context, const char* name);

// The shape of a buffer of a call: row-major.
xla::Shape RowMajor(xla::PrimitiveType type, absl::Span<const int64_t> sizes);

// Call the handler tfjac_<name>_f32 or _f64, by the dtype of the first operand; all buffers are row-major. `attributes` is a
// dictionary in the syntax of MLIR. `result` is a tuple where there are several results.
absl::StatusOr<xla::XlaOp> CallKernel(const char* name, absl::Span<const xla::XlaOp> operands, const xla::Shape& result,
                                      const std::string& attributes);

// The a of all factors, then the d of all.
std::vector<xla::XlaOp> OperandsOf(const std::vector<XlaFactor>& factors);

#if TFJAC_HAS_XLA_CALLS
// Registers the handlers tfjac_<name>_f32 and tfjac_<name>_f64 for a platform of XLA; none where they are null. Where XLA
// refuses one, as when the name is taken, programs compute with plain HLO, and tfjac_refused_calls() says why.
class XlaCallRegistrar {
 public:
  XlaCallRegistrar(const char* platform, const char* name, XLA_FFI_Handler* single, XLA_FFI_Handler* twice);
};
#endif

// Registers an XLA kernel in a process that has compiled with XLA before this library was loaded: TensorFlow copies the
// kernels that REGISTER_XLA_OP names to the devices of the compiler once, at the first compilation.
class LateXlaRegistrar {
 public:
  LateXlaRegistrar(const char* op, tensorflow::OpKernel* (*create)(tensorflow::OpKernelConstruction*));
};

}  // namespace tfjac

#define TFJAC_REGISTER_XLA_OP(op, Kernel)               \
  REGISTER_XLA_OP(Name(op), Kernel);                    \
  static const ::tfjac::LateXlaRegistrar late_##Kernel( \
      op, [](tensorflow::OpKernelConstruction* context) -> tensorflow::OpKernel* { return new Kernel(context); })

// Register the handlers of one op's kernels, which libtfjac.so defines: for the CPU, and for CUDA if it was built with that.
#if TFJAC_HAS_XLA_CALLS
#define TFJAC_REGISTER_XLA_CALL(name)                                                                        \
  extern "C" XLA_FFI_Handler tfjac_##name##_f32, tfjac_##name##_f64;                                         \
  extern "C" __attribute__((weak)) XLA_FFI_Handler tfjac_##name##_cuda_f32, tfjac_##name##_cuda_f64;         \
  static const ::tfjac::XlaCallRegistrar host_##name("Host", #name, tfjac_##name##_f32, tfjac_##name##_f64); \
  static const ::tfjac::XlaCallRegistrar cuda_##name("CUDA", #name, tfjac_##name##_cuda_f32, tfjac_##name##_cuda_f64)
#else
#define TFJAC_REGISTER_XLA_CALL(name) static_assert(true)
#endif

#endif  // TFJAC_CUSTOM_OPS_COMMON_XLA_SUPPORT_H_
