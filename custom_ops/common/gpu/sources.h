// What the tile engine multiplies: matrices in memory, and matrices made from factors on the way to shared memory.
#ifndef TFJAC_CUSTOM_OPS_COMMON_GPU_SOURCES_H_
#define TFJAC_CUSTOM_OPS_COMMON_GPU_SOURCES_H_

#include "custom_ops/common/gpu/division.h"
#include "custom_ops/common/gpu/factor_table.h"

namespace tfjac {

// A matrix [depth, columns] row by row, `ld` numbers between rows.
template <typename T>
struct StoredRows {
  static constexpr bool kAlongDepth = false;
  using Cursor = const T*;
  const T* data;
  int64_t ld, columns;

  TFJAC_HOST_DEVICE Cursor At(int64_t column) const { return data + column; }
  TFJAC_HOST_DEVICE T Load(Cursor cursor, int64_t depth) const { return cursor[depth * ld]; }
};

// The same column by column, `ld` numbers between columns.
template <typename T>
struct StoredColumns {
  static constexpr bool kAlongDepth = true;
  using Cursor = const T*;
  const T* data;
  int64_t ld, columns;

  TFJAC_HOST_DEVICE Cursor At(int64_t column) const { return data + column * ld; }
  TFJAC_HOST_DEVICE T Load(Cursor cursor, int64_t depth) const { return cursor[depth]; }
};

// d of one example and group for all residuals, columns (m, o): number d[m, depth, o].
template <typename T>
struct PositionsOfOutputs {
  static constexpr bool kAlongDepth = false;
  using Cursor = const T*;
  const T* data;                   // d[n, 0, 0, g, 0]
  int64_t ld_m, ld_t, o, columns;  // numbers from one m, one t to the next; columns = m_size * o

  TFJAC_HOST_DEVICE Cursor At(int64_t column) const { return data + column / o * ld_m + column % o; }
  TFJAC_HOST_DEVICE T Load(Cursor cursor, int64_t depth) const { return cursor[depth * ld_t]; }
};

// Two numbers of one example that are multiplied, and how far it is to the next example.
template <typename T>
struct PairCursor {
  const T *left, *right;
  int64_t ld_left, ld_right;
};

// Columns of J where every factor has one position of use; depth is the row n * m_size + m, below 2^31. Made inside a
// kernel: the table is the kernel's parameter.
template <typename T>
struct ColumnsOfJ {
  static constexpr bool kAlongDepth = false;
  using Cursor = PairCursor<T>;
  const FactorTable<T>& table;
  Divider m_size;
  int64_t begin, columns;  // the columns [begin, begin + columns) of the table

  TFJAC_HOST_DEVICE Cursor At(int64_t column) const {
    const int k = FactorAt(table, begin + column);
    const Factor<T>& f = table.factor[k];
    const Place place = PlaceOf(f, begin + column - table.first[k]);
    return {RowOfA(f, 0, 0, place.g) + place.i, RowOfD(f, 0, 0, 0, 0, place.g) + place.o, f.g * f.i, f.g * f.o};
  }
  TFJAC_HOST_DEVICE T Load(const Cursor& cursor, int64_t row) const {
    const int64_t n = Divide(static_cast<uint32_t>(row), m_size);
    return cursor.left[n * cursor.ld_left] * cursor.right[row * cursor.ld_right];
  }
};

// The pairs (x, y), 0 <= x < rows, 0 <= y < columns; or, if triangular, those with y <= x, numbered row by row.
struct PairGrid {
  int64_t rows, columns;
  bool triangular;

  TFJAC_HOST_DEVICE int64_t count() const { return triangular ? TriangleSize(rows) : rows * columns; }
  TFJAC_HOST_DEVICE int64_t RowAt(int64_t index) const { return triangular ? TriangleRow(index) : index / columns; }
  // The number of the pair; of its mirror image if that is the one that has a number.
  TFJAC_HOST_DEVICE int64_t IndexOf(int64_t x, int64_t y) const {
    if (!triangular) return x * columns + y;
    return x >= y ? TriangleIndex(x, y) : TriangleIndex(y, x);
  }
};

// The products x[n,i] y[n,j] for the pairs (i, j) from number `begin` on; depth is the example n.
template <typename T>
struct PairsOfInputs {
  static constexpr bool kAlongDepth = false;
  using Cursor = PairCursor<T>;
  const T *x, *y;  // [n, pairs.rows], [n, pairs.columns]
  PairGrid pairs;
  int64_t begin, columns;

  TFJAC_HOST_DEVICE Cursor At(int64_t column) const {
    const int64_t i = pairs.RowAt(begin + column);
    return {x + i, y + (begin + column - pairs.IndexOf(i, 0)), pairs.rows, pairs.columns};
  }
  TFJAC_HOST_DEVICE T Load(const Cursor& cursor, int64_t n) const {
    return cursor.left[n * cursor.ld_left] * cursor.right[n * cursor.ld_right];
  }
};

// The products x[n,m,o] y[n,m,q] summed over m, for all pairs (o, q); depth is the example n.
template <typename T>
struct FoldedOutputs {
  static constexpr bool kAlongDepth = false;
  using Cursor = PairCursor<T>;
  const T *x, *y;  // [n, m, pairs.rows], [n, m, pairs.columns]
  PairGrid pairs;
  int64_t m_size, columns;

  TFJAC_HOST_DEVICE Cursor At(int64_t column) const {
    const int64_t o = pairs.RowAt(column);
    return {x + o, y + (column - pairs.IndexOf(o, 0)), pairs.rows, pairs.columns};
  }
  TFJAC_HOST_DEVICE T Load(const Cursor& cursor, int64_t n) const {
    T sum = 0;
    for (int64_t row = n * m_size; row < (n + 1) * m_size; ++row) {
      sum += cursor.left[row * cursor.ld_left] * cursor.right[row * cursor.ld_right];
    }
    return sum;
  }
};

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_GPU_SOURCES_H_
