#include "custom_ops/common/xla/call.h"
#include "custom_ops/jacobian_kernel/jacobian_kernel.h"

namespace tfjac {

template <xla::ffi::DataType D, typename T = xla::ffi::NativeType<D>>
xla::ffi::Error CallJacobianKernel(xla::ffi::ThreadPool pool, xla::ffi::RemainingArgs operands,
                                   xla::ffi::ResultBuffer<D> kernel, int64_t count, int64_t blocks) {
  OpFactors<T> factors;
  ReadCallFactors(operands, count, "", &factors, blocks);
  CallRuntime runtime(pool);
  return CallStatus(TFJAC_BEST(JacobianKernel<T>)(runtime.runtime(), factors.blocks(), kernel->typed_data()),
                    "JacobianKernel");
}

template <xla::ffi::DataType D>
auto JacobianKernelBinding() {
  return xla::ffi::Ffi::Bind()
      .Ctx<xla::ffi::ThreadPool>()
      .RemainingArgs()
      .Ret<xla::ffi::Buffer<D>>()
      .template Attr<int64_t>("count")
      .template Attr<int64_t>("blocks");
}

TFJAC_DEFINE_XLA_CALL(jacobian_kernel_f32, CallJacobianKernel<xla::ffi::F32>, JacobianKernelBinding<xla::ffi::F32>());
TFJAC_DEFINE_XLA_CALL(jacobian_kernel_f64, CallJacobianKernel<xla::ffi::F64>, JacobianKernelBinding<xla::ffi::F64>());

}  // namespace tfjac
