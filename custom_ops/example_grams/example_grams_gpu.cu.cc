#include "custom_ops/example_grams/example_grams_gpu.h"

#include "custom_ops/common/gpu/division.h"
#include "custom_ops/common/gpu/launch.h"
#include "custom_ops/common/gpu/libraries.h"
#include "custom_ops/common/gpu/tile_product.h"

namespace tfjac {
namespace {

// ---- Few columns: several examples of a block, which wait in shared memory. The residual stands for one column more, so
// that the last row of the product is the gradient.

struct Cut {
  int side, tiles;   // rows of tiles of kPerThread x kPerThread numbers, and tiles on and below the diagonal
  int64_t examples;  // of a block: each of their tiles has a thread
  int64_t rows;      // of J that wait at a time, of each example
  Divider by_p, by_width, by_tiles, by_square, by_side;

  int64_t width() const { return int64_t{side} * kPerThread; }
};

static Cut CutFor(int64_t p) {
  Cut cut;
  cut.side = static_cast<int>(CeilingOf(p + 1, kPerThread));
  cut.tiles = static_cast<int>(TriangleSize(cut.side));
  cut.examples = LargerOf(1, SmallerOf(kThreads / cut.tiles, kExampleNumbers / (p * p + p)));
  cut.rows = LargerOf(1, kExampleNumbers / (cut.examples * cut.width()));
  cut.by_p = DividerBy(p);
  cut.by_width = DividerBy(cut.width());
  cut.by_tiles = DividerBy(cut.tiles);
  cut.by_square = DividerBy(p * p);
  cut.by_side = DividerBy(cut.rows * cut.width());
  return cut;
}

// Rows [begin, begin + rows) of J and of the residual of the examples [n, n + count), to waiting[example, row, column].
template <typename T>
__device__ void LoadRows(const ExampleBlocks<T>& blocks, const Cut& cut, int64_t n, int64_t count, int64_t begin,
                         int64_t rows, T* waiting) {
  const uint32_t width = cut.by_width.divisor, p = static_cast<uint32_t>(blocks.p);
  const uint32_t example_size = cut.by_side.divisor;
  for (uint32_t k = threadIdx.x; k < count * example_size; k += kThreads) {
    const uint32_t example = Divide(k, cut.by_side), within = k - example * example_size;
    const uint32_t row = Divide(within, cut.by_width), column = within - row * width;
    const int64_t of_j = (n + example) * blocks.m + begin + row;
    T value = 0;
    if (row < rows && column < p) value = blocks.jacobian[of_j * blocks.p + column];
    if (row < rows && column == p) value = blocks.residual[of_j];
    waiting[k] = value;
  }
}

template <typename T>
__device__ void AddRows(const T* waiting, int64_t rows, int64_t width, int row, int column, TilePart<T>* part) {
  for (int64_t k = 0; k < rows; ++k, waiting += width) {
    AddOuterProduct(waiting + row, waiting + column, part);
  }
}

// The numbers of a thread's tile to their places in results[p * p + p] of an example, on both sides of the diagonal.
template <typename T>
__device__ void PlaceTile(const TilePart<T>& part, int row, int column, int p, T* results) {
#pragma unroll
  for (int u = 0; u < kPerThread; ++u) {
#pragma unroll
    for (int v = 0; v < kPerThread; ++v) {
      const int r = row + u, c = column + v;
      if (r > p || c >= p || c > r) continue;
      results[r * p + c] = part.value[u][v];  // the gradient is row p
      if (r < p) results[c * p + r] = part.value[u][v];
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    FewColumnsKernel(ExampleBlocks<T> blocks, Cut cut, T* __restrict__ gram, T* __restrict__ gradient) {
  __shared__ Neighbours<T> waiting[kExampleNumbers / kPerThread];
  T* const shared = waiting[0].value;
  const int p = static_cast<int>(blocks.p), thread = static_cast<int>(threadIdx.x);
  const int64_t width = cut.by_width.divisor, square = int64_t{p} * p, results = square + p;
  const int example = static_cast<int>(Divide(static_cast<uint32_t>(thread), cut.by_tiles));
  const int tile = thread - example * cut.tiles, tile_row = static_cast<int>(TriangleRow(tile));
  const int row = tile_row * kPerThread, column = (tile - static_cast<int>(TriangleIndex(tile_row, 0))) * kPerThread;
  for (int64_t task = FirstTask(); task < CeilingOf(blocks.n, cut.examples); task += TaskStep()) {
    const int64_t n = task * cut.examples, count = SmallerOf(cut.examples, blocks.n - n);
    TilePart<T> part;
    part.Clear();
    for (int64_t begin = 0; begin < blocks.m; begin += cut.rows) {
      const int64_t rows = SmallerOf(cut.rows, blocks.m - begin);
      __syncthreads();  // what waited before has been used
      LoadRows(blocks, cut, n, count, begin, rows, shared);
      __syncthreads();
      if (example < count) AddRows(shared + example * cut.rows * width, rows, width, row, column, &part);
    }
    __syncthreads();
    if (example < count) PlaceTile(part, row, column, p, shared + example * results);
    __syncthreads();
    for (uint32_t k = threadIdx.x; k < count * square; k += kThreads) {
      const uint32_t of = Divide(k, cut.by_square);
      gram[n * square + k] = shared[of * results + (k - of * square)];
    }
    for (uint32_t k = threadIdx.x; k < count * p; k += kThreads) {
      const uint32_t of = Divide(k, cut.by_p);
      gradient[n * p + k] = shared[of * results + square + (k - of * p)];
    }
  }
}

// ---- Many columns: tiles of one example after the other.

// J of an example [m, p], and its residual as column p.
template <typename T>
struct ColumnsAndResidual {
  static constexpr bool kAlongDepth = false;
  struct Cursor {
    const T* data;
    int64_t ld;
  };
  const T *jacobian, *residual;
  int64_t p, columns;

  __device__ Cursor At(int64_t column) const { return column < p ? Cursor{jacobian + column, p} : Cursor{residual, 1}; }
  __device__ T Load(const Cursor& cursor, int64_t depth) const { return cursor.data[depth * cursor.ld]; }
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    ManyColumnsKernel(ExampleBlocks<T> blocks, T* __restrict__ gram, T* __restrict__ gradient) {
  __shared__ Panels<T> panels;
  const int64_t p = blocks.p, tiles = TriangleSize(CeilingOf(p + 1, kTileSide));
  for (int64_t task = FirstTask(); task < blocks.n * tiles; task += TaskStep()) {
    const int64_t n = task / tiles, index = task % tiles, tile_row = TriangleRow(index);
    const int64_t x = tile_row * kTileSide, y = (index - TriangleIndex(tile_row, 0)) * kTileSide;
    const ColumnsAndResidual<T> source{blocks.jacobian + n * blocks.m * p, blocks.residual + n * blocks.m, p, p + 1};
    TilePart<T> part;
    part.Clear();
    AddTileProduct(source, x, source, y, 0, blocks.m, &panels, &part);
    T* const out = gram + n * p * p;
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) {
#pragma unroll
      for (int v = 0; v < kPerThread; ++v) {
        const int64_t r = x + part.row() + u, c = y + part.column() + v;
        if (c >= p || c > r) continue;
        if (r < p) out[r * p + c] = part.value[u][v];
        if (r == p) gradient[n * p + c] = part.value[u][v];
      }
    }
    StoreTransposed(part, &panels, out + y * p + x, p,
                    [&](int row, int column) { return x + row < p && y + column < x + row; });
  }
}

// gradient[n, p] of examples whose grams are cuBLAS': a thread for each column of each example.
template <typename T>
__global__ void __launch_bounds__(kThreads) GradientsKernel(ExampleBlocks<T> blocks, T* __restrict__ gradient) {
  const int64_t p = blocks.p, numbers = blocks.n * p;
  for (int64_t task = FirstTask(); task < CeilingOf(numbers, kThreads); task += TaskStep()) {
    const int64_t k = task * kThreads + threadIdx.x;
    if (k >= numbers) continue;
    const int64_t n = k / p;
    const T* const jacobian = blocks.jacobian + n * blocks.m * p + (k - n * p);
    const T* const residual = blocks.residual + n * blocks.m;
    T sum = 0;
#pragma unroll 8
    for (int64_t row = 0; row < blocks.m; ++row) sum += jacobian[row * p] * residual[row];
    gradient[k] = sum;
  }
}

// Whether cuBLAS computes the grams. Float64 with kBatchedColumns or more is soon faster there; float32 only where there is
// much to do, as few columns wait in shared memory here.
template <typename T>
bool GramsFromLibrary(const ExampleBlocks<T>& blocks) {
  const double square = static_cast<double>(blocks.p) * static_cast<double>(blocks.p);
  const double operations = static_cast<double>(blocks.n) * static_cast<double>(blocks.m) * square;
  const bool doubles = sizeof(T) == sizeof(double);
  if (blocks.m == 0 || blocks.p < (doubles ? kBatchedColumns : kExampleColumns)) return false;
  return UseCublas(operations, doubles ? kWorthLibrary : kWorthBatches);
}

template <typename T>
int ExampleGrams(void* stream, const ExampleBlocks<T>& blocks, T* gram, T* gradient) {
  const int64_t n = blocks.n, m = blocks.m, p = blocks.p;
  if (p == 0) return 0;
  if (GramsFromLibrary(blocks)) {
    TFJAC_RETURN_IF_ERROR(LibraryProducts(stream, n, p, p, m, blocks.jacobian, blocks.jacobian, gram));
    return Launch(stream, CeilingOf(n * p, kThreads), GradientsKernel<T>, blocks, gradient);
  }
  if (p + 1 <= kExampleColumns) {
    const Cut cut = CutFor(p);
    return Launch(stream, CeilingOf(n, cut.examples), FewColumnsKernel<T>, blocks, cut, gram, gradient);
  }
  return Launch(stream, n * TriangleSize(CeilingOf(p + 1, kTileSide)), ManyColumnsKernel<T>, blocks, gram, gradient);
}

}  // namespace
}  // namespace tfjac

int tfjac_cuda_example_grams_f32(void* stream, const tfjac::ExampleBlocks<float>* blocks, float* gram,
                                 float* gradient) {
  return tfjac::ExampleGrams(stream, *blocks, gram, gradient);
}
int tfjac_cuda_example_grams_f64(void* stream, const tfjac::ExampleBlocks<double>* blocks, double* gram,
                                 double* gradient) {
  return tfjac::ExampleGrams(stream, *blocks, gram, gradient);
}
