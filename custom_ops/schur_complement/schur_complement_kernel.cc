#include "custom_ops/common/op/support.h"
#include "custom_ops/schur_complement/schur_complement.h"

namespace tfjac {

template <typename T>
class SchurComplementCpuOp : public tensorflow::OpKernel {
 public:
  explicit SchurComplementCpuOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("size", &size_));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor &values = context->input(0), &columns = context->input(1), &block = context->input(2);
    const tensorflow::Tensor &group = context->input(3), &matrix = context->input(4), &vector = context->input(5);
    OP_REQUIRES_OK(context, CheckSparseExamples(values.shape(), columns.shape(), block.shape(), group.shape(),
                                                matrix.shape(), vector.shape()));
    OP_REQUIRES_VALUE(const tensorflow::TensorShape square, context, ResultShape({size_, size_}));
    tensorflow::Tensor *complement = nullptr, *projected = nullptr, *success = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, square, &complement));
    OP_REQUIRES_OK(context, context->allocate_output(1, {size_}, &projected));
    OP_REQUIRES_OK(context, context->allocate_output(2, {}, &success));
    const SparseExamples<T> examples{values.dim_size(0),
                                     values.dim_size(1),
                                     values.dim_size(2),
                                     block.dim_size(2),
                                     size_,
                                     vector.dim_size(0),
                                     values.flat<T>().data(),
                                     columns.flat<int32_t>().data(),
                                     block.flat<T>().data(),
                                     group.flat<int32_t>().data(),
                                     matrix.flat<T>().data(),
                                     vector.flat<T>().data()};
    OpRuntime runtime(context);
    const SchurStatus status =
        TFJAC_BEST(SchurComplement<T>)(runtime.runtime(), examples, complement->flat<T>().data(),
                                       projected->flat<T>().data(), success->flat<bool>().data());
    OP_REQUIRES(context, status != SchurStatus::kNoMemory, StatusOf(OutOfScratch("SchurComplement")));
    OP_REQUIRES(context, status != SchurStatus::kOutOfRange,
                absl::InvalidArgumentError(absl::StrCat("`columns` must be in [0, ", size_, ") and `group` below ",
                                                        vector.dim_size(0), ". Received: others")));
  }

 private:
  int64_t size_;
};

TFJAC_REGISTER_CPU("TfjacSchurComplement", SchurComplementCpuOp);

}  // namespace tfjac
