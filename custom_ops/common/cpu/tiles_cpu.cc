// Room for Eigen's packed panels on the stack instead of the heap: kTile * kDepth numbers of eight bytes each.
#define EIGEN_STACK_ALLOCATION_LIMIT (1 << 19)
#define EIGEN_DONT_PARALLELIZE

#include "custom_ops/common/cpu/tiles.h"

#include "Eigen/Cholesky"
#include "Eigen/Core"

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
bool FactorTile(int64_t size, T* a, int64_t lda) {
  Eigen::Ref<RowMajor<T>, 0, Eigen::OuterStride<>> tile = Write(a, size, size, lda);
  const Eigen::LLT<Eigen::Ref<RowMajor<T>, 0, Eigen::OuterStride<>>, Eigen::Lower> factor(tile);
  return factor.info() == Eigen::Success;
}

template <typename T>
void SolveTile(int64_t rows, int64_t size, const T* l, int64_t ldl, T* b, int64_t ldb) {
  if (rows == 0 || size == 0) return;
  auto tile = Write(b, rows, size, ldb);
  Read(l, size, size, ldl)
      .transpose()
      .template triangularView<Eigen::Upper>()
      .template solveInPlace<Eigen::OnTheRight>(tile);
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
