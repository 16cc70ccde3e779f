#include "custom_ops/damped_solve/damped_solve_call.h"

namespace tfjac {

template <typename T>
Outcome RunDampedSolve(xla::ffi::ThreadPool pool, const DampedSystems<T>& systems, T* solution, bool* success) {
  const CallRuntime runtime(pool);
  const bool done = TFJAC_BEST(DampedSolve<T>)(runtime.runtime(), systems, solution, success);
  return done ? Outcome{} : OutOfScratch("DampedSolve");
}

TFJAC_DEFINE_XLA_CALL(damped_solve, DampedSolveCall, xla::ffi::ThreadPool);

}  // namespace tfjac
