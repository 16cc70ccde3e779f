#include "custom_ops/damped_solve/damped_solve_kernel.h"

namespace tfjac {

template <typename T>
class DampedSolveCpuOp : public DampedSolveOp<T> {
 public:
  using DampedSolveOp<T>::DampedSolveOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const DampedSystems<T>& systems, T* solution, bool* success) override {
    OpRuntime runtime(context);
    OP_REQUIRES(context, TFJAC_BEST(DampedSolve<T>)(runtime.runtime(), systems, solution, success),
                StatusOf(OutOfScratch("DampedSolve")));
  }
};

TFJAC_REGISTER_CPU("TfjacDampedSolve", DampedSolveCpuOp);

}  // namespace tfjac
