#include "custom_ops/jacobian_gram/jacobian_gram_kernel.h"

#include "custom_ops/jacobian_gram/jacobian_gram.h"

namespace tfjac {

template <typename T>
class JacobianGramCpuOp : public JacobianGramOp<T> {
 public:
  using JacobianGramOp<T>::JacobianGramOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const Factors<T>& factors, const T* residual, T* gram,
           T* gradient) override {
    OpRuntime runtime(context);
    OP_REQUIRES(context, TFJAC_BEST(JacobianGram<T>)(runtime.runtime(), factors, residual, gram, gradient),
                StatusOf(OutOfScratch("JacobianGram")));
  }
};

TFJAC_REGISTER_CPU("TfjacJacobianGram", JacobianGramCpuOp);

}  // namespace tfjac
