// The factor form of a Jacobian, as every op on the CPU and the GPU sees it.
//
//     J[n,m,(g,i,o)] = sum_t a[n,t,g,i] d[n,m,t,g,o]
//
// n example, m residual within an example, t position of use, g group, i input feature, o output feature. The columns
// of a factor are its axes g, i, o flattened in the order that its layout names; the blocks of all factors stand side
// by side in J, a matrix [n, m, p] stored row by row.
//
// Plain data and index arithmetic only: no TensorFlow, no Eigen, no CUDA header. Functions are `static inline`, so that
// code compiled for one instruction set is never shared with code compiled for another.
#ifndef TFJAC_CUSTOM_OPS_COMMON_FACTORS_H_
#define TFJAC_CUSTOM_OPS_COMMON_FACTORS_H_

#include <cstdint>

#ifdef __CUDACC__
#define TFJAC_HOST_DEVICE __host__ __device__
#else
#define TFJAC_HOST_DEVICE
#endif

namespace tfjac {

template <typename T>
struct Factor {
  const T* a;  // [n, t, g, i]
  const T* d;  // [n, m, t, g, o]
  int64_t t, g, i, o;
  int64_t column;                        // first column of the block in J
  int64_t stride_g, stride_i, stride_o;  // columns between neighbours along each axis
};

template <typename T>
struct Factors {
  int64_t n, m, p;
  int64_t count;
  const Factor<T>* factor;  // [count]; in host memory, also where a and d are on a device
};

// Blocks of rows, one below the other: each with examples and residuals of its own, all with the same columns. Factor k has
// the same g, i and o in all blocks; its t may differ, and is 0 in a block that does not depend on these columns.
template <typename T>
struct Blocks {
  int64_t count;
  const Factors<T>* block;  // [count]; in host memory
};

// Number of rows of all blocks together.
template <typename T>
static inline int64_t RowsOf(const Blocks<T>& blocks) {
  int64_t rows = 0;
  for (int64_t b = 0; b < blocks.count; ++b) rows += blocks.block[b].n * blocks.block[b].m;
  return rows;
}

// Number of columns of one factor.
template <typename T>
TFJAC_HOST_DEVICE static inline int64_t Columns(const Factor<T>& f) {
  return f.g * f.i * f.o;
}

// Column of J that belongs to (g, i, o) of one factor.
template <typename T>
TFJAC_HOST_DEVICE static inline int64_t ColumnOf(const Factor<T>& f, int64_t g, int64_t i, int64_t o) {
  return f.column + g * f.stride_g + i * f.stride_i + o * f.stride_o;
}

// The place (g, i, o) in its factor of column `f.column + offset`, 0 <= offset < Columns(f).
struct Place {
  int64_t g, i, o;
};
template <typename T>
TFJAC_HOST_DEVICE static inline Place PlaceOf(const Factor<T>& f, int64_t offset) {
  // The axis of the smallest stride runs fastest; an axis of size one may share its stride with another.
  return Place{(offset / f.stride_g) % f.g, (offset / f.stride_i) % f.i, (offset / f.stride_o) % f.o};
}

// First element of a[n, t, g, :] and of d[n, m, t, g, :].
template <typename T>
TFJAC_HOST_DEVICE static inline const T* RowOfA(const Factor<T>& f, int64_t n, int64_t t, int64_t g) {
  return f.a + ((n * f.t + t) * f.g + g) * f.i;
}
template <typename T>
TFJAC_HOST_DEVICE static inline const T* RowOfD(const Factor<T>& f, int64_t m_size, int64_t n, int64_t m, int64_t t,
                                                int64_t g) {
  return f.d + (((n * m_size + m) * f.t + t) * f.g + g) * f.o;
}

// Pairs (x, y) with y <= x of a symmetric matrix, numbered row by row: (0,0), (1,0), (1,1), (2,0), ...
TFJAC_HOST_DEVICE static inline int64_t TriangleSize(int64_t size) { return size * (size + 1) / 2; }
TFJAC_HOST_DEVICE static inline int64_t TriangleIndex(int64_t x, int64_t y) { return x * (x + 1) / 2 + y; }

// The row x of the pair at `index`; its y is index - TriangleIndex(x, 0). Exact for every index below 2^52.
TFJAC_HOST_DEVICE static inline int64_t TriangleRow(int64_t index) {
  int64_t low = 0, high = 1;
  while (TriangleIndex(high, 0) <= index) high *= 2;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (TriangleIndex(middle, 0) <= index) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// Fill in column and strides from the layout, a permutation of "gio"; false for any other text. Returns through `p` the
// first column after the block.
template <typename T>
static inline bool PlaceColumns(const char* layout, Factor<T>* f, int64_t* p) {
  f->column = *p;
  f->stride_g = f->stride_i = f->stride_o = 0;
  int64_t stride = 1;
  int length = 0;
  while (layout[length] != 0) ++length;
  if (length != 3) return false;
  for (int k = 2; k >= 0; --k) {
    int64_t* const slot = layout[k] == 'g'   ? &f->stride_g
                          : layout[k] == 'i' ? &f->stride_i
                          : layout[k] == 'o' ? &f->stride_o
                                             : nullptr;
    if (slot == nullptr || *slot != 0) return false;
    const int64_t size = layout[k] == 'g' ? f->g : layout[k] == 'i' ? f->i : f->o;
    *slot = stride;
    stride *= size > 0 ? size : 1;
  }
  *p += Columns(*f);
  return true;
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_FACTORS_H_
