// The OpKernel of JacobianGram up to the point where the device matters.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_KERNEL_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_KERNEL_H_

#include <string>
#include <vector>

#include "custom_ops/common/op/support.h"

namespace tfjac {

template <typename T>
class JacobianGramOp : public tensorflow::OpKernel {
 public:
  explicit JacobianGramOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    int count = 0, residuals = 0;
    OP_REQUIRES_OK(context, context->GetAttr("K", &count));
    OP_REQUIRES_OK(context, context->GetAttr("R", &residuals));
    OP_REQUIRES_OK(context, context->GetAttr("layouts", &layouts_));
    OP_REQUIRES_OK(context, CheckLayouts(layouts_, count));
    OP_REQUIRES_OK(context, CheckResiduals(residuals));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    OpFactors<T> factors;
    OP_REQUIRES_OK(context, ReadFactors(context, layouts_, &factors));
    const Factors<T>& f = factors.view;
    tensorflow::OpInputList residuals;
    OP_REQUIRES_OK(context, context->input_list("residual", &residuals));
    const T* residual = nullptr;
    if (residuals.size() == 1) {
      OP_REQUIRES_OK(context, CheckResidual(residuals[0].shape(), f.n, f.m));
      residual = residuals[0].template flat<T>().data();
    }
    OP_REQUIRES_VALUE(const tensorflow::TensorShape shape, context, ResultShape({f.p, f.p}));
    tensorflow::Tensor *gram = nullptr, *gradient = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &gram));
    OP_REQUIRES_OK(context, context->allocate_output(1, tensorflow::TensorShape({f.p}), &gradient));
    if (f.p > 0) Run(context, f, residual, gram->template flat<T>().data(), gradient->template flat<T>().data());
  }

 protected:
  // Compute both results; `residual` may be null (then the gradient is zero). n or m may be 0, p is not.
  virtual void Run(tensorflow::OpKernelContext* context, const Factors<T>& factors, const T* residual, T* gram,
                   T* gradient) = 0;

 private:
  std::vector<std::string> layouts_;
};

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_KERNEL_H_
