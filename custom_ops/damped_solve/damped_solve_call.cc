#include "custom_ops/common/xla/call.h"
#include "custom_ops/damped_solve/damped_solve.h"

namespace tfjac {

template <xla::ffi::DataType D, typename T = xla::ffi::NativeType<D>>
xla::ffi::Error CallDampedSolve(xla::ffi::ThreadPool pool, xla::ffi::Buffer<D> matrix, xla::ffi::Buffer<D> rhs,
                                xla::ffi::Buffer<D> scaling, xla::ffi::Buffer<D> damping,
                                xla::ffi::ResultBuffer<D> solution, xla::ffi::ResultBuffer<xla::ffi::PRED> success) {
  const DampedSystems<T> systems{static_cast<int64_t>(rhs.dimensions().back()),
                                 static_cast<int64_t>(damping.element_count()),
                                 matrix.typed_data(),
                                 rhs.typed_data(),
                                 scaling.typed_data(),
                                 damping.typed_data(),
                                 static_cast<int64_t>(matrix.dimensions().size()) - 2};
  CallRuntime runtime(pool);
  return CallStatus(
      TFJAC_BEST(DampedSolve<T>)(runtime.runtime(), systems, solution->typed_data(), success->typed_data()),
      "DampedSolve");
}

template <xla::ffi::DataType D>
auto DampedSolveBinding() {
  return xla::ffi::Ffi::Bind()
      .Ctx<xla::ffi::ThreadPool>()
      .Arg<xla::ffi::Buffer<D>>()
      .template Arg<xla::ffi::Buffer<D>>()
      .template Arg<xla::ffi::Buffer<D>>()
      .template Arg<xla::ffi::Buffer<D>>()
      .template Ret<xla::ffi::Buffer<D>>()
      .template Ret<xla::ffi::Buffer<xla::ffi::PRED>>();
}

TFJAC_DEFINE_XLA_CALL(damped_solve_f32, CallDampedSolve<xla::ffi::F32>, DampedSolveBinding<xla::ffi::F32>());
TFJAC_DEFINE_XLA_CALL(damped_solve_f64, CallDampedSolve<xla::ffi::F64>, DampedSolveBinding<xla::ffi::F64>());

}  // namespace tfjac
