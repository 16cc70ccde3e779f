// The OpKernel of JacobianKernel up to the point where the device matters.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_KERNEL_KERNEL_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_KERNEL_KERNEL_H_

#include "custom_ops/common/op/support.h"

namespace tfjac {

template <typename T>
class JacobianKernelOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    OpFactors<T> factors;
    OP_REQUIRES_OK(context, ReadFactors(context, {}, &factors));
    const Factors<T>& f = factors.view;
    OP_REQUIRES_VALUE(const tensorflow::TensorShape rows, context, ResultShape({f.n, f.m}));
    OP_REQUIRES_VALUE(const tensorflow::TensorShape shape, context,
                      ResultShape({rows.num_elements(), rows.num_elements()}));
    tensorflow::Tensor* kernel = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &kernel));
    if (kernel->NumElements() > 0) Run(context, f, kernel->template flat<T>().data());
  }

 protected:
  // Compute the kernel; never called for an empty result. p may be 0: then the kernel is zero.
  virtual void Run(tensorflow::OpKernelContext* context, const Factors<T>& factors, T* kernel) = 0;
};

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_KERNEL_KERNEL_H_
