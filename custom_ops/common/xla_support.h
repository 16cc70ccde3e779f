// What the XLA kernels share. Each lowers its op to plain HLO, in the form that the twin in tfjac/ops/<op>.py takes for the
// same sizes, so that it compiles for every backend.
#ifndef TFJAC_CUSTOM_OPS_COMMON_XLA_SUPPORT_H_
#define TFJAC_CUSTOM_OPS_COMMON_XLA_SUPPORT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tfjac {

// A factor while XLA compiles: values yet to be computed, sizes known.
struct XlaFactor {
  xla::XlaOp a;  // [n, t, g, i]
  xla::XlaOp d;  // [n, m, t, g, o]
  int64_t n, m, t, g, i, o;
  std::string layout;

  int64_t columns() const { return g * i * o; }
};

// Read the inputs "a" and "d" and check every shape. `layouts` has one entry per factor, or none.
absl::StatusOr<std::vector<XlaFactor>> ReadXlaFactors(tensorflow::XlaOpKernelContext* context,
                                                      const std::vector<std::string>& layouts);

// Einsum in the full precision of the dtype, on every backend.
xla::XlaOp FullEinsum(xla::XlaOp x, xla::XlaOp y, absl::string_view equation);

// a[n, g, i] and d[n, m, g, o] of a factor with one position of use.
xla::XlaOp OnlyPositionOfA(const XlaFactor& f);
xla::XlaOp OnlyPositionOfD(const XlaFactor& f);

// The columns of a factor, [n, m, g·i·o].
xla::XlaOp ExpandFactor(const XlaFactor& f);

// A scalar zero of the dtype, and sums over some axes.
xla::XlaOp ZeroLike(xla::XlaOp x);
xla::XlaOp SumOver(xla::XlaOp x, const std::vector<int64_t>& axes);

// Registers an XLA kernel in a process that has compiled with XLA before this library was loaded: TensorFlow copies the
// kernels that REGISTER_XLA_OP names to the devices of the compiler once, at the first compilation.
class LateXlaRegistrar {
 public:
  LateXlaRegistrar(const char* op, tensorflow::OpKernel* (*create)(tensorflow::OpKernelConstruction*));
};

}  // namespace tfjac

#define TFJAC_REGISTER_XLA_OP(op, Kernel)                 \
  REGISTER_XLA_OP(Name(op), Kernel);                      \
  static const ::tfjac::LateXlaRegistrar late_##Kernel(   \
      op, [](tensorflow::OpKernelConstruction* context) -> tensorflow::OpKernel* { return new Kernel(context); })

#endif  // TFJAC_CUSTOM_OPS_COMMON_XLA_SUPPORT_H_
