#include "custom_ops/common/gpu/support.h"
#include "custom_ops/jacobian_kernel/jacobian_kernel_kernel.h"
#include "custom_ops/jacobian_kernel/jacobian_kernel_run_gpu.h"

namespace tfjac {

template <typename T>
class JacobianKernelGpuOp : public JacobianKernelOp<T> {
 public:
  using JacobianKernelOp<T>::JacobianKernelOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const Blocks<T>& blocks, T* kernel) override {
    OpStream stream(context);
    OP_REQUIRES_OK(context, StatusOf(RunJacobianKernel<T>(stream, blocks, kernel)));
  }
};

TFJAC_REGISTER_GPU("TfjacJacobianKernel", JacobianKernelGpuOp);

}  // namespace tfjac
