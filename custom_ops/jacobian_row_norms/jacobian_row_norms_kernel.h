// The OpKernel of JacobianRowNorms up to the point where the device matters.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_ROW_NORMS_KERNEL_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_ROW_NORMS_KERNEL_H_

#include "custom_ops/common/op/support.h"

namespace tfjac {

template <typename T>
class JacobianRowNormsOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    OpFactors<T> factors;
    OP_REQUIRES_OK(context, ReadFactors(context, {}, &factors));
    const Factors<T>& f = factors.view;
    OP_REQUIRES_VALUE(const tensorflow::TensorShape shape, context, ResultShape({f.n, f.m}));
    tensorflow::Tensor* norms = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &norms));
    if (norms->NumElements() > 0) Run(context, f, norms->template flat<T>().data());
  }

 protected:
  // Compute the squared norms; never called for an empty result. p may be 0: then they are zero.
  virtual void Run(tensorflow::OpKernelContext* context, const Factors<T>& factors, T* norms) = 0;
};

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_ROW_NORMS_KERNEL_H_
