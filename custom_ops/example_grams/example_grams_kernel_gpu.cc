#include "custom_ops/common/gpu/call.h"
#include "custom_ops/example_grams/example_grams_call.h"
#include "custom_ops/example_grams/example_grams_gpu.h"
#include "custom_ops/example_grams/example_grams_kernel.h"

namespace tfjac {

template <typename T>
absl::Status RunExampleGrams(GpuStream& stream, const ExampleBlocks<T>& blocks, T* gram, T* gradient) {
  return stream.Run("ExampleGrams", [&](void* on) { return LaunchExampleGrams(on, blocks, gram, gradient); });
}

template <typename T>
class ExampleGramsGpuOp : public ExampleGramsOp<T> {
 public:
  using ExampleGramsOp<T>::ExampleGramsOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const ExampleBlocks<T>& blocks, T* gram, T* gradient) override {
    OpStream stream(context);
    OP_REQUIRES_OK(context, RunExampleGrams<T>(stream, blocks, gram, gradient));
  }
};

TFJAC_REGISTER_GPU("TfjacExampleGrams", ExampleGramsGpuOp);
TFJAC_DEFINE_XLA_CALL(example_grams_cuda, ExampleGramsCall, CallStream);

}  // namespace tfjac
