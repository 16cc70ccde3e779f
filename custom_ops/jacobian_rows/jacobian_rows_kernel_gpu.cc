#include "custom_ops/common/gpu/support.h"
#include "custom_ops/jacobian_rows/jacobian_rows_gpu.h"
#include "custom_ops/jacobian_rows/jacobian_rows_kernel.h"

namespace tfjac {

template <typename T>
class JacobianRowsGpuOp : public JacobianRowsOp<T> {
 public:
  using JacobianRowsOp<T>::JacobianRowsOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const Factors<T>& factors, T* rows) override {
    const auto launch = [&](void* stream) { return LaunchJacobianRows(stream, factors, rows); };
    OP_REQUIRES_OK(context, StatusOf(OpStream(context).Run("JacobianRows", launch)));
  }
};

TFJAC_REGISTER_GPU("TfjacJacobianRows", JacobianRowsGpuOp);

}  // namespace tfjac
