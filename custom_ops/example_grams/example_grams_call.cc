#include "custom_ops/example_grams/example_grams_call.h"

namespace tfjac {

template <typename T>
Outcome RunExampleGrams(xla::ffi::ThreadPool pool, const ExampleBlocks<T>& blocks, T* gram, T* gradient) {
  const CallRuntime runtime(pool);
  TFJAC_BEST(ExampleGrams<T>)(runtime.runtime(), blocks, gram, gradient);
  return {};
}

TFJAC_DEFINE_XLA_CALL(example_grams, ExampleGramsCall, xla::ffi::ThreadPool);

}  // namespace tfjac
