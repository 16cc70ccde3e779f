// The handler of DampedSolve in programs that XLA compiled: see common/xla/call.h.
#ifndef TFJAC_CUSTOM_OPS_DAMPED_SOLVE_CALL_H_
#define TFJAC_CUSTOM_OPS_DAMPED_SOLVE_CALL_H_

#include "custom_ops/common/xla/call.h"
#include "custom_ops/damped_solve/damped_solve.h"

namespace tfjac {

template <typename Device, xla::ffi::DataType D>
struct DampedSolveCall {
  static xla::ffi::Error Handle(Device device, xla::ffi::Buffer<D> matrix, xla::ffi::Buffer<D> rhs,
                                xla::ffi::Buffer<D> scaling, xla::ffi::Buffer<D> damping,
                                xla::ffi::ResultBuffer<D> solution, xla::ffi::ResultBuffer<xla::ffi::PRED> success) {
    const DampedSystems<xla::ffi::NativeType<D>> systems{static_cast<int64_t>(rhs.dimensions().back()),
                                                         static_cast<int64_t>(damping.element_count()),
                                                         matrix.typed_data(),
                                                         rhs.typed_data(),
                                                         scaling.typed_data(),
                                                         damping.typed_data(),
                                                         static_cast<int64_t>(matrix.dimensions().size()) - 2};
    return ErrorOf(RunDampedSolve(device, systems, solution->typed_data(), success->typed_data()));
  }

  static auto Binding() {
    return xla::ffi::Ffi::Bind()
        .Ctx<Device>()
        .template Arg<xla::ffi::Buffer<D>>()
        .template Arg<xla::ffi::Buffer<D>>()
        .template Arg<xla::ffi::Buffer<D>>()
        .template Arg<xla::ffi::Buffer<D>>()
        .template Ret<xla::ffi::Buffer<D>>()
        .template Ret<xla::ffi::Buffer<xla::ffi::PRED>>();
  }
};

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_DAMPED_SOLVE_CALL_H_
