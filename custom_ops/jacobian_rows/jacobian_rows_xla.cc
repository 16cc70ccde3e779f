#include "custom_ops/common/xla/support.h"

namespace tfjac {

class JacobianRowsXlaOp : public tensorflow::XlaOpKernel {
 public:
  explicit JacobianRowsXlaOp(tensorflow::OpKernelConstruction* context) : XlaOpKernel(context) {
    int count = 0;
    OP_REQUIRES_OK(context, context->GetAttr("K", &count));
    OP_REQUIRES_OK(context, context->GetAttr("layouts", &layouts_));
    OP_REQUIRES_OK(context, CheckLayouts(layouts_, count));
  }

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    OP_REQUIRES_VALUE(const std::vector<XlaFactor> factors, context, ReadXlaFactors(context, layouts_));
    int64_t p = 0;
    for (const XlaFactor& f : factors) p += f.columns();
    OP_REQUIRES_OK(context, ResultShape({factors[0].n, factors[0].m, p}).status());
    std::vector<xla::XlaOp> blocks;
    for (const XlaFactor& f : factors) blocks.push_back(ExpandFactor(f));
    context->SetOutput(0, xla::ConcatInDim(context->builder(), blocks, 2));
  }

 private:
  std::vector<std::string> layouts_;
};

TFJAC_REGISTER_XLA_OP("TfjacJacobianRows", JacobianRowsXlaOp);

}  // namespace tfjac
