// The handler of JacobianKernel in programs that XLA compiled: see common/xla/call.h.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_KERNEL_CALL_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_KERNEL_CALL_H_

#include "custom_ops/common/xla/call.h"
#include "custom_ops/jacobian_kernel/jacobian_kernel.h"

namespace tfjac {

template <typename Device, xla::ffi::DataType D>
struct JacobianKernelCall {
  static xla::ffi::Error Handle(Device device, xla::ffi::RemainingArgs operands, xla::ffi::ResultBuffer<D> kernel,
                                int64_t count, int64_t blocks) {
    OpFactors<xla::ffi::NativeType<D>> factors;
    ReadCallFactors(operands, count, "", &factors, blocks);
    return ErrorOf(RunJacobianKernel(device, factors.blocks(), kernel->typed_data()));
  }

  static auto Binding() {
    return xla::ffi::Ffi::Bind()
        .Ctx<Device>()
        .RemainingArgs()
        .template Ret<xla::ffi::Buffer<D>>()
        .template Attr<int64_t>("count")
        .template Attr<int64_t>("blocks");
  }
};

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_KERNEL_CALL_H_
