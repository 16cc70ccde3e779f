#include "custom_ops/example_grams/example_grams_kernel.h"

namespace tfjac {

template <typename T>
class ExampleGramsCpuOp : public ExampleGramsOp<T> {
 public:
  using ExampleGramsOp<T>::ExampleGramsOp;

 private:
  void Run(tensorflow::OpKernelContext* context, const ExampleBlocks<T>& blocks, T* gram, T* gradient) override {
    OpRuntime runtime(context);
    TFJAC_BEST(ExampleGrams<T>)(runtime.runtime(), blocks, gram, gradient);
  }
};

TFJAC_REGISTER_CPU("TfjacExampleGrams", ExampleGramsCpuOp);

}  // namespace tfjac
