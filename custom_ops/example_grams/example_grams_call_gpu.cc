#include "custom_ops/common/gpu/call.h"
#include "custom_ops/example_grams/example_grams_call.h"
#include "custom_ops/example_grams/example_grams_run_gpu.h"

namespace tfjac {

TFJAC_DEFINE_XLA_CALL(example_grams_cuda, ExampleGramsCall, CallStream);

}  // namespace tfjac
