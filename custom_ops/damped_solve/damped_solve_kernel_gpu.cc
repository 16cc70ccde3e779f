#include "custom_ops/common/gpu/call.h"
#include "custom_ops/damped_solve/damped_solve_call.h"
#include "custom_ops/damped_solve/damped_solve_gpu.h"
#include "custom_ops/damped_solve/damped_solve_kernel.h"

namespace tfjac {

template <typename T>
absl::Status RunDampedSolve(GpuStream& stream, const DampedSystems<T>& systems, T* solution, bool* success) {
  return stream.Run(
      "DampedSolve", [&](void* on, int64_t* bytes) { return DampedSolveWorkspace(on, systems, bytes); },
      [&](void* on, void* workspace) { return LaunchDampedSolve(on, systems, solution, success, workspace); });
}

template <typename T>
class DampedSolveGpuOp : public DampedSolveOp<T> {
 public:
  using DampedSolveOp<T>::DampedSolveOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const DampedSystems<T>& systems, T* solution, bool* success) override {
    OpStream stream(context);
    OP_REQUIRES_OK(context, RunDampedSolve<T>(stream, systems, solution, success));
  }
};

TFJAC_REGISTER_GPU("TfjacDampedSolve", DampedSolveGpuOp);
TFJAC_DEFINE_XLA_CALL(damped_solve_cuda, DampedSolveCall, CallStream);

}  // namespace tfjac
