// The OpKernel of JacobianRows up to the point where the device matters.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_ROWS_KERNEL_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_ROWS_KERNEL_H_

#include <string>
#include <vector>

#include "custom_ops/common/op/support.h"

namespace tfjac {

template <typename T>
class JacobianRowsOp : public tensorflow::OpKernel {
 public:
  explicit JacobianRowsOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    int count = 0;
    OP_REQUIRES_OK(context, context->GetAttr("K", &count));
    OP_REQUIRES_OK(context, context->GetAttr("layouts", &layouts_));
    OP_REQUIRES_OK(context, CheckLayouts(layouts_, count));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    OpFactors<T> factors;
    OP_REQUIRES_OK(context, ReadFactors(context, layouts_, &factors));
    const Factors<T>& f = factors.view;
    OP_REQUIRES_VALUE(const tensorflow::TensorShape shape, context, ResultShape({f.n, f.m, f.p}));
    tensorflow::Tensor* rows = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &rows));
    if (rows->NumElements() > 0) Run(context, f, rows->template flat<T>().data());
  }

 protected:
  // Compute the rows; never called for an empty result.
  virtual void Run(tensorflow::OpKernelContext* context, const Factors<T>& factors, T* rows) = 0;

 private:
  std::vector<std::string> layouts_;
};

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_ROWS_KERNEL_H_
