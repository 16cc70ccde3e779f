#include "custom_ops/common/gpu/support.h"
#include "custom_ops/jacobian_gram/jacobian_gram_gpu.h"
#include "custom_ops/jacobian_gram/jacobian_gram_kernel.h"

namespace tfjac {

template <typename T>
class JacobianGramGpuOp : public JacobianGramOp<T> {
 public:
  using JacobianGramOp<T>::JacobianGramOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const Factors<T>& factors, const T* residual, T* gram,
           T* gradient) override {
    void* const stream = StreamOf(context);
    int64_t bytes = 0;
    OP_REQUIRES_OK(context, StatusOfLaunch("JacobianGram", JacobianGramWorkspace(stream, factors, &bytes)));
    GpuWorkspace workspace;
    OP_REQUIRES_OK(context, workspace.Allocate(context, bytes));
    OP_REQUIRES_OK(context,
                   StatusOfLaunch("JacobianGram", LaunchJacobianGram(stream, factors, residual, gram, gradient,
                                                                     workspace.data())));
  }
};

TFJAC_REGISTER_GPU("TfjacJacobianGram", JacobianGramGpuOp);

}  // namespace tfjac
