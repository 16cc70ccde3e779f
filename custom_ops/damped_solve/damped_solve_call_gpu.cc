#include "custom_ops/common/gpu/call.h"
#include "custom_ops/damped_solve/damped_solve_call.h"
#include "custom_ops/damped_solve/damped_solve_run_gpu.h"

namespace tfjac {

TFJAC_DEFINE_XLA_CALL(damped_solve_cuda, DampedSolveCall, CallStream);

}  // namespace tfjac
