// The handler of SchurComplement in programs that XLA compiled: see common/xla/call.h.
#ifndef TFJAC_CUSTOM_OPS_SCHUR_COMPLEMENT_CALL_H_
#define TFJAC_CUSTOM_OPS_SCHUR_COMPLEMENT_CALL_H_

#include "custom_ops/common/xla/call.h"
#include "custom_ops/schur_complement/schur_complement.h"

namespace tfjac {

template <typename Device, xla::ffi::DataType D>
struct SchurComplementCall {
  static xla::ffi::Error Handle(Device device, xla::ffi::Buffer<D> values, xla::ffi::Buffer<xla::ffi::S32> columns,
                                xla::ffi::Buffer<D> block, xla::ffi::Buffer<xla::ffi::S32> group,
                                xla::ffi::Buffer<D> matrix, xla::ffi::Buffer<D> vector,
                                xla::ffi::ResultBuffer<D> complement, xla::ffi::ResultBuffer<D> projected,
                                xla::ffi::ResultBuffer<xla::ffi::PRED> success) {
    const auto sizes = values.dimensions();
    const SparseExamples<xla::ffi::NativeType<D>> examples{sizes[0],
                                                           sizes[1],
                                                           sizes[2],
                                                           block.dimensions()[2],
                                                           projected->dimensions()[0],
                                                           vector.dimensions()[0],
                                                           values.typed_data(),
                                                           columns.typed_data(),
                                                           block.typed_data(),
                                                           group.typed_data(),
                                                           matrix.typed_data(),
                                                           vector.typed_data()};
    return ErrorOf(
        RunSchurComplement(device, examples, complement->typed_data(), projected->typed_data(), success->typed_data()));
  }

  static auto Binding() {
    return xla::ffi::Ffi::Bind()
        .Ctx<Device>()
        .template Arg<xla::ffi::Buffer<D>>()
        .template Arg<xla::ffi::Buffer<xla::ffi::S32>>()
        .template Arg<xla::ffi::Buffer<D>>()
        .template Arg<xla::ffi::Buffer<xla::ffi::S32>>()
        .template Arg<xla::ffi::Buffer<D>>()
        .template Arg<xla::ffi::Buffer<D>>()
        .template Ret<xla::ffi::Buffer<D>>()
        .template Ret<xla::ffi::Buffer<D>>()
        .template Ret<xla::ffi::Buffer<xla::ffi::PRED>>();
  }
};

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_SCHUR_COMPLEMENT_CALL_H_
