#include "custom_ops/common/gpu/support.h"
#include "custom_ops/jacobian_row_norms/jacobian_row_norms_gpu.h"
#include "custom_ops/jacobian_row_norms/jacobian_row_norms_kernel.h"

namespace tfjac {

template <typename T>
class JacobianRowNormsGpuOp : public JacobianRowNormsOp<T> {
 public:
  using JacobianRowNormsOp<T>::JacobianRowNormsOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const Factors<T>& factors, T* norms) override {
    const auto launch = [&](void* stream) { return LaunchJacobianRowNorms(stream, factors, norms); };
    OP_REQUIRES_OK(context, StatusOf(OpStream(context).Run("JacobianRowNorms", launch)));
  }
};

TFJAC_REGISTER_GPU("TfjacJacobianRowNorms", JacobianRowNormsGpuOp);

}  // namespace tfjac
