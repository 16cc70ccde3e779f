// Stands in for LLVM's header, as ArrayRef.h does.
#ifndef TFJAC_CUSTOM_OPS_COMMON_ABSENT_LLVM_ADT_SMALL_VECTOR_H_
#define TFJAC_CUSTOM_OPS_COMMON_ABSENT_LLVM_ADT_SMALL_VECTOR_H_

#include <vector>

namespace llvm {

template <typename T, unsigned size = 0>
class SmallVector : public std::vector<T> {
  using std::vector<T>::vector;
};

}  // namespace llvm

#endif  // TFJAC_CUSTOM_OPS_COMMON_ABSENT_LLVM_ADT_SMALL_VECTOR_H_
