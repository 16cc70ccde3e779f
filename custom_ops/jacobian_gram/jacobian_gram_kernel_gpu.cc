#include "custom_ops/common/gpu/call.h"
#include "custom_ops/jacobian_gram/jacobian_gram_call.h"
#include "custom_ops/jacobian_gram/jacobian_gram_gpu.h"
#include "custom_ops/jacobian_gram/jacobian_gram_kernel.h"

namespace tfjac {

template <typename T>
absl::Status RunJacobianGram(GpuStream& stream, const Factors<T>& factors, const T* residual, T* gram, T* gradient) {
  return stream.Run(
      "JacobianGram", [&](void* on, int64_t* bytes) { return JacobianGramWorkspace(on, factors, bytes); },
      [&](void* on, void* workspace) { return LaunchJacobianGram(on, factors, residual, gram, gradient, workspace); });
}

template <typename T>
class JacobianGramGpuOp : public JacobianGramOp<T> {
 public:
  using JacobianGramOp<T>::JacobianGramOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const Factors<T>& factors, const T* residual, T* gram,
           T* gradient) override {
    OpStream stream(context);
    OP_REQUIRES_OK(context, RunJacobianGram<T>(stream, factors, residual, gram, gradient));
  }
};

TFJAC_REGISTER_GPU("TfjacJacobianGram", JacobianGramGpuOp);
TFJAC_DEFINE_XLA_CALL(jacobian_gram_cuda, JacobianGramCall, CallStream);

}  // namespace tfjac
