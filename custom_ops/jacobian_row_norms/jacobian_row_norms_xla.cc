#include "custom_ops/common/xla_support.h"

namespace tfjac {
namespace {

// [n, m]; the forms and their costs as in tfjac/ops/jacobian_row_norms.py.
xla::XlaOp NormsOf(const XlaFactor& f) {
  if (f.t == 1) {
    const xla::XlaOp a = OnlyPositionOfA(f), d = OnlyPositionOfD(f);
    return FullEinsum(SumOver(a * a, {2}), SumOver(d * d, {3}), "ng,nmg->nm");
  }
  if (f.t * f.t * (f.i + f.m * f.o + f.m) < f.m * f.i * f.o * (f.t + 1)) {
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
    xla::XlaOp sum = NormsOf(factors[0]);
    for (size_t k = 1; k < factors.size(); ++k) sum = sum + NormsOf(factors[k]);
    context->SetOutput(0, sum);
  }
};

TFJAC_REGISTER_XLA_OP("TfjacJacobianRowNorms", JacobianRowNormsXlaOp);

}  // namespace tfjac
