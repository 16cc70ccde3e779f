// One tile of a product of two matrices that need not exist: the engine of the CUDA kernels.
//
//     tile[x,y] += sum_depth left(depth, x) right(depth, y)
//
// A Source says what a matrix [depth, columns] holds: At(column) is what there is to know about a column, Load(cursor,
// depth) a number in it, kAlongDepth whether neighbours in memory differ in depth (then neighbouring threads do as
// well). Panels of kPanelDepth rows go through shared memory while the next ones are on their way to registers. All
// threads of a block call together; sums run over the depth in order.
#ifndef TFJAC_CUSTOM_OPS_COMMON_GPU_TILE_PRODUCT_H_
#define TFJAC_CUSTOM_OPS_COMMON_GPU_TILE_PRODUCT_H_

#include <cuda_runtime.h>

#include "custom_ops/common/gpu/block_sizes.h"
#include "custom_ops/common/gpu/launch.h"

namespace tfjac {

template <typename T>
struct Panels {
  alignas(16) T left[kPanelDepth][kTileSide + kPanelPadding];
  alignas(16) T right[kPanelDepth][kTileSide + kPanelPadding];
};

// A thread's part of a tile: kPerThread rows from row() on by kPerThread columns from column() on.
template <typename T>
struct TilePart {
  T value[kPerThread][kPerThread];

  __device__ static int row() { return static_cast<int>(threadIdx.x) / (kTileSide / kPerThread) * kPerThread; }
  __device__ static int column() { return static_cast<int>(threadIdx.x) % (kTileSide / kPerThread) * kPerThread; }

  __device__ void Clear() {
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) {
#pragma unroll
      for (int v = 0; v < kPerThread; ++v) value[u][v] = T(0);
    }
  }
};

// What one thread moves from a source to the panels: kPerThread numbers a panel. If neighbours in memory differ in depth,
// kAlong threads side by side read a sector of 32 bytes; so they write to different banks, as rows of a panel are four
// numbers apart, modulo the banks.
template <typename T, typename Source>
class Stage {
 public:
  static_assert(kTileSide * kPanelDepth == kThreads * kPerThread, "the threads cover a panel");

  __device__ Stage(const Source& source, int64_t first_column) : source_(source) {
#pragma unroll
    for (int u = 0; u < kCursors; ++u) {
      inside_[u] = first_column + Column(u) < source.columns;
      if (inside_[u]) cursor_[u] = source.At(first_column + Column(u));
    }
  }

  // Read rows [begin, begin + kPanelDepth) before `end` into registers; zeros beyond the edges.
  __device__ void Load(int64_t begin, int64_t end) {
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) {
      const int64_t depth = begin + Depth(u);
      const int c = u / kDepths;
      value_[u] = inside_[c] && depth < end ? source_.Load(cursor_[c], depth) : T(0);
    }
  }

  __device__ void Store(T (*panel)[kTileSide + kPanelPadding]) const {
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) panel[Depth(u)][Column(u / kDepths)] = value_[u];
  }

 private:
  static constexpr int kAlong = Source::kAlongDepth ? 32 / static_cast<int>(sizeof(T)) : 1;
  static constexpr int kAcross = static_cast<int>(SmallerOf(kThreads / kAlong, kTileSide));  // columns side by side
  static constexpr int kDown = kThreads / kAcross;                                           // depths side by side
  static constexpr int kDepths = kPanelDepth / kDown;  // numbers of a thread in one column
  static constexpr int kCursors = kPerThread / kDepths;
  static_assert(kDepths * kCursors == kPerThread && kCursors * kAcross == kTileSide, "each number once");

  __device__ static int Column(int cursor) {
    return static_cast<int>(threadIdx.x) / kAlong % kAcross + cursor * kAcross;
  }
  __device__ static int Depth(int u) {
    const int thread = static_cast<int>(threadIdx.x);
    return thread % kAlong + thread / (kAlong * kAcross) * kAlong + u % kDepths * kDown;
  }

  const Source& source_;
  typename Source::Cursor cursor_[kCursors];
  bool inside_[kCursors];
  T value_[kPerThread];
};

// Write a tile, transposed: value (row, column) goes to out[column * ld + row], for what is `inside(row, column)`. Sixteen
// columns at a time go through the panel, so that neighbouring threads write neighbours.
template <typename T, typename Inside>
__device__ inline void StoreTransposed(const TilePart<T>& part, Panels<T>* panels, T* out, int64_t ld,
                                       const Inside& inside) {
  for (int first = 0; first < kTileSide; first += kPanelDepth) {
    const int column = TilePart<T>::column() - first;
    __syncthreads();  // what the panels held before has been used
    if (column >= 0 && column < kPanelDepth) {
#pragma unroll
      for (int u = 0; u < kPerThread; ++u) {
#pragma unroll
        for (int v = 0; v < kPerThread; ++v) panels->left[column + v][TilePart<T>::row() + u] = part.value[u][v];
      }
    }
    __syncthreads();
    for (int k = static_cast<int>(threadIdx.x); k < kPanelDepth * kTileSide; k += kThreads) {
      const int row = k % kTileSide, line = k / kTileSide;
      if (inside(row, first + line)) out[(first + line) * ld + row] = panels->left[line][row];
    }
  }
}

// Numbers side by side, read by accesses of 16 bytes.
template <typename T>
struct alignas(16) Neighbours {
  T value[kPerThread];
};

// part += left rightᵀ of kPerThread numbers each, aligned to 16 bytes.
template <typename T>
__device__ inline void AddOuterProduct(const T* left, const T* right, TilePart<T>* part) {
  const Neighbours<T> down = *reinterpret_cast<const Neighbours<T>*>(left);
  const Neighbours<T> across = *reinterpret_cast<const Neighbours<T>*>(right);
#pragma unroll
  for (int u = 0; u < kPerThread; ++u) {
#pragma unroll
    for (int v = 0; v < kPerThread; ++v) part->value[u][v] += down.value[u] * across.value[v];
  }
}

template <typename T>
__device__ inline void AddPanels(const Panels<T>& panels, TilePart<T>* part) {
  const int row = TilePart<T>::row(), column = TilePart<T>::column();
#pragma unroll
  for (int k = 0; k < kPanelDepth; ++k) AddOuterProduct(&panels.left[k][row], &panels.right[k][column], part);
}

// part += the tile at (x, y) of the product, summed over the depths [begin, end).
template <typename T, typename Left, typename Right>
__device__ inline void AddTileProduct(const Left& left, int64_t x, const Right& right, int64_t y, int64_t begin,
                                      int64_t end, Panels<T>* panels, TilePart<T>* part) {
  if (begin >= end) return;
  Stage<T, Left> left_stage(left, x);
  Stage<T, Right> right_stage(right, y);
  left_stage.Load(begin, end);
  right_stage.Load(begin, end);
  for (int64_t depth = begin; depth < end; depth += kPanelDepth) {
    __syncthreads();  // the panels of the step before have been used
    left_stage.Store(panels->left);
    right_stage.Store(panels->right);
    __syncthreads();
    left_stage.Load(depth + kPanelDepth, end);
    right_stage.Load(depth + kPanelDepth, end);
    AddPanels(*panels, part);
  }
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_GPU_TILE_PRODUCT_H_
