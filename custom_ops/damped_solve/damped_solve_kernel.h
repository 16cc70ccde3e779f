// The OpKernel of DampedSolve up to the point where the device matters.
#ifndef TFJAC_CUSTOM_OPS_DAMPED_SOLVE_KERNEL_H_
#define TFJAC_CUSTOM_OPS_DAMPED_SOLVE_KERNEL_H_

#include "absl/strings/str_cat.h"
#include "custom_ops/common/op_support.h"
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
    const int64_t p = rhs.NumElements();
    OP_REQUIRES(context,
                rhs.dims() == 1 && scaling.shape() == rhs.shape() && damping.dims() <= 1 &&
                    matrix.shape() == tensorflow::TensorShape({p, p}),
                absl::InvalidArgumentError(absl::StrCat(
                    "The shapes must be matrix [p,p], rhs [p], scaling [p] and damping [] or [k]. Received: matrix ",
                    matrix.shape().DebugString(), ", rhs ", rhs.shape().DebugString(), ", scaling ",
                    scaling.shape().DebugString(), ", damping ", damping.shape().DebugString())));
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
                                   damping.flat<T>().data()};
    Run(context, systems, solution->template flat<T>().data(), success->template flat<bool>().data());
  }

 protected:
  // Solve the systems; there is at least one. p may be 0.
  virtual void Run(tensorflow::OpKernelContext* context, const DampedSystems<T>& systems, T* solution,
                   bool* success) = 0;
};

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_DAMPED_SOLVE_KERNEL_H_
