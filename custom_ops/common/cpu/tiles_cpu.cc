// Room for Eigen's packed panels on the stack instead of the heap: kTile * kDepth numbers of eight bytes each.
#define EIGEN_STACK_ALLOCATION_LIMIT (1 << 19)
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_USE_AVX512_TRSM_KERNELS 0  // half a minute to compile, and triangles are products here

#include "custom_ops/common/cpu/tiles.h"

#include <cmath>

#include "Eigen/Core"

#if defined(__AVX512F__) && EIGEN_USE_AVX512_GEMM_KERNELS
// Eigen compiles its products for AVX-512 once for alpha = 1 and once for others, and both for results with gaps, which there are
// none of here. One of the four does for all, and a single multiplication of each sum is not noticed.
namespace Eigen::internal {

#define TFJAC_SAME_KERNEL(Scalar, rows, is_alpha1, is_unit_inc)                                                     \
  template <>                                                                                                       \
  void gemm_kern_avx512<Scalar, rows, 8, is_alpha1, false, is_unit_inc>(                                            \
      Index m, Index n, Index k, Scalar * alpha, const Scalar* a, const Scalar* b, Scalar* c, Index ldc, Index inc, \
      Index a_stride, Index b_stride, Index a_off, Index b_off) {                                                   \
    gemm_kern_avx512<Scalar, rows, 8, false, false, true>(m, n, k, alpha, a, b, c, ldc, inc, a_stride, b_stride,    \
                                                          a_off, b_off);                                            \
  }
TFJAC_SAME_KERNEL(float, 48, true, true)
TFJAC_SAME_KERNEL(float, 48, true, false)
TFJAC_SAME_KERNEL(float, 48, false, false)
TFJAC_SAME_KERNEL(double, 24, true, true)
TFJAC_SAME_KERNEL(double, 24, true, false)
TFJAC_SAME_KERNEL(double, 24, false, false)
#undef TFJAC_SAME_KERNEL

}  // namespace Eigen::internal
#endif

namespace tfjac::TFJAC_ISA {
namespace {

template <typename T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using Tile = Eigen::Map<RowMajor<T>, 0, Eigen::OuterStride<>>;
template <typename T>
using ConstTile = Eigen::Map<const RowMajor<T>, 0, Eigen::OuterStride<>>;

template <typename T>
ConstTile<T> Read(const T* a, int64_t rows, int64_t columns, int64_t ld) {
  return ConstTile<T>(a, rows, columns, Eigen::OuterStride<>(ld));
}

template <typename T>
Tile<T> Write(T* a, int64_t rows, int64_t columns, int64_t ld) {
  return Tile<T>(a, rows, columns, Eigen::OuterStride<>(ld));
}

// Triangles are cut in two until they are as small as this; the rest of the work is products.
constexpr int64_t kStep = 16;

int64_t FirstPart(int64_t size) { return (size / 2 + kStep - 1) / kStep * kStep; }

// Replace B[rows, size] by B L⁻ᵀ for size <= kStep: many rows side by side, column after column.
template <typename T>
void SolveStep(int64_t rows, int64_t size, const T* l, int64_t ldl, T* b, int64_t ldb) {
  constexpr int64_t kLanes = 32;
  T x[kStep][kLanes] = {};
  for (; rows > 0; rows -= kLanes, b += kLanes * ldb) {
    const int64_t count = rows < kLanes ? rows : kLanes;
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t c = 0; c < size; ++c) x[c][r] = b[r * ldb + c];
    }
    for (int64_t c = 0; c < size; ++c) {
      T sum[kLanes];
      for (int64_t r = 0; r < kLanes; ++r) sum[r] = x[c][r];
      for (int64_t k = 0; k < c; ++k) {
        for (int64_t r = 0; r < kLanes; ++r) sum[r] -= l[c * ldl + k] * x[k][r];
      }
      const T inverse = T(1) / l[c * ldl + c];
      for (int64_t r = 0; r < kLanes; ++r) x[c][r] = sum[r] * inverse;
    }
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t c = 0; c < size; ++c) b[r * ldb + c] = x[c][r];
    }
  }
}

// The Cholesky factor of the lower triangle of A[size, size] for size <= kStep; false where a pivot is not positive.
template <typename T>
bool FactorStep(int64_t size, T* a, int64_t lda) {
  T columns[kStep][kStep] = {};
  for (int64_t r = 0; r < size; ++r) {
    for (int64_t c = 0; c <= r; ++c) columns[c][r] = a[r * lda + c];
  }
  for (int64_t c = 0; c < size; ++c) {
    if (!(columns[c][c] > T(0))) return false;
    const T root = std::sqrt(columns[c][c]), inverse = T(1) / root;
    for (int64_t r = 0; r < kStep; ++r) columns[c][r] *= inverse;
    columns[c][c] = root;
    for (int64_t k = c + 1; k < size; ++k) {
      const T scale = columns[c][k];
      for (int64_t r = 0; r < kStep; ++r) columns[k][r] -= scale * columns[c][r];
    }
  }
  for (int64_t r = 0; r < size; ++r) {
    for (int64_t c = 0; c <= r; ++c) a[r * lda + c] = columns[c][r];
  }
  return true;
}

}  // namespace

template <typename T>
void AddTransposedProduct(int64_t rows, int64_t columns, int64_t depth, const T* a, int64_t lda, const T* b,
                          int64_t ldb, T* c, int64_t ldc) {
  if (rows == 0 || columns == 0 || depth == 0) return;
  Write(c, rows, columns, ldc).noalias() += Read(a, depth, rows, lda).transpose() * Read(b, depth, columns, ldb);
}

template <typename T>
void AddTransposedSquare(int64_t size, int64_t depth, const T* a, int64_t lda, T* c, int64_t ldc) {
  if (size == 0 || depth == 0) return;
  auto tile = Write(c, size, size, ldc);
  tile.template selfadjointView<Eigen::Lower>().rankUpdate(Read(a, depth, size, lda).transpose());
}

template <typename T>
void AddProduct(int64_t rows, int64_t columns, int64_t depth, T scale, const T* a, int64_t lda, const T* b, int64_t ldb,
                T* c, int64_t ldc) {
  if (rows == 0 || columns == 0 || depth == 0) return;
  Write(c, rows, columns, ldc).noalias() +=
      scale * Read(a, rows, depth, lda) * Read(b, columns, depth, ldb).transpose();
}

template <typename T>
void AddSquare(int64_t size, int64_t depth, T scale, const T* a, int64_t lda, T* c, int64_t ldc) {
  if (size == 0 || depth == 0) return;
  auto tile = Write(c, size, size, ldc);
  tile.template selfadjointView<Eigen::Lower>().rankUpdate(Read(a, size, depth, lda), scale);
}

template <typename T>
void SolveTile(int64_t rows, int64_t size, const T* l, int64_t ldl, T* b, int64_t ldb) {
  if (size <= kStep) return SolveStep(rows, size, l, ldl, b, ldb);
  const int64_t first = FirstPart(size), second = size - first;
  SolveTile(rows, first, l, ldl, b, ldb);
  AddProduct(rows, second, first, T(-1), b, ldb, l + first * ldl, ldl, b + first, ldb);
  SolveTile(rows, second, l + first * ldl + first, ldl, b + first, ldb);
}

template <typename T>
bool FactorTile(int64_t size, T* a, int64_t lda) {
  if (size <= kStep) return FactorStep(size, a, lda);
  const int64_t first = FirstPart(size), second = size - first;
  T *const below = a + first * lda, *const rest = below + first;
  if (!FactorTile(first, a, lda)) return false;
  SolveTile(second, first, a, lda, below, lda);
  AddSquare(second, first, T(-1), below, lda, rest, lda);
  return FactorTile(second, rest, lda);
}

#define INSTANTIATE(T)                                                                                              \
  template void AddTransposedProduct(int64_t, int64_t, int64_t, const T*, int64_t, const T*, int64_t, T*, int64_t); \
  template void AddTransposedSquare(int64_t, int64_t, const T*, int64_t, T*, int64_t);                              \
  template void AddProduct(int64_t, int64_t, int64_t, T, const T*, int64_t, const T*, int64_t, T*, int64_t);        \
  template void AddSquare(int64_t, int64_t, T, const T*, int64_t, T*, int64_t);                                     \
  template bool FactorTile(int64_t, T*, int64_t);                                                                   \
  template void SolveTile(int64_t, int64_t, const T*, int64_t, T*, int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tfjac::TFJAC_ISA
