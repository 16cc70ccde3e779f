#include "custom_ops/jacobian_kernel/jacobian_kernel_kernel.h"

#include "custom_ops/jacobian_kernel/jacobian_kernel.h"

namespace tfjac {

template <typename T>
class JacobianKernelCpuOp : public JacobianKernelOp<T> {
 public:
  using JacobianKernelOp<T>::JacobianKernelOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const Blocks<T>& blocks, T* kernel) override {
    OpRuntime runtime(context);
    OP_REQUIRES(context, TFJAC_BEST(JacobianKernel<T>)(runtime.runtime(), blocks, kernel),
                StatusOf(OutOfScratch("JacobianKernel")));
  }
};

TFJAC_REGISTER_CPU("TfjacJacobianKernel", JacobianKernelCpuOp);

}  // namespace tfjac
