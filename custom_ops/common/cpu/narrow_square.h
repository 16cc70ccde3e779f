// AᵀA of a tall matrix with few columns, whose sums stay in registers while the rows go by: for sizes at which packing, as
// large products need it, costs more than it brings. For files compiled per instruction set.
#ifndef TFJAC_CUSTOM_OPS_COMMON_CPU_NARROW_SQUARE_H_
#define TFJAC_CUSTOM_OPS_COMMON_CPU_NARROW_SQUARE_H_

#include <cstdint>
#include <cstring>

namespace tfjac::TFJAC_ISA {

#if defined(__AVX512F__)
constexpr int64_t kVectorBytes = 64, kSumRows = 6, kSumVectors = 4;  // of 32 registers
#elif defined(__AVX__)
constexpr int64_t kVectorBytes = 32, kSumRows = 4, kSumVectors = 3;  // of 16
#else
constexpr int64_t kVectorBytes = 16, kSumRows = 4, kSumVectors = 2;
#endif

// Columns up to which this is faster.
constexpr int64_t kNarrow = 160;

// Numbers that may be read behind the last one that counts.
constexpr int64_t kPadding = 16;

// C[row + r, column + c] += sum_k A[k, row + r] A[k, column + c] for r < kSumRows and the numbers c of `kVectors` vectors, as
// far as they are on or below the diagonal, in rows below `size`.
template <int kVectors, typename T>
static inline void AddSums(int64_t row, int64_t column, int64_t size, int64_t depth, const T* a, int64_t lda, T* c,
                           int64_t ldc) {
  constexpr int64_t kLanes = kVectorBytes / static_cast<int64_t>(sizeof(T));
  typedef T Vector __attribute__((vector_size(kVectorBytes), aligned(sizeof(T)), may_alias));
  Vector sums[kSumRows][kVectors] = {};
  for (int64_t k = 0; k < depth; ++k, a += lda) {
    Vector right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = *reinterpret_cast<const Vector*>(a + column + v * kLanes);
    for (int64_t r = 0; r < kSumRows; ++r) {
      for (int v = 0; v < kVectors; ++v) sums[r][v] += a[row + r] * right[v];
    }
  }
  for (int64_t r = 0; r < kSumRows && row + r < size; ++r) {
    T numbers[kVectors * kLanes];
    std::memcpy(numbers, sums[r], sizeof(numbers));
    T* const to = c + (row + r) * ldc + column;
    for (int64_t v = 0; v < kVectors * kLanes && column + v <= row + r; ++v) to[v] += numbers[v];
  }
}

// C[size, size] += A[depth, size]ᵀ A[depth, size], lower triangle only. Up to kPadding numbers behind the columns of A are
// read, whatever they are.
template <typename T>
static inline void AddNarrowSquare(int64_t size, int64_t depth, const T* a, int64_t lda, T* c, int64_t ldc) {
  constexpr int64_t kLanes = kVectorBytes / static_cast<int64_t>(sizeof(T));
  for (int64_t row = 0; row < size; row += kSumRows) {
    const int64_t last = row + kSumRows < size ? row + kSumRows : size;
    for (int64_t column = 0; column < last; column += kSumVectors * kLanes) {
      const int64_t vectors = (last - column + kLanes - 1) / kLanes;
      if (vectors >= kSumVectors) {
        AddSums<kSumVectors>(row, column, size, depth, a, lda, c, ldc);
      } else if (vectors == 1) {
        AddSums<1>(row, column, size, depth, a, lda, c, ldc);
      } else if (vectors == 2) {
        AddSums<2>(row, column, size, depth, a, lda, c, ldc);
      } else {
        AddSums<3>(row, column, size, depth, a, lda, c, ldc);
      }
    }
  }
}

}  // namespace tfjac::TFJAC_ISA

#endif  // TFJAC_CUSTOM_OPS_COMMON_CPU_NARROW_SQUARE_H_
