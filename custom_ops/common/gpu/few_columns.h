// JᵀJ and Jᵀr of matrices of few columns, whose rows wait in shared memory. r stands for one column more, so that the last row
// of the product is the gradient. Each tile of kSide x kSide numbers on or below the diagonal has a thread. Lines of such
// threads share the rows of a matrix; their sums are added at the end, in a fixed order.
#ifndef TFJAC_CUSTOM_OPS_COMMON_GPU_FEW_COLUMNS_H_
#define TFJAC_CUSTOM_OPS_COMMON_GPU_FEW_COLUMNS_H_

#include "custom_ops/common/gpu/division.h"
#include "custom_ops/common/gpu/launch.h"

namespace tfjac {

// Numbers side by side, moved by one access.
template <typename T, int kCount = 16 / static_cast<int>(sizeof(T))>
struct alignas(kCount * sizeof(T)) Run {
  static constexpr int kNumbers = kCount;
  T value[kCount];
};

// The shared memory of a block.
template <typename T>
using FewColumnsRoom = Run<T>[kExampleNumbers / Run<T>::kNumbers];

// How a block is cut.
struct FewColumnsCut {
  int p, across, tiles;  // columns of J; tiles side by side, and on and below the diagonal
  int width;             // numbers from one waiting row to the next
  int matrices, lines;   // of a block; lines of threads of each matrix
  int moved;             // lines whose sums fit in shared memory
  Divider by_tiles, by_lines;
};

// With up to `matrices` matrices, of which each line takes some of `rows` rows.
template <int kSide>
static inline FewColumnsCut CutFewColumns(int64_t p, int64_t matrices, int64_t rows) {
  FewColumnsCut cut;
  cut.p = static_cast<int>(p);
  cut.across = static_cast<int>(CeilingOf(p + 1, kSide));
  cut.tiles = static_cast<int>(TriangleSize(cut.across));
  cut.width = cut.across * kSide;
  const int64_t most = SmallerOf(kThreads / cut.tiles, kExampleNumbers / LargerOf(1, p * p + p));
  cut.matrices = static_cast<int>(LargerOf(1, SmallerOf(matrices, most)));
  const int slots = cut.matrices * cut.tiles;
  cut.lines = static_cast<int>(LargerOf(1, SmallerOf(kThreads / slots, rows / kRowsOfLine)));
  cut.moved = kExampleNumbers / (slots * kSide * kSide);
  cut.by_tiles = DividerBy(cut.tiles);
  cut.by_lines = DividerBy(cut.lines);
  return cut;
}

// The tile of a thread.
template <typename T, int kSide>
class FewColumnsTile {
 public:
  __device__ explicit FewColumnsTile(const FewColumnsCut& cut) {
    const uint32_t whole = Divide(threadIdx.x, cut.by_tiles);
    tile_ = static_cast<int>(threadIdx.x) - static_cast<int>(whole) * cut.tiles;
    matrix_ = static_cast<int>(Divide(whole, cut.by_lines));
    line_ = static_cast<int>(whole) - matrix_ * cut.lines;
    down_ = static_cast<int>(TriangleRow(tile_));
    across_ = tile_ - static_cast<int>(TriangleIndex(down_, 0));
  }

  __device__ int matrix() const { return matrix_; }

  __device__ void Clear() {
#pragma unroll
    for (int u = 0; u < kSide; ++u) {
#pragma unroll
      for (int v = 0; v < kSide; ++v) value_[u][v] = T(0);
    }
  }

  // Add the products of the rows of the thread's line, of one matrix.
  __device__ void Add(const FewColumnsCut& cut, const T* waiting, int rows) {
    const int apart = cut.across * kRun, step = cut.lines * cut.width;
    const T* left = waiting + line_ * cut.width + down_ * kRun;
    const T* right = waiting + line_ * cut.width + across_ * kRun;
#pragma unroll(kSide > 4 ? 1 : 4)
    for (int k = line_; k < rows; k += cut.lines, left += step, right += step) {
      Run<T> down[kRuns], across[kRuns];
#pragma unroll
      for (int u = 0; u < kRuns; ++u) {
        down[u] = *reinterpret_cast<const Run<T>*>(left + u * apart);
        across[u] = *reinterpret_cast<const Run<T>*>(right + u * apart);
      }
#pragma unroll
      for (int u = 0; u < kSide; ++u) {
#pragma unroll
        for (int v = 0; v < kSide; ++v) {
          value_[u][v] += down[u / kRun].value[u % kRun] * across[v / kRun].value[v % kRun];
        }
      }
    }
  }

  // Add the lines, and put the results of `count` matrices into shared memory: [count, p, p], then from matrices * p * p on
  // [count, p]. All threads of the block call.
  __device__ void Finish(const FewColumnsCut& cut, int count, T* shared) {
    Run<T>* const runs = reinterpret_cast<Run<T>*>(shared) + matrix_ * cut.tiles + tile_;
    const int apart = cut.matrices * cut.tiles;
    const auto waiting = [&](int line, int u, int v) -> T& {
      return runs[((line * kSide + u) * kRuns + v / kRun) * apart].value[v % kRun];
    };
    for (int lines = cut.lines, moved; lines > 1; lines -= moved) {
      moved = static_cast<int>(SmallerOf(lines / 2, cut.moved));
      const int from = line_ - (lines - moved), to = from + moved;
      __syncthreads();  // what was there has been used
      if (matrix_ < count && from >= 0 && from < moved) {
        ForAll([&](int u, int v) { waiting(from, u, v) = value_[u][v]; });
      }
      __syncthreads();
      if (matrix_ < count && to >= 0 && to < moved) {
        ForAll([&](int u, int v) { value_[u][v] += waiting(to, u, v); });
      }
    }
    __syncthreads();
    if (line_ == 0 && matrix_ < count) {
      const int p = cut.p;
      int down = down_, across = across_;
      asm volatile("" : "+r"(down), "+r"(across));  // or all places are computed before the loops, which need the registers
      T* const gram = shared + matrix_ * p * p;
      T* const gradient = shared + cut.matrices * p * p + matrix_ * p;
      ForAll([&](int u, int v) {
        const int r = Column(cut, down, u), c = Column(cut, across, v);
        if (r < p && c < p) gram[r * p + c] = gram[c * p + r] = value_[u][v];
        if (r < p && c == p) gradient[r] = value_[u][v];
        if (r == p && c < p) gradient[c] = value_[u][v];
      });
    }
    __syncthreads();
  }

 private:
  static constexpr int kRun = Run<T>::kNumbers, kRuns = kSide / kRun;

  // Number u of the columns of a tile. Runs stand far apart, so that those of neighbouring tiles are in different banks.
  __device__ static int Column(const FewColumnsCut& cut, int tile, int u) {
    return (u / kRun * cut.across + tile) * kRun + u % kRun;
  }

  template <typename Do>
  __device__ static void ForAll(const Do& then) {
#pragma unroll
    for (int u = 0; u < kSide; ++u) {
#pragma unroll
      for (int v = 0; v < kSide; ++v) then(u, v);
    }
  }

  T value_[kSide][kSide];
  int tile_, matrix_, line_, down_, across_;
};

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_GPU_FEW_COLUMNS_H_
