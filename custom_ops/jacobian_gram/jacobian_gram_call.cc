#include "custom_ops/common/xla/call.h"
#include "custom_ops/jacobian_gram/jacobian_gram.h"

namespace tfjac {

template <xla::ffi::DataType D, typename T = xla::ffi::NativeType<D>>
xla::ffi::Error CallJacobianGram(xla::ffi::ThreadPool pool, xla::ffi::RemainingArgs operands,
                                 xla::ffi::ResultBuffer<D> gram, xla::ffi::ResultBuffer<D> gradient, int64_t count,
                                 std::string_view layouts) {
  OpFactors<T> factors;
  ReadCallFactors(operands, count, layouts, &factors);
  const bool has_residual = static_cast<int64_t>(operands.size()) > 2 * count;
  const T* const residual = has_residual ? CallOperand<T>(operands, 2 * count) : nullptr;
  CallRuntime runtime(pool);
  return CallStatus(TFJAC_BEST(JacobianGram<T>)(runtime.runtime(), factors.view, residual, gram->typed_data(),
                                                gradient->typed_data()),
                    "JacobianGram");
}

template <xla::ffi::DataType D>
auto JacobianGramBinding() {
  return xla::ffi::Ffi::Bind()
      .Ctx<xla::ffi::ThreadPool>()
      .RemainingArgs()
      .Ret<xla::ffi::Buffer<D>>()
      .template Ret<xla::ffi::Buffer<D>>()
      .template Attr<int64_t>("count")
      .template Attr<std::string_view>("layouts");
}

TFJAC_DEFINE_XLA_CALL(jacobian_gram_f32, CallJacobianGram<xla::ffi::F32>, JacobianGramBinding<xla::ffi::F32>());
TFJAC_DEFINE_XLA_CALL(jacobian_gram_f64, CallJacobianGram<xla::ffi::F64>, JacobianGramBinding<xla::ffi::F64>());

}  // namespace tfjac
