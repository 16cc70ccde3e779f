#include "custom_ops/jacobian_gram/jacobian_gram_call.h"

namespace tfjac {

template <typename T>
Outcome RunJacobianGram(xla::ffi::ThreadPool pool, const Factors<T>& factors, const T* residual, T* gram, T* gradient) {
  const CallRuntime runtime(pool);
  const bool done = TFJAC_BEST(JacobianGram<T>)(runtime.runtime(), factors, residual, gram, gradient);
  return done ? Outcome{} : OutOfScratch("JacobianGram");
}

TFJAC_DEFINE_XLA_CALL(jacobian_gram, JacobianGramCall, xla::ffi::ThreadPool);

}  // namespace tfjac
