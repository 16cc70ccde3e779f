#include "custom_ops/jacobian_row_norms/jacobian_row_norms_kernel.h"

#include "custom_ops/jacobian_row_norms/jacobian_row_norms.h"

namespace tfjac {

template <typename T>
class JacobianRowNormsCpuOp : public JacobianRowNormsOp<T> {
 public:
  using JacobianRowNormsOp<T>::JacobianRowNormsOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const Factors<T>& factors, T* norms) override {
    OpRuntime runtime(context);
    OP_REQUIRES(context, TFJAC_BEST(JacobianRowNorms<T>)(runtime.runtime(), factors, norms),
                StatusOf(OutOfScratch("JacobianRowNorms")));
  }
};

TFJAC_REGISTER_CPU("TfjacJacobianRowNorms", JacobianRowNormsCpuOp);

}  // namespace tfjac
