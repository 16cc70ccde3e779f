#include "custom_ops/common/xla/call.h"
#include "custom_ops/schur_complement/schur_complement.h"

namespace tfjac {

template <xla::ffi::DataType D, typename T = xla::ffi::NativeType<D>>
xla::ffi::Error CallSchurComplement(xla::ffi::ThreadPool pool, xla::ffi::Buffer<D> values,
                                    xla::ffi::Buffer<xla::ffi::S32> columns, xla::ffi::Buffer<D> block,
                                    xla::ffi::Buffer<xla::ffi::S32> group, xla::ffi::Buffer<D> matrix,
                                    xla::ffi::Buffer<D> vector, xla::ffi::ResultBuffer<D> complement,
                                    xla::ffi::ResultBuffer<D> projected,
                                    xla::ffi::ResultBuffer<xla::ffi::PRED> success) {
  const auto sizes = values.dimensions();
  const SparseExamples<T> examples{sizes[0],
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
  CallRuntime runtime(pool);
  const SchurStatus status = TFJAC_BEST(SchurComplement<T>)(runtime.runtime(), examples, complement->typed_data(),
                                                            projected->typed_data(), success->typed_data());
  if (status == SchurStatus::kOutOfRange) {
    return xla::ffi::Error::InvalidArgument("`columns` must be in [0, size) and `group` below the number of groups");
  }
  return CallStatus(status == SchurStatus::kDone, "SchurComplement");
}

template <xla::ffi::DataType D>
auto SchurComplementBinding() {
  return xla::ffi::Ffi::Bind()
      .Ctx<xla::ffi::ThreadPool>()
      .Arg<xla::ffi::Buffer<D>>()
      .template Arg<xla::ffi::Buffer<xla::ffi::S32>>()
      .template Arg<xla::ffi::Buffer<D>>()
      .template Arg<xla::ffi::Buffer<xla::ffi::S32>>()
      .template Arg<xla::ffi::Buffer<D>>()
      .template Arg<xla::ffi::Buffer<D>>()
      .template Ret<xla::ffi::Buffer<D>>()
      .template Ret<xla::ffi::Buffer<D>>()
      .template Ret<xla::ffi::Buffer<xla::ffi::PRED>>();
}

TFJAC_DEFINE_XLA_CALL(schur_complement_f32, CallSchurComplement<xla::ffi::F32>, SchurComplementBinding<xla::ffi::F32>());
TFJAC_DEFINE_XLA_CALL(schur_complement_f64, CallSchurComplement<xla::ffi::F64>, SchurComplementBinding<xla::ffi::F64>());

}  // namespace tfjac
