// The block of JᵀJ that two factors with one position of use and one group have, from pair products:
//
//     gram[(i,o),(j,q)] = sum_n X[n,(i,j)] Y[n,(o,q)]      X = a_k[n,i] a_l[n,j]      Y = sum_m d_k[n,m,o] d_l[n,m,q]
//
// Where k = l both X and Y are symmetric in their pairs, so pairs with j <= i and q <= o are enough. For
// jacobian_gram_gpu.cu.cc.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_PAIR_BLOCKS_GPU_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_PAIR_BLOCKS_GPU_H_

#include "custom_ops/common/forms.h"
#include "custom_ops/common/gpu/libraries.h"
#include "custom_ops/common/gpu/product.h"
#include "custom_ops/common/gpu/sources.h"

namespace tfjac {

// Write the rows [begin, end) of a source to memory, row by row.
template <typename T, typename Source>
__global__ void __launch_bounds__(kThreads)
    WriteSourceKernel(const __grid_constant__ Source source, int64_t begin, int64_t end, T* out) {
  const int64_t across = CeilingOf(source.columns, kThreads);
  for (int64_t task = FirstTask(); task < across * CeilingOf(end - begin, kRowsPerThread); task += TaskStep()) {
    const int64_t column = task % across * kThreads + threadIdx.x;
    if (column >= source.columns) continue;
    const typename Source::Cursor cursor = source.At(column);
    const int64_t first = begin + task / across * kRowsPerThread;
    for (int64_t depth = first; depth < SmallerOf(first + kRowsPerThread, end); ++depth) {
      out[(depth - begin) * source.columns + column] = source.Load(cursor, depth);
    }
  }
}

template <typename T, typename Source>
int WriteSource(void* stream, const Source& source, int64_t begin, int64_t end, T* out) {
  const int64_t tasks = CeilingOf(source.columns, kThreads) * CeilingOf(end - begin, kRowsPerThread);
  return Launch(stream, tasks, WriteSourceKernel<T, Source>, source, begin, end, out);
}

// The block of the factors `rows` (k) and `columns` (l) of a matrix [p, p].
template <typename T>
struct PairBlock {
  Factor<T> rows, columns;
  PairGrid inputs, outputs;
  int64_t n, m, p;

  PairBlock(const Factors<T>& factors, const Factor<T>& k, const Factor<T>& l)
      : rows(k),
        columns(l),
        inputs{k.i, l.i, &k == &l},
        outputs{k.o, l.o, &k == &l},
        n(factors.n),
        m(factors.m),
        p(factors.p) {}

  int64_t product_size() const { return inputs.count() * outputs.count(); }
  double operations() const { return 2.0 * static_cast<double>(n) * static_cast<double>(product_size()); }
};

// Give each number of the block its product: gram[(i,o),(j,q)] = products[(i,j),(o,q)], on and below the diagonal of
// the matrix. A thread per column walks down some rows, whose places the block has looked up before.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    SpreadPairsKernel(const __grid_constant__ PairBlock<T> block, const T* __restrict__ products, T* gram) {
  __shared__ int64_t input[kRowsPerThread], output[kRowsPerThread];
  const int64_t down = Columns(block.rows), across = CeilingOf(Columns(block.columns), kThreads);
  for (int64_t task = FirstTask(); task < across * CeilingOf(down, kRowsPerThread); task += TaskStep()) {
    const int64_t first = task / across * kRowsPerThread, count = SmallerOf(kRowsPerThread, down - first);
    __syncthreads();
    if (threadIdx.x < count) {
      const Place place = PlaceOf(block.rows, first + threadIdx.x);
      input[threadIdx.x] = place.i;
      output[threadIdx.x] = place.o;
    }
    __syncthreads();
    const int64_t offset = task % across * kThreads + threadIdx.x;
    if (offset >= Columns(block.columns)) continue;
    const Place place = PlaceOf(block.columns, offset);
    const int64_t column = block.columns.column + offset;
    for (int r = 0; r < count; ++r) {
      const int64_t row = block.rows.column + first + r;
      if (column > row) continue;
      const int64_t of_inputs = block.inputs.IndexOf(input[r], place.i);
      gram[row * block.p + column] =
          products[of_inputs * block.outputs.count() + block.outputs.IndexOf(output[r], place.o)];
    }
  }
}

// The workspace of a block: the products, and panels of X and Y for some examples at a time.
template <typename T>
struct PairWorkspace {
  bool library;
  int64_t chunk;  // examples at a time
  T *products, *scratch, *inputs, *outputs;

  PairWorkspace(const PairBlock<T>& block, Arena* arena)
      : library(UseCublas(block.operations(), LargerOf(block.inputs.count(), block.outputs.count()))) {
    const int64_t width = block.outputs.count() + (library ? block.inputs.count() : 0);
    const int64_t line = LargerOf(1, width * static_cast<int64_t>(sizeof(T)));
    chunk = LargerOf(1, SmallerOf(block.n, kPanelBytes / line));
    products = arena->Take<T>(block.product_size());
    scratch = arena->Take<T>(library ? 0 : ShapeOf(block, chunk).scratch());
    outputs = arena->Take<T>(chunk * block.outputs.count());
    inputs = arena->Take<T>(library ? chunk * block.inputs.count() : 0);
  }
  static ProductShape ShapeOf(const PairBlock<T>& block, int64_t examples) {
    return {block.inputs.count(), block.outputs.count(), examples, false};
  }
};

// Compute the block, on and below the diagonal of the matrix.
template <typename T>
int LaunchPairBlock(void* stream, const PairBlock<T>& block, const PairWorkspace<T>& space, T* gram) {
  const int64_t x = block.inputs.count(), y = block.outputs.count();
  const PairsOfInputs<T> inputs{block.rows.a, block.columns.a, block.inputs, x};
  const FoldedOutputs<T> outputs{block.rows.d, block.columns.d, block.outputs, block.m, y};
  for (int64_t begin = 0; begin < block.n; begin += space.chunk) {
    const int64_t end = SmallerOf(begin + space.chunk, block.n);
    TFJAC_RETURN_IF_ERROR(WriteSource(stream, outputs, begin, end, space.outputs));
    if (space.library) {
      TFJAC_RETURN_IF_ERROR(WriteSource(stream, inputs, begin, end, space.inputs));
      TFJAC_RETURN_IF_ERROR(LibraryProduct(stream, x, y, end - begin, space.inputs, x, space.outputs, y, begin > 0,
                                           space.products, y));
      continue;
    }
    PairsOfInputs<T> some = inputs;
    some.x += begin * block.inputs.rows;
    some.y += begin * block.inputs.columns;
    const StoredRows<T> folded{space.outputs, y, y};
    TFJAC_RETURN_IF_ERROR(LaunchProduct(stream, PairWorkspace<T>::ShapeOf(block, end - begin), some, folded,
                                        ProductTarget<T>{space.products, y, begin > 0, space.scratch}));
  }
  const int64_t tasks = CeilingOf(Columns(block.columns), kThreads) * CeilingOf(Columns(block.rows), kRowsPerThread);
  return Launch(stream, tasks, SpreadPairsKernel<T>, block, static_cast<const T*>(space.products), gram);
}

// Whether a factor's own block costs clearly less this way than through its rows, by multiply-adds.
template <typename T>
static inline bool FoldingPays(const Factors<T>& factors, const Factor<T>& f) {
  if (f.t != 1 || f.g != 1 || f.i < 2 || factors.m < 1) return false;
  constexpr int64_t kLimit = 2147483647;
  const FormCosts costs = GramCostsOnGpu(SizesOf(f, factors.n, factors.m));
  return costs.Pairs() && static_cast<double>(factors.n) * (costs.rows - costs.pairs) > kWorthFolding &&
         TriangleSize(f.i) < kLimit && TriangleSize(f.o) < kLimit;
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_PAIR_BLOCKS_GPU_H_
