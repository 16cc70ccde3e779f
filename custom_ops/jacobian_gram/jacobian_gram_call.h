// The handler of JacobianGram in programs that XLA compiled: see common/xla/call.h.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_CALL_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_CALL_H_

#include "custom_ops/common/xla/call.h"
#include "custom_ops/jacobian_gram/jacobian_gram.h"

namespace tfjac {

template <typename Device, xla::ffi::DataType D>
struct JacobianGramCall {
  static xla::ffi::Error Handle(Device device, xla::ffi::RemainingArgs operands, xla::ffi::ResultBuffer<D> gram,
                                xla::ffi::ResultBuffer<D> gradient, int64_t count, std::string_view layouts) {
    using T = xla::ffi::NativeType<D>;
    OpFactors<T> factors;
    ReadCallFactors(operands, count, layouts, &factors);
    const bool has_residual = static_cast<int64_t>(operands.size()) > 2 * count;
    const T* const residual = has_residual ? CallOperand<T>(operands, 2 * count) : nullptr;
    return ErrorOf(RunJacobianGram(device, factors.view, residual, gram->typed_data(), gradient->typed_data()));
  }

  static auto Binding() {
    return xla::ffi::Ffi::Bind()
        .Ctx<Device>()
        .RemainingArgs()
        .template Ret<xla::ffi::Buffer<D>>()
        .template Ret<xla::ffi::Buffer<D>>()
        .template Attr<int64_t>("count")
        .template Attr<std::string_view>("layouts");
  }
};

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_CALL_H_
