#include "custom_ops/common/forms.h"
#include "custom_ops/common/xla/support.h"

namespace tfjac {
namespace {

// [n, m], in the form of the twin.
xla::XlaOp NormsOf(const XlaFactor& given, xla::PrimitiveType type) {
  if (given.t == 1) {  // nothing but the reading of a and d: balancing them would take several times as long
    const xla::XlaOp a = xla::ConvertElementType(OnlyPositionOfA(given), xla::F64);
    const xla::XlaOp d = xla::ConvertElementType(OnlyPositionOfD(given), xla::F64);
    const xla::XlaOp norms = FullEinsum(SumOver(a * a, {2}), SumOver(d * d, {3}), "ng,nmg->nm");
    return xla::ConvertElementType(norms, type);
  }
  const XlaFactor f = Balanced(given);
  if (NormCostsByContraction(SizesOf(f, f.n, f.m)).Pairs()) {
    const xla::XlaOp a = FullEinsum(f.a, f.a, "ntgi,nsgi->ntsg");
    return FullEinsum(a, FullEinsum(f.d, f.d, "nmtgo,nmsgo->nmtsg"), "ntsg,nmtsg->nm");
  }
  const xla::XlaOp rows = ExpandFactor(f);
  return SumOver(rows * rows, {2});
}

}  // namespace

class JacobianRowNormsXlaOp : public tensorflow::XlaOpKernel {
 public:
  using XlaOpKernel::XlaOpKernel;

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    OP_REQUIRES_VALUE(const std::vector<XlaFactor> factors, context, ReadXlaFactors(context, {}));
    const xla::PrimitiveType type = context->input_xla_type(0);
    xla::XlaOp sum = NormsOf(factors[0], type);
    for (size_t k = 1; k < factors.size(); ++k) sum = sum + NormsOf(factors[k], type);
    context->SetOutput(0, sum);
  }
};

TFJAC_REGISTER_XLA_OP("TfjacJacobianRowNorms", JacobianRowNormsXlaOp);

}  // namespace tfjac
