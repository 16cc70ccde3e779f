#include "custom_ops/common/xla/support.h"

namespace tfjac {

class ExampleGramsXlaOp : public tensorflow::XlaOpKernel {
 public:
  using XlaOpKernel::XlaOpKernel;

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    OP_REQUIRES_VALUE(const tensorflow::TensorShape jacobian, context, ShapeOfInput(context, 0));
    OP_REQUIRES_VALUE(const tensorflow::TensorShape residual, context, ShapeOfInput(context, 1));
    OP_REQUIRES_OK(context, CheckBlocks(jacobian, residual));
    const int64_t n = jacobian.dim_size(0), p = jacobian.dim_size(2);
    const xla::XlaOp j = context->Input(0), r = context->Input(1);
    OP_REQUIRES_VALUE(const bool may_call, context, MayCallKernel(context, "example_grams"));
    if (n * p > 0 && may_call) {
      const xla::PrimitiveType type = context->input_xla_type(0);
      const xla::Shape results = xla::ShapeUtil::MakeTupleShape({RowMajor(type, {n, p, p}), RowMajor(type, {n, p})});
      OP_REQUIRES_VALUE(const xla::XlaOp both, context,
                        CallKernel("example_grams", {j, r}, results, /*attributes=*/""));
      for (int result : {0, 1}) context->SetOutput(result, xla::GetTupleElement(both, result));
      return;
    }
    context->SetOutput(0, FullEinsum(j, j, "nmp,nmq->npq"));
    context->SetOutput(1, FullEinsum(j, r, "nmp,nm->np"));
  }
};

TFJAC_REGISTER_XLA_CALL(example_grams);
TFJAC_REGISTER_XLA_OP("TfjacExampleGrams", ExampleGramsXlaOp);

}  // namespace tfjac
