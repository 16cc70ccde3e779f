// The block of JᵀJ that two factors with one position of use and one group have, from pair products:
//
//     gram[(i,o),(j,q)] = sum_n X[n,(i,j)] Y[n,(o,q)]      X = a_k[n,i] a_l[n,j]      Y = sum_m d_k[n,m,o] d_l[n,m,q]
//
// Where k = l both X and Y are symmetric in their pairs, so pairs with j <= i and q <= o are enough. Pairs of inputs are taken
// in bands, so that the products of a band with all pairs of outputs, over many examples, fit in the workspace. For
// jacobian_gram_gpu.cu.cc.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_PAIR_BLOCKS_GPU_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_PAIR_BLOCKS_GPU_H_

#include <vector>

#include "custom_ops/common/forms.h"
#include "custom_ops/common/gpu/libraries.h"
#include "custom_ops/common/gpu/product.h"
#include "custom_ops/common/gpu/sources.h"

namespace tfjac {

// Write the rows [begin, end) of a source to memory, row by row.
template <typename T, typename Source>
__global__ void __launch_bounds__(kThreads)
    WriteSourceKernel(const __grid_constant__ Source source, int64_t begin, int64_t end, int rows_per_thread, T* out) {
  const int64_t across = CeilingOf(source.columns, kThreads);
  for (int64_t task = FirstTask(); task < across * CeilingOf(end - begin, rows_per_thread); task += TaskStep()) {
    const int64_t column = task % across * kThreads + threadIdx.x;
    if (column >= source.columns) continue;
    const typename Source::Cursor cursor = source.At(column);
    int64_t depth = begin + task / across * rows_per_thread;
    const int64_t last = SmallerOf(depth + rows_per_thread, end);
    T* to = out + (depth - begin) * source.columns + column;
    for (; depth + kRowsAtOnce <= last; depth += kRowsAtOnce) {
      T value[kRowsAtOnce];
#pragma unroll
      for (int u = 0; u < kRowsAtOnce; ++u) value[u] = source.Load(cursor, depth + u);
#pragma unroll
      for (int u = 0; u < kRowsAtOnce; ++u, to += source.columns) *to = value[u];
    }
    for (; depth < last; ++depth, to += source.columns) *to = source.Load(cursor, depth);
  }
}

template <typename T, typename Source>
int WriteSource(void* stream, const Source& source, int64_t begin, int64_t end, T* out) {
  const int64_t across = CeilingOf(source.columns, kThreads);
  const int depth = RowsPerThread(across, end - begin);
  const int64_t tasks = across * CeilingOf(end - begin, depth);
  return Launch(stream, tasks, WriteSourceKernel<T, Source>, source, begin, end, depth, out);
}

// The block of the factors `rows` (k) and `columns` (l) of a matrix [p, p].
template <typename T>
struct PairBlock {
  Factor<T> rows, columns;
  PairGrid inputs, outputs;
  int64_t n, m, p;

  PairBlock(const Factors<T>& factors, const Factor<T>& k, const Factor<T>& l)
      : rows(k), columns(l), inputs{k.i, l.i, &k == &l}, outputs{k.o, l.o, &k == &l}, n(factors.n), m(factors.m),
        p(factors.p) {}

  int64_t product_size() const { return inputs.count() * outputs.count(); }
  double operations() const { return 2.0 * static_cast<double>(n) * static_cast<double>(product_size()); }
};

// Give each number of the block that belongs to the pairs of inputs [begin, end) its product:
//     gram[(i,o),(j,q)] = products[(i,j) - begin, (o,q)]
// on and below the diagonal of the matrix. A block takes kPairs of them, looked up before, and some pairs of outputs; which
// of the two neighbouring threads differ in is what is next to one another in the matrix.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    SpreadPairsKernel(const __grid_constant__ PairBlock<T> block, int64_t begin, int64_t end, Divider by_columns,
                      Divider by_outputs, const T* __restrict__ products, T* gram) {
  constexpr int kPairs = kRowsPerThread;
  __shared__ int64_t input_row[kPairs], input_column[kPairs];
  const uint32_t outputs = by_outputs.divisor;
  const bool inputs_run = block.columns.stride_i < block.columns.stride_o;
  for (int64_t task = FirstTask(); task < CeilingOf(end - begin, kPairs) * CeilingOf(outputs, kThreads);
       task += TaskStep()) {
    const int64_t first = begin + task / CeilingOf(outputs, kThreads) * kPairs;
    const uint32_t output = static_cast<uint32_t>(task % CeilingOf(outputs, kThreads) * kThreads);
    const uint32_t count = static_cast<uint32_t>(SmallerOf(kPairs, end - first));
    const uint32_t wide = static_cast<uint32_t>(SmallerOf(kThreads, outputs - output));
    __syncthreads();
    if (threadIdx.x < count) {
      const int64_t i = block.inputs.RowAt(first + threadIdx.x);
      input_row[threadIdx.x] = i;
      input_column[threadIdx.x] = first + threadIdx.x - block.inputs.IndexOf(i, 0);
    }
    __syncthreads();
    for (uint32_t k = threadIdx.x; k < kPairs * kThreads; k += kThreads) {
      const uint32_t pair = inputs_run ? k % kPairs : k / kThreads, offset = inputs_run ? k / kPairs : k % kThreads;
      if (pair >= count || offset >= wide) continue;
      const int64_t i = input_row[pair], j = input_column[pair];
      const int64_t o = Divide(output + offset, by_columns), q = output + offset - o * by_columns.divisor;
      if (block.inputs.triangular && i == j && q > o) continue;  // the same number as (q, o)
      const int64_t x = ColumnOf(block.rows, 0, i, o), y = ColumnOf(block.columns, 0, j, q);
      gram[LargerOf(x, y) * block.p + SmallerOf(x, y)] =
          products[(first - begin + pair) * block.outputs.count() + block.outputs.IndexOf(o, q)];
    }
  }
}

// The workspace of a block: the products of a band of pairs of inputs, a panel of X for some examples at a time, and Y: of all
// examples, which is made once, or of as many as X. What Y leaves is the band's.
template <typename T>
struct PairWorkspace {
  bool library;
  int64_t band, chunk;  // pairs of inputs, examples at a time
  int64_t held;         // examples of Y
  T *products, *scratch, *inputs, *outputs;

  PairWorkspace(const PairBlock<T>& block, Arena* arena) : library(UseCublas(block.operations())) {
    constexpr int64_t kNumbers = kPanelBytes / static_cast<int64_t>(sizeof(T));
    const int64_t width = LargerOf(1, block.outputs.count());
    held = LargerOf(1, SmallerOf(block.n, kNumbers / 2 / width));
    chunk = library ? SmallerOf(held, LargerOf(kPairDepth, kNumbers / 4 / LargerOf(1, block.inputs.count()))) : held;
    if (held < block.n) held = chunk;
    const int64_t left = LargerOf(0, kNumbers - held * width);
    band = LargerOf(1, SmallerOf(block.inputs.count(), left / (library ? width + chunk : width)));
    products = arena->Take<T>(band * block.outputs.count());
    scratch = arena->Take<T>(library ? 0 : ShapeOf(block, band, chunk).scratch());
    outputs = arena->Take<T>(held * block.outputs.count());
    inputs = arena->Take<T>(library ? chunk * band : 0);
  }
  static ProductShape ShapeOf(const PairBlock<T>& block, int64_t pairs, int64_t examples) {
    return {pairs, block.outputs.count(), examples, false};
  }
};

// products[(i,j) - begin, (o,q)] of a band, of the examples [first, last), whose Y is `outputs`; added to those of the examples
// before.
template <typename T>
int MultiplyPairs(void* stream, const PairBlock<T>& block, const PairWorkspace<T>& space, int64_t begin, int64_t end,
                  int64_t first, int64_t last, const T* outputs) {
  const int64_t x = end - begin, y = block.outputs.count(), examples = last - first;
  const PairsOfInputs<T> inputs{block.rows.a + first * block.inputs.rows,
                                block.columns.a + first * block.inputs.columns, block.inputs, begin, x};
  if (space.library) {
    TFJAC_RETURN_IF_ERROR(WriteSource(stream, inputs, 0, examples, space.inputs));
    return LibraryProduct(stream, x, y, examples, space.inputs, x, outputs, y, first > 0, space.products, y);
  }
  return LaunchProduct(stream, PairWorkspace<T>::ShapeOf(block, x, examples), inputs,
                       StoredRows<T>{outputs, y, y},
                       ProductTarget<T>{space.products, y, first > 0, space.scratch});
}

// Compute the block, on and below the diagonal of the matrix.
template <typename T>
int LaunchPairBlock(void* stream, const PairBlock<T>& block, const PairWorkspace<T>& space, T* gram) {
  const FoldedOutputs<T> outputs{block.rows.d, block.columns.d, block.outputs, block.m, block.outputs.count()};
  const int64_t squares = block.rows.o * block.columns.o, pairs = block.inputs.count();
  const bool all = space.held >= block.n;
  if (all) TFJAC_RETURN_IF_ERROR(WriteSource(stream, outputs, 0, block.n, space.outputs));
  for (int64_t begin = 0, end; begin < pairs; begin = end) {
    end = SmallerOf(begin + space.band, pairs);
    for (int64_t first = 0, last; first < block.n; first = last) {
      last = SmallerOf(first + space.chunk, block.n);
      if (!all) TFJAC_RETURN_IF_ERROR(WriteSource(stream, outputs, first, last, space.outputs));
      const T* const some = space.outputs + (all ? first * outputs.columns : 0);
      TFJAC_RETURN_IF_ERROR(MultiplyPairs(stream, block, space, begin, end, first, last, some));
    }
    TFJAC_RETURN_IF_ERROR(Launch(stream, CeilingOf(end - begin, kRowsPerThread) * CeilingOf(squares, kThreads),
                                 SpreadPairsKernel<T>, block, begin, end, DividerBy(block.columns.o),
                                 DividerBy(squares), static_cast<const T*>(space.products), gram));
  }
  return 0;
}

// Whether a factor's block can be computed this way.
template <typename T>
static inline bool CanFold(const Factors<T>& factors, const Factor<T>& f) {
  constexpr int64_t kLimit = 2147483647, kMostPairs = kPairBytes / static_cast<int64_t>(sizeof(T));
  return f.t == 1 && f.g == 1 && factors.m > 0 && f.i * f.i < kLimit && f.o * f.o <= kMostPairs;
}

// Which factors are folded: those whose own blocks cost clearly less, by multiply-adds.
//   - One residual: none, where that does not save much of the square of all columns, which it cuts into spans.
//   - Several: all, where no row need be formed then, which spares more than the others cost.
template <typename T>
static inline std::vector<bool> Folded(const Factors<T>& factors) {
  std::vector<bool> folds(factors.count);
  const double n = static_cast<double>(factors.n), m = static_cast<double>(factors.m);
  const double p = static_cast<double>(factors.p), blocks = static_cast<double>(TriangleSize(factors.count));
  double saved = 0, spared = kWrittenOnGpu * m * p;
  bool all = true;
  for (int64_t k = 0; k < factors.count; ++k) {
    const Factor<T>& f = factors.factor[k];
    if (Columns(f) == 0) continue;
    const bool can = CanFold(factors, f);
    const FormCosts costs = GramCostsOnGpu(SizesOf(f, factors.n, factors.m));
    const double less = costs.rows - costs.pairs;
    folds[k] = can && less > kClearly * costs.rows && n * less > kWorthFolding;
    all = all && can;
    (folds[k] ? saved : spared) += less;
  }
  if (factors.m == 1 && saved < kClearly * SquareCostOnGpu(m, p)) folds.assign(factors.count, false);
  if (factors.m > 1 && saved > 0 && all && n * spared > blocks * kWorthFolding) folds.assign(factors.count, true);
  return folds;
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_PAIR_BLOCKS_GPU_H_
