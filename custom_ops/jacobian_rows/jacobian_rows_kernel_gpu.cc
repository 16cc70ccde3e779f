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
    OP_REQUIRES_OK(context, StatusOfLaunch("JacobianRows", LaunchJacobianRows(StreamOf(context), factors, rows)));
  }
};

TFJAC_REGISTER_GPU("TfjacJacobianRows", JacobianRowsGpuOp);

}  // namespace tfjac
