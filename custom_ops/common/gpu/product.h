// A whole product of two sources, tile by tile, and what is done with it: sums of segments, mirror images.
#ifndef TFJAC_CUSTOM_OPS_COMMON_GPU_PRODUCT_H_
#define TFJAC_CUSTOM_OPS_COMMON_GPU_PRODUCT_H_

#include "custom_ops/common/gpu/sum_parts.h"
#include "custom_ops/common/gpu/tile_product.h"

namespace tfjac {

// Sizes of a product [rows, columns], a sum over `depth`; triangular: rows == columns, and only tiles on and below the
// diagonal are computed (the numbers above the diagonal in those tiles are written as well).
struct ProductShape {
  int64_t rows, columns, depth;
  bool triangular;

  TFJAC_HOST_DEVICE int64_t tiles_down() const { return CeilingOf(rows, kTileSide); }
  TFJAC_HOST_DEVICE int64_t tiles_across() const { return CeilingOf(columns, kTileSide); }
  TFJAC_HOST_DEVICE int64_t tiles() const {
    return triangular ? TriangleSize(tiles_down()) : tiles_down() * tiles_across();
  }
  // Into how many segments the sum is cut so that there are enough blocks.
  TFJAC_HOST_DEVICE int64_t segments() const {
    const int64_t wanted = CeilingOf(kEnoughBlocks, LargerOf(tiles(), 1));
    return LargerOf(1, SmallerOf(wanted, depth / kShortestSegment));
  }
  TFJAC_HOST_DEVICE int64_t segment_length() const {
    return CeilingOf(CeilingOf(depth, segments()), kPanelDepth) * kPanelDepth;
  }
  // Numbers of scratch memory for the sums of all segments but the first.
  TFJAC_HOST_DEVICE int64_t scratch() const { return (segments() - 1) * rows * columns; }
};

// Where a product goes: out[row * ld + column], or added to what is there.
template <typename T>
struct ProductTarget {
  T* out;
  int64_t ld;
  bool add;
  T* scratch;  // [segments - 1, rows, columns]
};

template <typename T, typename Left, typename Right>
__device__ inline void ComputeProducts(const ProductShape& shape, const Left& left, const Right& right,
                                       const ProductTarget<T>& target, Panels<T>* panels) {
  const int64_t segments = shape.segments(), across = LargerOf(shape.tiles_across(), 1);
  const int64_t length = shape.segment_length();
  for (int64_t task = FirstTask(); task < shape.tiles() * segments; task += TaskStep()) {
    const int64_t segment = task % segments, index = task / segments;
    const int64_t tile_row = shape.triangular ? TriangleRow(index) : index / across;
    const int64_t x = tile_row * kTileSide;
    const int64_t y = (index - (shape.triangular ? TriangleIndex(tile_row, 0) : tile_row * across)) * kTileSide;
    TilePart<T> part;
    part.Clear();
    AddTileProduct(left, x, right, y, segment * length, SmallerOf((segment + 1) * length, shape.depth), panels, &part);

    T* const out = segment == 0 ? target.out : target.scratch + (segment - 1) * shape.rows * shape.columns;
    const int64_t ld = segment == 0 ? target.ld : shape.columns;
    const bool add = segment == 0 && target.add;
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) {
#pragma unroll
      for (int v = 0; v < kPerThread; ++v) {
        const int64_t r = x + part.row() + u, c = y + part.column() + v;
        if (r < shape.rows && c < shape.columns) out[r * ld + c] = part.value[u][v] + (add ? out[r * ld + c] : T(0));
      }
    }
  }
}

template <typename T, typename Left, typename Right>
__global__ void __launch_bounds__(kThreads)
    ProductKernel(ProductShape shape, const __grid_constant__ Left left, const __grid_constant__ Right right,
                  ProductTarget<T> target) {
  __shared__ Panels<T> panels;
  ComputeProducts(shape, left, right, target, &panels);
}

template <typename T>
int AddSegments(void* stream, const ProductShape& shape, const ProductTarget<T>& target) {
  return SumParts(stream, shape.segments() - 1, shape.rows, shape.columns, shape.triangular,
                  static_cast<const T*>(target.scratch), target.out, target.ld);
}

// The product, its segments summed. `target.scratch` holds shape.scratch() numbers.
template <typename T, typename Left, typename Right>
int LaunchProduct(void* stream, const ProductShape& shape, const Left& left, const Right& right,
                  const ProductTarget<T>& target) {
  TFJAC_RETURN_IF_ERROR(
      Launch(stream, shape.tiles() * shape.segments(), ProductKernel<T, Left, Right>, shape, left, right, target));
  return AddSegments(stream, shape, target);
}

// A square tile on its way to the other side of the diagonal.
template <typename T>
using MirrorTile = T[kMirrorSide][kMirrorSide + 1];

// Copy what lies below the diagonal of a matrix [size, size] to above it.
template <typename T>
__global__ void __launch_bounds__(kThreads) MirrorKernel(int64_t size, T* matrix) {
  __shared__ MirrorTile<T> tile;
  constexpr int kStep = kThreads / kMirrorSide;
  const int line = static_cast<int>(threadIdx.x) / kMirrorSide, k = static_cast<int>(threadIdx.x) % kMirrorSide;
  for (int64_t task = FirstTask(); task < TriangleSize(CeilingOf(size, kMirrorSide)); task += TaskStep()) {
    const int64_t tile_row = TriangleRow(task);
    const int64_t row = tile_row * kMirrorSide, column = (task - TriangleIndex(tile_row, 0)) * kMirrorSide;
    __syncthreads();
    for (int u = line; u < kMirrorSide; u += kStep) {
      if (row + u < size && column + k < size) tile[u][k] = matrix[(row + u) * size + column + k];
    }
    __syncthreads();
    for (int u = line; u < kMirrorSide; u += kStep) {
      const int64_t r = row + k, c = column + u;
      if (r < size && c < r) matrix[c * size + r] = tile[k][u];
    }
  }
}

template <typename T>
int Mirror(void* stream, int64_t size, T* matrix) {
  return Launch(stream, TriangleSize(CeilingOf(size, kMirrorSide)), MirrorKernel<T>, size, matrix);
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_GPU_PRODUCT_H_
