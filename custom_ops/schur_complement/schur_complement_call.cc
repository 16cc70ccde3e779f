#include "custom_ops/schur_complement/schur_complement_call.h"

namespace tfjac {

template <typename T>
Outcome RunSchurComplement(xla::ffi::ThreadPool pool, const SparseExamples<T>& examples, T* complement, T* projected,
                           bool* success) {
  const CallRuntime runtime(pool);
  switch (TFJAC_BEST(SchurComplement<T>)(runtime.runtime(), examples, complement, projected, success)) {
    case SchurStatus::kDone:
      return {};
    case SchurStatus::kOutOfRange:
      return {Outcome::kInvalidArgument, "`columns` must be in [0, size) and `group` below the number of groups"};
    default:
      return OutOfScratch("SchurComplement");
  }
}

TFJAC_DEFINE_XLA_CALL(schur_complement, SchurComplementCall, xla::ffi::ThreadPool);

}  // namespace tfjac
