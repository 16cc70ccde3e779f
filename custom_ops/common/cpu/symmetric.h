// Symmetric results, computed tile by tile on and below the diagonal. For files compiled per instruction set.
#ifndef TFJAC_CUSTOM_OPS_COMMON_CPU_SYMMETRIC_H_
#define TFJAC_CUSTOM_OPS_COMMON_CPU_SYMMETRIC_H_

#include <cstdint>
#include <cstring>

#include "custom_ops/common/cpu/stream.h"

namespace tfjac::TFJAC_ISA {

static inline int64_t Smaller(int64_t x, int64_t y) { return x < y ? x : y; }
static inline int64_t Ceiling(int64_t x, int64_t step) { return (x + step - 1) / step; }

// Rows [row, row + rows) by columns [column, column + columns) of a symmetric matrix; no element lies above the diagonal of
// the matrix, except in an area on the diagonal, where row == column and rows == columns.
struct Area {
  int64_t row, rows, column, columns;
};

// Copy what lies below the diagonal in an area to its mirror image.
template <typename T>
static inline void Mirror(const Area& area, int64_t size, T* matrix) {
  constexpr int64_t kBlock = 16;  // block by block, so that lines are reused
  for (int64_t c = area.column; c < area.column + area.columns; c += kBlock) {
    for (int64_t r = area.row; r < area.row + area.rows; r += kBlock) {
      for (int64_t v = c; v < Smaller(c + kBlock, area.column + area.columns); ++v) {
        for (int64_t u = r > v ? r : v + 1; u < Smaller(r + kBlock, area.row + area.rows); ++u) {
          matrix[v * size + u] = matrix[u * size + v];
        }
      }
    }
  }
}

// Write a tile [area.rows, area.columns] to its area, and to the mirror image.
template <typename T>
static inline void StoreTile(const T* tile, const Area& area, int64_t size, T* matrix) {
  for (int64_t r = 0; r < area.rows; ++r) {
    std::memcpy(matrix + (area.row + r) * size + area.column, tile + r * area.columns, area.columns * sizeof(T));
  }
  Mirror(area, size, matrix);
}

// The same for a matrix that does not fit in the cache, past it. `spare` has room for the tile.
template <typename T>
static inline void StreamTile(const T* tile, const Area& area, int64_t size, T* spare, T* matrix) {
  if (area.row == area.column) return StoreTile(tile, area, size, matrix);
  constexpr int64_t kBlock = 16;
  for (int64_t c = 0; c < area.columns; c += kBlock) {
    for (int64_t r = 0; r < area.rows; ++r) {
      for (int64_t v = c; v < Smaller(c + kBlock, area.columns); ++v) {
        spare[v * area.rows + r] = tile[r * area.columns + v];
      }
    }
  }
  for (int64_t r = 0; r < area.rows; ++r) {
    StreamCopy(matrix + (area.row + r) * size + area.column, tile + r * area.columns, area.columns);
  }
  for (int64_t c = 0; c < area.columns; ++c) {
    StreamCopy(matrix + (area.column + c) * size + area.row, spare + c * area.rows, area.rows);
  }
  StreamFence();
}

}  // namespace tfjac::TFJAC_ISA

#endif  // TFJAC_CUSTOM_OPS_COMMON_CPU_SYMMETRIC_H_
