#include "custom_ops/common/gpu/support.h"
#include "custom_ops/example_grams/example_grams_kernel.h"
#include "custom_ops/example_grams/example_grams_run_gpu.h"

namespace tfjac {

template <typename T>
class ExampleGramsGpuOp : public ExampleGramsOp<T> {
 public:
  using ExampleGramsOp<T>::ExampleGramsOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const ExampleBlocks<T>& blocks, T* gram, T* gradient) override {
    OpStream stream(context);
    OP_REQUIRES_OK(context, StatusOf(RunExampleGrams<T>(stream, blocks, gram, gradient)));
  }
};

TFJAC_REGISTER_GPU("TfjacExampleGrams", ExampleGramsGpuOp);

}  // namespace tfjac
