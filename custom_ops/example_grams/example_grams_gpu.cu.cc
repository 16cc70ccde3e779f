#include "custom_ops/example_grams/example_grams_gpu.h"

#include <cuda_pipeline.h>

#include "custom_ops/common/gpu/few_columns.h"
#include "custom_ops/common/gpu/launch.h"
#include "custom_ops/common/gpu/libraries.h"
#include "custom_ops/common/gpu/tile_product.h"

namespace tfjac {
namespace {

// ---- Few columns: several examples of a block, one run of memory, which wait in shared memory.

constexpr int kSide = kPerThread;

struct Cut {
  FewColumnsCut few;
  int64_t rows;  // of J that wait at a time, of each example: all of them, if the examples are several
  Divider by_accesses, by_one;
};

// `numbers` are read by one access.
static Cut CutFor(int64_t m, int64_t p, int numbers) {
  const int64_t width = CeilingOf(p + 1, kSide) * kSide;
  Cut cut;
  cut.few = CutFewColumns<kSide>(p, kExampleNumbers / LargerOf(1, m * width), m);
  cut.rows = SmallerOf(m, kExampleNumbers / width);
  cut.by_accesses = DividerBy(p / numbers);
  cut.by_one = DividerBy(1);
  return cut;
}

// Begin to copy rows of so many accesses, one after the other in memory, to rows of shared memory `width` numbers apart.
template <typename T, int kNumbers>
__device__ void CopyRows(const T* from, uint32_t rows, const Divider& by_accesses, uint32_t width, T* to) {
  const uint32_t gap = width - by_accesses.divisor * kNumbers;
#pragma unroll 4
  for (uint32_t k = threadIdx.x; k < rows * by_accesses.divisor; k += kThreads) {
    const uint32_t place = k * kNumbers + Divide(k, by_accesses) * gap;
    __pipeline_memcpy_async(to + place, from + k * kNumbers, kNumbers * sizeof(T));
  }
}

template <typename T, int kNumbers>
__global__ void __launch_bounds__(kThreads, kExampleBlocks)
    FewColumnsKernel(ExampleBlocks<T> blocks, Cut cut, T* __restrict__ gram, T* __restrict__ gradient) {
  __shared__ FewColumnsRoom<T> room;
  T* const shared = room[0].value;
  const uint32_t p = cut.few.p, square = p * p, width = cut.few.width;
  const int64_t examples = cut.few.matrices;
  FewColumnsTile<T, kSide> tile(cut.few);
  for (int64_t task = FirstTask(); task < CeilingOf(blocks.n, examples); task += TaskStep()) {
    const int64_t n = task * examples;
    const int count = static_cast<int>(SmallerOf(examples, blocks.n - n));
    tile.Clear();
    for (int64_t begin = 0; begin < blocks.m; begin += cut.rows) {
      const int rows = static_cast<int>(SmallerOf(cut.rows, blocks.m - begin));
      const int64_t first = n * blocks.m + begin;
      __syncthreads();  // what waited before has been used
      CopyRows<T, 1>(blocks.residual + first, count * rows, cut.by_one, width, shared + p);
      CopyRows<T, kNumbers>(blocks.jacobian + first * p, count * rows, cut.by_accesses, width, shared);
      __pipeline_commit();
      __pipeline_wait_prior(0);
      __syncthreads();
      if (tile.matrix() < count) tile.Add(cut.few, shared + tile.matrix() * rows * width, rows);
    }
    tile.Finish(cut.few, count, shared);
    for (uint32_t k = threadIdx.x; k < count * square; k += kThreads) gram[n * square + k] = shared[k];
    for (uint32_t k = threadIdx.x; k < count * p; k += kThreads) gradient[n * p + k] = shared[examples * square + k];
  }
}

template <typename T, int kNumbers>
int LaunchFewColumns(void* stream, const ExampleBlocks<T>& blocks, T* gram, T* gradient) {
  const Cut cut = CutFor(blocks.m, blocks.p, kNumbers);
  return Launch(stream, CeilingOf(blocks.n, cut.few.matrices), FewColumnsKernel<T, kNumbers>, blocks, cut, gram,
                gradient);
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
    constexpr int kMost = Run<T>::kNumbers;
    const bool aligned = p % kMost == 0 && reinterpret_cast<uintptr_t>(blocks.jacobian) % sizeof(Run<T>) == 0;
    return aligned ? LaunchFewColumns<T, kMost>(stream, blocks, gram, gradient)
                   : LaunchFewColumns<T, 1>(stream, blocks, gram, gradient);
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
