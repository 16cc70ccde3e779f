// The OpKernel of ExampleGrams up to the point where the device matters.
#ifndef TFJAC_CUSTOM_OPS_EXAMPLE_GRAMS_KERNEL_H_
#define TFJAC_CUSTOM_OPS_EXAMPLE_GRAMS_KERNEL_H_

#include "custom_ops/common/op/support.h"
#include "custom_ops/example_grams/example_grams.h"

namespace tfjac {

template <typename T>
class ExampleGramsOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor &jacobian = context->input(0), &residual = context->input(1);
    OP_REQUIRES_OK(context, CheckBlocks(jacobian.shape(), residual.shape()));
    const int64_t n = jacobian.dim_size(0), m = jacobian.dim_size(1), p = jacobian.dim_size(2);
    OP_REQUIRES_VALUE(const tensorflow::TensorShape shape, context, ResultShape({n, p, p}));
    tensorflow::Tensor *gram = nullptr, *gradient = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &gram));
    OP_REQUIRES_OK(context, context->allocate_output(1, {n, p}, &gradient));
    const ExampleBlocks<T> blocks{n, m, p, jacobian.flat<T>().data(), residual.flat<T>().data()};
    if (gram->NumElements() > 0) Run(context, blocks, gram->flat<T>().data(), gradient->flat<T>().data());
  }

 protected:
  // Compute the products; never called for empty results. m may be 0: then they are zero.
  virtual void Run(tensorflow::OpKernelContext* context, const ExampleBlocks<T>& blocks, T* gram, T* gradient) = 0;
};

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_EXAMPLE_GRAMS_KERNEL_H_
