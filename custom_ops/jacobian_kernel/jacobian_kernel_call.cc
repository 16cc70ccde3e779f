#include "custom_ops/jacobian_kernel/jacobian_kernel_call.h"

namespace tfjac {

template <typename T>
Outcome RunJacobianKernel(xla::ffi::ThreadPool pool, const Blocks<T>& blocks, T* kernel) {
  const CallRuntime runtime(pool);
  const bool done = TFJAC_BEST(JacobianKernel<T>)(runtime.runtime(), blocks, kernel);
  return done ? Outcome{} : OutOfScratch("JacobianKernel");
}

TFJAC_DEFINE_XLA_CALL(jacobian_kernel, JacobianKernelCall, xla::ffi::ThreadPool);

}  // namespace tfjac
