// Stands in for LLVM's header, which a header of TensorFlow 2.19 includes and its package lacks, for a class that nothing
// here uses. Looked for last: where there is the real one, that is taken.
#ifndef TFJAC_CUSTOM_OPS_COMMON_ABSENT_LLVM_ADT_ARRAY_REF_H_
#define TFJAC_CUSTOM_OPS_COMMON_ABSENT_LLVM_ADT_ARRAY_REF_H_

#include <cstddef>

namespace llvm {

template <typename T>
class ArrayRef {
 public:
  template <typename Container>
  ArrayRef(const Container& container) : data_(container.data()), size_(container.size()) {}

  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  const T* data_;
  std::size_t size_;
};

}  // namespace llvm

#endif  // TFJAC_CUSTOM_OPS_COMMON_ABSENT_LLVM_ADT_ARRAY_REF_H_
