#include "custom_ops/common/xla/support.h"

namespace tfjac {

class SchurComplementXlaOp : public tensorflow::XlaOpKernel {
 public:
  explicit SchurComplementXlaOp(tensorflow::OpKernelConstruction* context) : XlaOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("size", &size_));
  }

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    std::vector<tensorflow::TensorShape> shapes;
    std::vector<xla::XlaOp> operands;
    for (int index = 0; index < context->num_inputs(); ++index) {
      OP_REQUIRES_VALUE(const tensorflow::TensorShape shape, context, ShapeOfInput(context, index));
      shapes.push_back(shape);
      operands.push_back(context->Input(index));
    }
    OP_REQUIRES_OK(context, CheckSparseExamples(shapes[0], shapes[1], shapes[2], shapes[3], shapes[4], shapes[5]));
    OP_REQUIRES_VALUE(const bool may_call, context, MayCallKernel(context, "schur_complement"));
    OP_REQUIRES(
        context, may_call,
        absl::UnimplementedError("SchurComplement is compiled by XLA for the CPU alone, as a call of its kernel: "
                                 "use solver='cg', or leave jit_compile out."));
    const xla::PrimitiveType type = context->input_xla_type(0);
    const xla::Shape results = xla::ShapeUtil::MakeTupleShape(
        {RowMajor(type, {size_, size_}), RowMajor(type, {size_}), RowMajor(xla::PRED, {})});
    OP_REQUIRES_VALUE(const xla::XlaOp all, context,
                      CallKernel("schur_complement", operands, results, /*attributes=*/""));
    for (int result : {0, 1, 2}) context->SetOutput(result, xla::GetTupleElement(all, result));
  }

 private:
  int64_t size_;
};

TFJAC_REGISTER_XLA_CALL(schur_complement);
TFJAC_REGISTER_XLA_OP("TfjacSchurComplement", SchurComplementXlaOp);

}  // namespace tfjac
