#include "absl/strings/str_cat.h"
#include "custom_ops/common/forms.h"
#include "custom_ops/common/xla/support.h"

namespace tfjac {
namespace {

// [n, m, n, m], in the form of the twin.
xla::XlaOp KernelOf(const XlaFactor& given) {
  const XlaFactor f = Balanced(given);
  const bool pairs = KernelCostsByContraction(SizesOf(f, f.n, f.m)).Pairs();
  if (pairs && f.t == 1) {
    const xla::XlaOp a = OnlyPositionOfA(f), d = OnlyPositionOfD(f);
    if (f.g > 1) {
      return FullEinsum(FullEinsum(a, a, "ngi,xgi->nxg"), FullEinsum(d, d, "nmgo,xygo->nmxyg"), "nxg,nmxyg->nmxy");
    }
    const xla::XlaOp products = FullEinsum(a, a, "ngi,xgi->nx");
    const xla::XlaOp spread = xla::BroadcastInDim(products, {f.n, f.m, f.n, f.m}, {0, 2});
    return spread * FullEinsum(d, d, "nmgo,xygo->nmxy");
  }
  if (pairs) {
    const xla::XlaOp products = FullEinsum(f.a, f.a, "ntgi,xsgi->ntxsg");
    return FullEinsum(f.d, FullEinsum(products, f.d, "ntxsg,xysgo->ntxygo"), "nmtgo,ntxygo->nmxy");
  }
  const xla::XlaOp rows = ExpandFactor(f);
  return FullEinsum(rows, rows, "nmp,xyp->nmxy");
}

}  // namespace

class JacobianKernelXlaOp : public tensorflow::XlaOpKernel {
 public:
  using XlaOpKernel::XlaOpKernel;

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    OP_REQUIRES_VALUE(const std::vector<XlaFactor> factors, context, ReadXlaFactors(context, {}));
    OP_REQUIRES_VALUE(const tensorflow::TensorShape rows, context, ResultShape({factors[0].n, factors[0].m}));
    const int64_t size = rows.num_elements();
    OP_REQUIRES_OK(context, ResultShape({size, size}).status());
    OP_REQUIRES_VALUE(const bool may_call, context, MayCallKernels(context));
    if (size > 0 && may_call) {
      const xla::Shape shape = RowMajor(context->input_xla_type(0), {size, size});
      OP_REQUIRES_VALUE(const xla::XlaOp kernel, context,
                        CallKernel("jacobian_kernel", OperandsOf(factors), shape,
                                   absl::StrCat("{count = ", factors.size(), " : i64}")));
      context->SetOutput(0, kernel);
      return;
    }
    xla::XlaOp sum = KernelOf(factors[0]);
    for (size_t k = 1; k < factors.size(); ++k) sum = sum + KernelOf(factors[k]);
    context->SetOutput(0, xla::Reshape(sum, {size, size}));
  }
};

TFJAC_REGISTER_XLA_CALL(jacobian_kernel);
TFJAC_REGISTER_XLA_OP("TfjacJacobianKernel", JacobianKernelXlaOp);

}  // namespace tfjac
