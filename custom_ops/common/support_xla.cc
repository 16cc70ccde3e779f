#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "custom_ops/common/xla_support.h"
#include "tensorflow/compiler/tf2xla/xla_compiler.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "xla/hlo/builder/lib/arithmetic.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/lib/matrix.h"

namespace tfjac {
namespace {

absl::Status CheckShapes(int k, const tensorflow::TensorShape& a, const tensorflow::TensorShape& d,
                         const tensorflow::TensorShape& first_d) {
  const bool ranks = a.dims() == 4 && d.dims() == 5 && first_d.dims() == 5;
  if (ranks && a.dim_size(1) == d.dim_size(2) && a.dim_size(2) == d.dim_size(3) && a.dim_size(0) == d.dim_size(0) &&
      d.dim_size(0) == first_d.dim_size(0) && d.dim_size(1) == first_d.dim_size(1)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "A factor must be a[n,t,g,i] and d[n,m,t,g,o], with the same n and m in all factors. Received, in factor ", k,
      ": a ", a.DebugString(), ", d ", d.DebugString(), "; in factor 0: d ", first_d.DebugString()));
}

}  // namespace

absl::StatusOr<std::vector<XlaFactor>> ReadXlaFactors(tensorflow::XlaOpKernelContext* context,
                                                      const std::vector<std::string>& layouts) {
  std::vector<xla::XlaOp> a, d;
  std::vector<tensorflow::TensorShape> a_shapes, d_shapes;
  TF_RETURN_IF_ERROR(context->InputList("a", &a, &a_shapes));
  TF_RETURN_IF_ERROR(context->InputList("d", &d, &d_shapes));
  std::vector<XlaFactor> factors;
  for (size_t k = 0; k < a.size(); ++k) {
    TF_RETURN_IF_ERROR(CheckShapes(static_cast<int>(k), a_shapes[k], d_shapes[k], d_shapes[0]));
    factors.push_back(XlaFactor{a[k], d[k], a_shapes[k].dim_size(0), d_shapes[k].dim_size(1), a_shapes[k].dim_size(1),
                                a_shapes[k].dim_size(2), a_shapes[k].dim_size(3), d_shapes[k].dim_size(4),
                                layouts.empty() ? "gio" : layouts[k]});
  }
  return factors;
}

xla::XlaOp FullEinsum(xla::XlaOp x, xla::XlaOp y, absl::string_view equation) {
  return xla::Einsum(x, y, equation, xla::PrecisionConfig::HIGHEST);
}

xla::XlaOp OnlyPositionOfA(const XlaFactor& f) { return xla::Reshape(f.a, {f.n, f.g, f.i}); }
xla::XlaOp OnlyPositionOfD(const XlaFactor& f) { return xla::Reshape(f.d, {f.n, f.m, f.g, f.o}); }

xla::XlaOp ExpandFactor(const XlaFactor& f) {
  const xla::XlaOp block = FullEinsum(f.a, f.d, absl::StrCat("ntgi,nmtgo->nm", f.layout));
  return xla::Reshape(block, {f.n, f.m, f.columns()});
}

xla::XlaOp ZeroLike(xla::XlaOp x) {
  return xla::Zero(x.builder(), x.builder()->GetShape(x).value().element_type());
}

xla::XlaOp SumOver(xla::XlaOp x, const std::vector<int64_t>& axes) {
  const xla::PrimitiveType type = x.builder()->GetShape(x).value().element_type();
  return xla::Reduce(x, ZeroLike(x), xla::CreateScalarAddComputation(type, x.builder()), axes);
}

bool MayCallKernels(const tensorflow::XlaOpKernelContext* context) {
  const char* const wish = std::getenv("TFJAC_XLA");
  if (wish != nullptr && std::strcmp(wish, "hlo") == 0) return false;
  return context->compiler()->options().device_type.type_string() == tensorflow::DEVICE_CPU_XLA_JIT;
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

LateXlaRegistrar::LateXlaRegistrar(const char* op,
                                   tensorflow::OpKernel* (*create)(tensorflow::OpKernelConstruction*)) {
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
