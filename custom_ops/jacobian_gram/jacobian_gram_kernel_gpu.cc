#include "custom_ops/common/gpu/support.h"
#include "custom_ops/jacobian_gram/jacobian_gram_kernel.h"
#include "custom_ops/jacobian_gram/jacobian_gram_run_gpu.h"

namespace tfjac {

template <typename T>
class JacobianGramGpuOp : public JacobianGramOp<T> {
 public:
  using JacobianGramOp<T>::JacobianGramOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const Factors<T>& factors, const T* residual, T* gram,
           T* gradient) override {
    OpStream stream(context);
    OP_REQUIRES_OK(context, StatusOf(RunJacobianGram<T>(stream, factors, residual, gram, gradient)));
  }
};

TFJAC_REGISTER_GPU("TfjacJacobianGram", JacobianGramGpuOp);

}  // namespace tfjac
