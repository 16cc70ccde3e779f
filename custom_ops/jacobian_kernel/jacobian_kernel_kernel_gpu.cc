#include "custom_ops/common/gpu/support.h"
#include "custom_ops/jacobian_kernel/jacobian_kernel_gpu.h"
#include "custom_ops/jacobian_kernel/jacobian_kernel_kernel.h"

namespace tfjac {

template <typename T>
class JacobianKernelGpuOp : public JacobianKernelOp<T> {
 public:
  using JacobianKernelOp<T>::JacobianKernelOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const Blocks<T>& blocks, T* kernel) override {
    void* const stream = StreamOf(context);
    int64_t bytes = 0;
    OP_REQUIRES_OK(context, StatusOfLaunch("JacobianKernel", JacobianKernelWorkspace(stream, blocks, &bytes)));
    GpuWorkspace workspace;
    OP_REQUIRES_OK(context, workspace.Allocate(context, bytes));
    OP_REQUIRES_OK(context, StatusOfLaunch("JacobianKernel",
                                           LaunchJacobianKernel(stream, blocks, kernel, workspace.data())));
  }
};

TFJAC_REGISTER_GPU("TfjacJacobianKernel", JacobianKernelGpuOp);

}  // namespace tfjac
