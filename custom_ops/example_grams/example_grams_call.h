// The handler of ExampleGrams in programs that XLA compiled: see common/xla/call.h.
#ifndef TFJAC_CUSTOM_OPS_EXAMPLE_GRAMS_CALL_H_
#define TFJAC_CUSTOM_OPS_EXAMPLE_GRAMS_CALL_H_

#include "custom_ops/common/xla/call.h"
#include "custom_ops/example_grams/example_grams.h"

namespace tfjac {

template <typename Device, xla::ffi::DataType D>
struct ExampleGramsCall {
  static xla::ffi::Error Handle(Device device, xla::ffi::Buffer<D> jacobian, xla::ffi::Buffer<D> residual,
                                xla::ffi::ResultBuffer<D> gram, xla::ffi::ResultBuffer<D> gradient) {
    const auto sizes = jacobian.dimensions();
    const ExampleBlocks<xla::ffi::NativeType<D>> blocks{sizes[0], sizes[1], sizes[2], jacobian.typed_data(),
                                                        residual.typed_data()};
    return ErrorOf(RunExampleGrams(device, blocks, gram->typed_data(), gradient->typed_data()));
  }

  static auto Binding() {
    return xla::ffi::Ffi::Bind()
        .Ctx<Device>()
        .template Arg<xla::ffi::Buffer<D>>()
        .template Arg<xla::ffi::Buffer<D>>()
        .template Ret<xla::ffi::Buffer<D>>()
        .template Ret<xla::ffi::Buffer<D>>();
  }
};

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_EXAMPLE_GRAMS_CALL_H_
