#include "custom_ops/jacobian_rows/jacobian_rows_kernel.h"

#include "custom_ops/jacobian_rows/jacobian_rows.h"

namespace tfjac {

template <typename T>
class JacobianRowsCpuOp : public JacobianRowsOp<T> {
 public:
  using JacobianRowsOp<T>::JacobianRowsOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const Factors<T>& factors, T* rows) override {
    OpRuntime runtime(context);
    OP_REQUIRES(context, TFJAC_BEST(JacobianRows<T>)(runtime.runtime(), factors, rows),
                StatusOf(OutOfScratch("JacobianRows")));
  }
};

TFJAC_REGISTER_CPU("TfjacJacobianRows", JacobianRowsCpuOp);

}  // namespace tfjac
