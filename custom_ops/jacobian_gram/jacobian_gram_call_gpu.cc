#include "custom_ops/common/gpu/call.h"
#include "custom_ops/jacobian_gram/jacobian_gram_call.h"
#include "custom_ops/jacobian_gram/jacobian_gram_run_gpu.h"

namespace tfjac {

TFJAC_DEFINE_XLA_CALL(jacobian_gram_cuda, JacobianGramCall, CallStream);

}  // namespace tfjac
