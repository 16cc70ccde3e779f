#include "custom_ops/common/xla_support.h"

namespace tfjac {

class JacobianRowsXlaOp : public tensorflow::XlaOpKernel {
 public:
  explicit JacobianRowsXlaOp(tensorflow::OpKernelConstruction* context) : XlaOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("layouts", &layouts_));
  }

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    OP_REQUIRES_VALUE(const std::vector<XlaFactor> factors, context, ReadXlaFactors(context, layouts_));
    std::vector<xla::XlaOp> blocks;
    for (const XlaFactor& f : factors) blocks.push_back(ExpandFactor(f));
    context->SetOutput(0, xla::ConcatInDim(context->builder(), blocks, 2));
  }

 private:
  std::vector<std::string> layouts_;
};

TFJAC_REGISTER_XLA_OP("TfjacJacobianRows", JacobianRowsXlaOp);

}  // namespace tfjac
