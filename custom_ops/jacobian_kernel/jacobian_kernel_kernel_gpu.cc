#include "custom_ops/common/gpu/call.h"
#include "custom_ops/jacobian_kernel/jacobian_kernel_call.h"
#include "custom_ops/jacobian_kernel/jacobian_kernel_gpu.h"
#include "custom_ops/jacobian_kernel/jacobian_kernel_kernel.h"

namespace tfjac {

template <typename T>
absl::Status RunJacobianKernel(GpuStream& stream, const Blocks<T>& blocks, T* kernel) {
  return stream.Run(
      "JacobianKernel", [&](void* on, int64_t* bytes) { return JacobianKernelWorkspace(on, blocks, bytes); },
      [&](void* on, void* workspace) { return LaunchJacobianKernel(on, blocks, kernel, workspace); });
}

template <typename T>
class JacobianKernelGpuOp : public JacobianKernelOp<T> {
 public:
  using JacobianKernelOp<T>::JacobianKernelOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const Blocks<T>& blocks, T* kernel) override {
    OpStream stream(context);
    OP_REQUIRES_OK(context, RunJacobianKernel<T>(stream, blocks, kernel));
  }
};

TFJAC_REGISTER_GPU("TfjacJacobianKernel", JacobianKernelGpuOp);
TFJAC_DEFINE_XLA_CALL(jacobian_kernel_cuda, JacobianKernelCall, CallStream);

}  // namespace tfjac
