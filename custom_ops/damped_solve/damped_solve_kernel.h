// The OpKernel of DampedSolve up to the point where the device matters.
#ifndef TFJAC_CUSTOM_OPS_DAMPED_SOLVE_KERNEL_H_
#define TFJAC_CUSTOM_OPS_DAMPED_SOLVE_KERNEL_H_

#include "custom_ops/common/op/support.h"
#include "custom_ops/damped_solve/damped_solve.h"

namespace tfjac {

template <typename T>
class DampedSolveOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor& matrix = context->input(0);
    const tensorflow::Tensor& rhs = context->input(1);
    const tensorflow::Tensor& scaling = context->input(2);
    const tensorflow::Tensor& damping = context->input(3);
    OP_REQUIRES_OK(context, CheckSystem(matrix.shape(), rhs.shape(), scaling.shape(), damping.shape()));
    const int64_t p = rhs.dim_size(rhs.dims() - 1);
    tensorflow::TensorShape shape = damping.shape();
    OP_REQUIRES_OK(context, shape.AddDimWithStatus(p));
    tensorflow::Tensor *solution = nullptr, *success = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &solution));
    OP_REQUIRES_OK(context, context->allocate_output(1, damping.shape(), &success));
    if (damping.NumElements() == 0) return;
    const DampedSystems<T> systems{p,
                                   damping.NumElements(),
                                   matrix.flat<T>().data(),
                                   rhs.flat<T>().data(),
                                   scaling.flat<T>().data(),
                                   damping.flat<T>().data(),
                                   matrix.dims() - 2};
    Run(context, systems, solution->template flat<T>().data(), success->template flat<bool>().data());
  }

 protected:
  // Solve the systems; there is at least one. p may be 0.
  virtual void Run(tensorflow::OpKernelContext* context, const DampedSystems<T>& systems, T* solution,
                   bool* success) = 0;
};

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_DAMPED_SOLVE_KERNEL_H_
