#include "custom_ops/common/xla/call.h"
#include "custom_ops/example_grams/example_grams.h"

namespace tfjac {

template <xla::ffi::DataType D, typename T = xla::ffi::NativeType<D>>
xla::ffi::Error CallExampleGrams(xla::ffi::ThreadPool pool, xla::ffi::Buffer<D> jacobian, xla::ffi::Buffer<D> residual,
                                 xla::ffi::ResultBuffer<D> gram, xla::ffi::ResultBuffer<D> gradient) {
  const auto sizes = jacobian.dimensions();
  const ExampleBlocks<T> blocks{sizes[0], sizes[1], sizes[2], jacobian.typed_data(), residual.typed_data()};
  CallRuntime runtime(pool);
  TFJAC_BEST(ExampleGrams<T>)(runtime.runtime(), blocks, gram->typed_data(), gradient->typed_data());
  return xla::ffi::Error::Success();
}

template <xla::ffi::DataType D>
auto ExampleGramsBinding() {
  return xla::ffi::Ffi::Bind()
      .Ctx<xla::ffi::ThreadPool>()
      .Arg<xla::ffi::Buffer<D>>()
      .template Arg<xla::ffi::Buffer<D>>()
      .template Ret<xla::ffi::Buffer<D>>()
      .template Ret<xla::ffi::Buffer<D>>();
}

TFJAC_DEFINE_XLA_CALL(example_grams_f32, CallExampleGrams<xla::ffi::F32>, ExampleGramsBinding<xla::ffi::F32>());
TFJAC_DEFINE_XLA_CALL(example_grams_f64, CallExampleGrams<xla::ffi::F64>, ExampleGramsBinding<xla::ffi::F64>());

}  // namespace tfjac
