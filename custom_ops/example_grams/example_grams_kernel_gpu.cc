#include "custom_ops/common/gpu/support.h"
#include "custom_ops/example_grams/example_grams_gpu.h"
#include "custom_ops/example_grams/example_grams_kernel.h"

namespace tfjac {

template <typename T>
class ExampleGramsGpuOp : public ExampleGramsOp<T> {
 public:
  using ExampleGramsOp<T>::ExampleGramsOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const ExampleBlocks<T>& blocks, T* gram, T* gradient) override {
    OP_REQUIRES_OK(context,
                   StatusOfLaunch("ExampleGrams", LaunchExampleGrams(StreamOf(context), blocks, gram, gradient)));
  }
};

TFJAC_REGISTER_GPU("TfjacExampleGrams", ExampleGramsGpuOp);

}  // namespace tfjac
