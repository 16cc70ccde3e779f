#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "custom_ops/common/xla/support.h"
#include "tensorflow/compiler/tf2xla/shape_util.h"
#include "tensorflow/core/framework/kernel_def_builder.h"

namespace tfjac {
namespace {

// The platform and the name of every kernel that can be called.
std::set<std::pair<std::string, std::string>>& Callable() {
  static std::set<std::pair<std::string, std::string>> callable;
  return callable;
}

// Which handlers XLA did not take, and why.
std::string& RefusedCalls() {
  static std::string refused;
  return refused;
}

#if TFJAC_HAS_XLA_CALLS
bool RegisterCall(const char* platform, const std::string& name, XLA_FFI_Handler* handler) {
  const XLA_FFI_Api* const api = xla::ffi::GetXlaFfiApi();
  XLA_FFI_Error* const error = xla::ffi::Ffi::RegisterStaticHandler(api, name, platform, handler);
  if (error == nullptr) return true;
  absl::StrAppend(&RefusedCalls(), RefusedCalls().empty() ? "" : "; ", name, " for ", platform, ": ",
                  xla::ffi::internal::GetErrorMessage(api, error));
  xla::ffi::internal::DestroyError(api, error);
  return false;
}
#endif

// Numbers and integers of one size, bits of the mantissa, the biased exponent of infinity.
struct IeeeFormat {
  xla::PrimitiveType type, bits;
  int64_t mantissa, special;
};

// The biased exponent of the largest number along some axes; 0 where there is none.
xla::XlaOp Exponents(xla::XlaOp x, const std::vector<int64_t>& axes, const IeeeFormat& format) {
  const xla::XlaOp bits = xla::BitcastConvertType(xla::Abs(x), format.bits);
  const xla::XlaComputation larger = xla::CreateScalarMaxComputation(format.bits, x.builder());
  const xla::XlaOp largest = xla::Reduce(bits, xla::Zero(x.builder(), format.bits), larger, axes);
  return xla::ShiftRightLogical(largest, xla::ScalarLike(largest, format.mantissa));
}

xla::XlaOp PowersOfTwo(xla::XlaOp exponents, const IeeeFormat& format) {
  const xla::XlaOp biased = exponents + xla::ScalarLike(exponents, format.special / 2);
  return xla::BitcastConvertType(xla::ShiftLeft(biased, xla::ScalarLike(biased, format.mantissa)), format.type);
}

}  // namespace

absl::StatusOr<std::vector<XlaFactor>> ReadXlaFactors(tensorflow::XlaOpKernelContext* context,
                                                      const std::vector<std::string>& layouts, int64_t blocks) {
  std::vector<xla::XlaOp> a, d;
  std::vector<tensorflow::TensorShape> a_shapes, d_shapes;
  TF_RETURN_IF_ERROR(context->InputList("a", &a, &a_shapes));
  TF_RETURN_IF_ERROR(context->InputList("d", &d, &d_shapes));
  std::vector<XlaFactor> factors;
  const int64_t size = a.size();
  TF_RETURN_IF_ERROR(CheckBlockCount(size, blocks));
  const int64_t count = size / blocks;  // factors in each block
  int64_t p = 0;
  for (int64_t k = 0; k < size; ++k) {
    const int64_t place = k % count;
    if (place == 0) p = 0;
    TF_RETURN_IF_ERROR(CheckFactor(k, a_shapes[k], d_shapes[k], d_shapes[k - place], &p));
    TF_RETURN_IF_ERROR(CheckSameColumns(k, a_shapes[k], d_shapes[k], place, a_shapes[place], d_shapes[place]));
    factors.push_back(XlaFactor{a[k], d[k], a_shapes[k].dim_size(0), d_shapes[k].dim_size(1), a_shapes[k].dim_size(1),
                                a_shapes[k].dim_size(2), a_shapes[k].dim_size(3), d_shapes[k].dim_size(4),
                                layouts.empty() ? "gio" : layouts[place]});
  }
  return factors;
}

absl::StatusOr<tensorflow::TensorShape> ShapeOfInput(tensorflow::XlaOpKernelContext* context, int index) {
  TF_ASSIGN_OR_RETURN(const xla::Shape compiled, context->InputXlaShape(index));
  tensorflow::TensorShape shape;
  TF_RETURN_IF_ERROR(tensorflow::XLAShapeToTensorShape(compiled, &shape));
  return shape;
}

xla::XlaOp FullEinsum(xla::XlaOp x, xla::XlaOp y, absl::string_view equation) {
  return xla::Einsum(x, y, equation, xla::PrecisionConfig::HIGHEST);
}

xla::XlaOp OnlyPositionOfA(const XlaFactor& f) { return xla::Reshape(f.a, {f.n, f.g, f.i}); }
xla::XlaOp OnlyPositionOfD(const XlaFactor& f) { return xla::Reshape(f.d, {f.n, f.m, f.g, f.o}); }

XlaFactor Balanced(const XlaFactor& f) {
  const bool single = f.a.builder()->GetShape(f.a).value().element_type() == xla::F32;
  const IeeeFormat format = single ? IeeeFormat{xla::F32, xla::S32, 23, 255} : IeeeFormat{xla::F64, xla::S64, 52, 2047};
  const xla::XlaOp of_a = Exponents(f.a, {3}, format), of_d = Exponents(f.d, {1, 4}, format);  // [n, t, g]
  const xla::XlaOp zero = xla::ZerosLike(of_a), special = xla::ScalarLike(of_a, format.special);
  const xla::XlaOp known = xla::Gt(of_a, zero) & xla::Lt(of_a, special) & xla::Gt(of_d, zero) & xla::Lt(of_d, special);
  const xla::XlaOp shift = xla::Select(known, (of_d - of_a) / xla::ScalarLike(of_a, 2), zero);
  XlaFactor balanced = f;
  balanced.a = f.a * xla::BroadcastInDim(PowersOfTwo(shift, format), {f.n, f.t, f.g, f.i}, {0, 1, 2});
  balanced.d = f.d * xla::BroadcastInDim(PowersOfTwo(-shift, format), {f.n, f.m, f.t, f.g, f.o}, {0, 2, 3});
  return balanced;
}

xla::XlaOp ExpandFactor(const XlaFactor& f) {
  const xla::XlaOp block = FullEinsum(f.a, f.d, absl::StrCat("ntgi,nmtgo->nm", f.layout));
  return xla::Reshape(block, {f.n, f.m, f.columns()});
}

xla::XlaOp ZeroLike(xla::XlaOp x) { return xla::Zero(x.builder(), x.builder()->GetShape(x).value().element_type()); }

xla::XlaOp SumOver(xla::XlaOp x, const std::vector<int64_t>& axes) {
  const xla::PrimitiveType type = x.builder()->GetShape(x).value().element_type();
  return xla::Reduce(x, ZeroLike(x), xla::CreateScalarAddComputation(type, x.builder()), axes);
}

absl::StatusOr<bool> MayCallKernel(const tensorflow::XlaOpKernelContext* context, const char* name) {
  const char* const set = std::getenv("TFJAC_XLA");
  const absl::string_view wish = set == nullptr ? "" : set;
  if (wish == "hlo") return false;
  if (!wish.empty() && wish != "call") {
    return absl::InvalidArgumentError(
        absl::StrCat("The environment variable TFJAC_XLA must be one of call, hlo. Received: '", wish, "'"));
  }
  const std::string device = context->op_kernel_context()->device()->attributes().device_type();
  return (device == tensorflow::DEVICE_CPU_XLA_JIT && Callable().count({"Host", name}) > 0) ||
         (device == tensorflow::DEVICE_GPU_XLA_JIT && Callable().count({"CUDA", name}) > 0);
}

xla::Shape RowMajor(xla::PrimitiveType type, absl::Span<const int64_t> sizes) {
  return xla::ShapeUtil::MakeShapeWithDescendingLayout(type, sizes);
}

absl::StatusOr<xla::XlaOp> CallKernel(const char* name, absl::Span<const xla::XlaOp> operands, const xla::Shape& result,
                                      const std::string& attributes) {
  std::vector<xla::Shape> shapes;
  for (const xla::XlaOp operand : operands) {
    TF_ASSIGN_OR_RETURN(const xla::Shape shape, operand.builder()->GetShape(operand));
    shapes.push_back(RowMajor(shape.element_type(), shape.dimensions()));
  }
  const char* const dtype = shapes[0].element_type() == xla::F32 ? "_f32" : "_f64";
  return xla::CustomCallWithLayout(operands[0].builder(), absl::StrCat("tfjac_", name, dtype), operands, result, shapes,
                                   attributes, /*has_side_effect=*/false, /*output_operand_aliasing=*/{},
                                   /*literal=*/nullptr, xla::CustomCallSchedule::SCHEDULE_NONE,
                                   xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
}

std::vector<xla::XlaOp> OperandsOf(const std::vector<XlaFactor>& factors) {
  std::vector<xla::XlaOp> operands;
  for (const XlaFactor& f : factors) operands.push_back(f.a);
  for (const XlaFactor& f : factors) operands.push_back(f.d);
  return operands;
}

#if TFJAC_HAS_XLA_CALLS
XlaCallRegistrar::XlaCallRegistrar(const char* platform, const char* name, XLA_FFI_Handler* single,
                                   XLA_FFI_Handler* twice) {
  if (single == nullptr || twice == nullptr) return;
  const std::string target = absl::StrCat("tfjac_", name);
  const bool registered =
      RegisterCall(platform, target + "_f32", single) && RegisterCall(platform, target + "_f64", twice);
  if (registered) Callable().emplace(platform, name);
}
#endif

LateXlaRegistrar::LateXlaRegistrar(const char* op, tensorflow::OpKernel* (*create)(tensorflow::OpKernelConstruction*)) {
  bool compiled_before = false;
  const tensorflow::KernelList kernels = tensorflow::GetRegisteredKernelsForOp("AddV2");
  for (const tensorflow::KernelDef& kernel : kernels.kernel()) {
    compiled_before = compiled_before || kernel.device_type() == tensorflow::DEVICE_CPU_XLA_JIT;
  }
  if (!compiled_before) return;
  for (const char* device : {tensorflow::DEVICE_CPU_XLA_JIT, tensorflow::DEVICE_GPU_XLA_JIT}) {
    const tensorflow::KernelDef* const kernel = tensorflow::KernelDefBuilder(op).Device(device).Build();
    tensorflow::kernel_factory::OpKernelRegistrar(kernel, op, create);
  }
}

}  // namespace tfjac

// Which handlers XLA did not take, and why; empty where it took all.
extern "C" __attribute__((visibility("default"))) const char* tfjac_refused_calls() {
  return tfjac::RefusedCalls().c_str();
}
