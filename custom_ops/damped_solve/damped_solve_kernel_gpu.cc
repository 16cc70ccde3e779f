#include "custom_ops/common/gpu/support.h"
#include "custom_ops/damped_solve/damped_solve_gpu.h"
#include "custom_ops/damped_solve/damped_solve_kernel.h"

namespace tfjac {

template <typename T>
class DampedSolveGpuOp : public DampedSolveOp<T> {
 public:
  using DampedSolveOp<T>::DampedSolveOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const DampedSystems<T>& systems, T* solution, bool* success) override {
    void* const stream = StreamOf(context);
    int64_t bytes = 0;
    OP_REQUIRES_OK(context, StatusOfLaunch("DampedSolve", DampedSolveWorkspace(stream, systems, &bytes)));
    GpuWorkspace workspace;
    OP_REQUIRES_OK(context, workspace.Allocate(context, bytes));
    OP_REQUIRES_OK(context, StatusOfLaunch("DampedSolve", LaunchDampedSolve(stream, systems, solution, success,
                                                                            workspace.data())));
  }
};

TFJAC_REGISTER_GPU("TfjacDampedSolve", DampedSolveGpuOp);

}  // namespace tfjac
