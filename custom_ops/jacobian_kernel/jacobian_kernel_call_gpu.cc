#include "custom_ops/common/gpu/call.h"
#include "custom_ops/jacobian_kernel/jacobian_kernel_call.h"
#include "custom_ops/jacobian_kernel/jacobian_kernel_run_gpu.h"

namespace tfjac {

TFJAC_DEFINE_XLA_CALL(jacobian_kernel_cuda, JacobianKernelCall, CallStream);

}  // namespace tfjac
