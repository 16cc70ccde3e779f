#include "custom_ops/common/gpu/support.h"
#include "custom_ops/damped_solve/damped_solve_kernel.h"
#include "custom_ops/damped_solve/damped_solve_run_gpu.h"

namespace tfjac {

template <typename T>
class DampedSolveGpuOp : public DampedSolveOp<T> {
 public:
  using DampedSolveOp<T>::DampedSolveOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const DampedSystems<T>& systems, T* solution, bool* success) override {
    OpStream stream(context);
    OP_REQUIRES_OK(context, StatusOf(RunDampedSolve<T>(stream, systems, solution, success)));
  }
};

TFJAC_REGISTER_GPU("TfjacDampedSolve", DampedSolveGpuOp);

}  // namespace tfjac
