#include "custom_ops/jacobian_gram/jacobian_gram_gpu.h"

#include <vector>

#include "custom_ops/common/gpu/few_columns.h"
#include "custom_ops/common/gpu/launch.h"
#include "custom_ops/common/gpu/libraries.h"
#include "custom_ops/common/gpu/product.h"
#include "custom_ops/common/gpu/sources.h"
#include "custom_ops/jacobian_gram/gradient_gpu.h"
#include "custom_ops/jacobian_gram/pair_blocks_gpu.h"
#include "custom_ops/jacobian_rows/jacobian_rows_gpu.h"

namespace tfjac {
namespace {

// Tiles of the product of two spans of columns, with panels made from the factors.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    FusedProductKernel(const __grid_constant__ FactorTable<T> table, Divider m_size, int64_t x, int64_t y,
                       ProductShape shape, ProductTarget<T> target) {
  __shared__ Panels<T> panels;
  ComputeProducts(shape, ColumnsOfJ<T>{table, m_size, x, shape.rows}, ColumnsOfJ<T>{table, m_size, y, shape.columns},
                  target, &panels);
}

// ---- Few columns: each block makes the rows of a segment in shared memory, the residual as column p.

// `rows` wait at a time, in one of two places by turns, while each thread reads kGramRowsAtOnce numbers of its column.
template <typename T>
struct FewColumns {
  static constexpr int kSide = kGramSide<T>;

  FewColumnsCut cut;
  int side_by_side, rows;
  int depth, segments, length;  // of all rows

  FewColumns(int64_t p, int64_t all_rows) : depth(static_cast<int>(all_rows)) {
    const int64_t width = CeilingOf(p + 1, kSide) * kSide;
    side_by_side = static_cast<int>(kThreads / width);
    rows = side_by_side * kGramRowsAtOnce;
    cut = CutFewColumns<kSide>(p, 1, rows);
    segments = static_cast<int>(LargerOf(1, SmallerOf(kFewColumnsSegments, depth / kShortestSegment)));
    length = static_cast<int>(CeilingOf(depth, segments));
  }

  TFJAC_HOST_DEVICE int64_t results() const { return int64_t{cut.p} * cut.p + cut.p; }
  int64_t scratch() const { return int64_t{segments - 1} * results(); }
};

// The products that are a column of J, of some rows.
template <typename T>
class ColumnMaker {
 public:
  __device__ ColumnMaker(const FactorTable<T>& table, const Divider& m_size, const FewColumns<T>& few,
                         const T* residual)
      : m_size_(m_size), column_(static_cast<int>(threadIdx.x) % few.cut.width), width_(few.cut.width),
        first_(static_cast<int>(threadIdx.x) / width_), step_(few.side_by_side) {
    if (first_ >= step_) return;
    if (column_ < few.cut.p) {
      const PairCursor<T> cursor = ColumnsOfJ<T>{table, m_size, 0, few.cut.p}.At(column_);
      left_ = cursor.left, right_ = cursor.right;
      ld_left_ = static_cast<uint32_t>(cursor.ld_left), ld_right_ = static_cast<uint32_t>(cursor.ld_right);
    } else if (column_ == few.cut.p) {
      right_ = residual;
    }
  }

  // Read rows from `begin` on before `end` into registers; zeros beyond.
  __device__ void Load(int begin, int end) {
#pragma unroll
    for (int u = 0; u < kGramRowsAtOnce; ++u) {
      const int row = begin + first_ + u * step_;
      left_value_[u] = T(1), right_value_[u] = T(0);
      if (right_ == nullptr || row >= end) continue;
      right_value_[u] = right_[static_cast<uint64_t>(row) * ld_right_];
      const uint32_t n = Divide(static_cast<uint32_t>(row), m_size_);
      if (left_ != nullptr) left_value_[u] = left_[static_cast<uint64_t>(n) * ld_left_];
    }
  }

  __device__ void Store(T* waiting) const {
    if (first_ >= step_) return;
#pragma unroll
    for (int u = 0; u < kGramRowsAtOnce; ++u) {
      waiting[(first_ + u * step_) * width_ + column_] = left_value_[u] * right_value_[u];
    }
  }

 private:
  const Divider m_size_;
  const T *left_ = nullptr, *right_ = nullptr;
  uint32_t ld_left_ = 0, ld_right_ = 1;
  int column_, width_, first_, step_;
  T left_value_[kGramRowsAtOnce], right_value_[kGramRowsAtOnce];
};

template <typename T>
__global__ void __launch_bounds__(kThreads, kGramBlocks)
    FewColumnsKernel(const __grid_constant__ FactorTable<T> table, Divider m_size, FewColumns<T> few,
                     const T* __restrict__ residual, T* gram, T* gradient, T* others) {
  __shared__ FewColumnsRoom<T> room;
  T* const shared = room[0].value;
  const int square = few.cut.p * few.cut.p;
  ColumnMaker<T> maker(table, m_size, few, residual);
  FewColumnsTile<T, kGramSide<T>> tile(few.cut);
  for (int64_t segment = FirstTask(); segment < few.segments; segment += TaskStep()) {
    const int end = static_cast<int>(SmallerOf((segment + 1) * few.length, few.depth));
    int begin = static_cast<int>(segment) * few.length;
    tile.Clear();
    maker.Load(begin, end);
    __syncthreads();  // the results of the segment before have been written
    for (T* waiting = shared; begin < end; begin += few.rows) {
      maker.Store(waiting);
      __syncthreads();
      maker.Load(begin + few.rows, end);
      if (tile.matrix() == 0) tile.Add(few.cut, waiting, static_cast<int>(SmallerOf(few.rows, end - begin)));
      waiting = waiting == shared ? shared + few.rows * few.cut.width : shared;
    }
    tile.Finish(few.cut, 1, shared);
    T* const part = others + (segment - 1) * few.results();
    for (int k = static_cast<int>(threadIdx.x); k < few.results(); k += kThreads) {
      T* const to = segment > 0 ? part + k : k < square ? gram + k : gradient + (k - square);
      *to = shared[k];
    }
  }
}

// Neighbouring columns of J: those of one factor worth folding, or of a run of others.
struct Span {
  int64_t begin, columns;
  int64_t folded;  // the factor, or -1
};

template <typename T>
std::vector<Span> SpansOf(const Factors<T>& factors) {
  std::vector<Span> spans;
  const std::vector<bool> folded = Folded(factors);
  for (int64_t k = 0; k < factors.count; ++k) {
    const Factor<T>& f = factors.factor[k];
    const bool folds = folded[k];
    if (Columns(f) == 0) continue;
    if (folds || spans.empty() || spans.back().folded >= 0) {
      spans.push_back(Span{f.column, Columns(f), folds ? k : -1});
    } else {
      spans.back().columns += Columns(f);
    }
  }
  return spans;
}

// How JᵀJ is computed, and where in the workspace.
template <typename T>
class Plan {
 public:
  Plan(const Factors<T>& factors, void* workspace) : factors_(factors), spans_(SpansOf(factors)), arena_(workspace) {
    const int64_t rows = factors.n * factors.m;
    bool outer_products = true;
    for (int64_t k = 0; k < factors.count; ++k) outer_products = outer_products && factors.factor[k].t == 1;
    for (size_t x = 0; x < spans_.size(); ++x) {
      for (size_t y = 0; y <= x; ++y) {
        if (FromPairs(x, y)) continue;
        operations_ += static_cast<double>(rows) * spans_[x].columns * spans_[y].columns * (x == y ? 1 : 2);
      }
    }
    FactorTable<T> table;
    const bool one_table = FillTable(factors, 0, [](const Factor<T>&) { return true; }, &table) == factors.count;
    few_columns_ = outer_products && one_table && factors.p > 0 && factors.p < kExampleColumns && rows <= kMostRows &&
                   spans_[0].folded < 0 && spans_.size() == 1;
    if (few_columns_) {
      others_ = arena_.Take<T>(FewColumns<T>(factors.p, rows).scratch());
      return;
    }
    fused_ = outer_products && one_table && !UseCublas(operations_);
    const int64_t line = LargerOf(1, factors.m * (fused_ ? 1 : factors.p));  // numbers of an example
    const int64_t most = fused_ ? int64_t{1} << 30 : kPanelBytes / static_cast<int64_t>(sizeof(T));
    chunk_ = LargerOf(1, SmallerOf(factors.n, most / line));
    others_ = arena_.Take<T>((GradientSegments(factors.n, factors.p) - 1) * factors.p);
    TakeScratch();
  }

  int64_t bytes() const { return arena_.used(); }

  int Run(void* stream, const T* residual, T* gram, T* gradient) {
    const size_t number_bytes = sizeof(T), p = static_cast<size_t>(factors_.p);
    const cudaStream_t cuda_stream = static_cast<cudaStream_t>(stream);
    const bool empty = factors_.n == 0 || factors_.m == 0;
    if (empty) TFJAC_RETURN_IF_ERROR(cudaMemsetAsync(gram, 0, p * p * number_bytes, cuda_stream));
    if (empty || residual == nullptr) {
      TFJAC_RETURN_IF_ERROR(cudaMemsetAsync(gradient, 0, p * number_bytes, cuda_stream));
    }
    if (empty) return 0;
    if (few_columns_) return RunFewColumns(stream, residual, gram, gradient);
    if (residual != nullptr) {
      TFJAC_RETURN_IF_ERROR(LaunchGradient(stream, factors_, residual, gradient, others_));
    }
    for (int64_t n = 0; n < factors_.n && operations_ > 0; n += chunk_) {
      TFJAC_RETURN_IF_ERROR(AddExamples(stream, n, SmallerOf(chunk_, factors_.n - n), gram));
    }
    for (size_t x = 0; x < spans_.size(); ++x) {
      for (size_t y = 0; y <= x; ++y) {
        if (!FromPairs(x, y)) continue;
        const PairBlock<T> block = BlockOf(x, y);
        Arena rest = shared_;
        TFJAC_RETURN_IF_ERROR(LaunchPairBlock(stream, block, PairWorkspace<T>(block, &rest), gram));
      }
    }
    return Mirror(stream, factors_.p, gram);
  }

 private:
  bool FromPairs(size_t x, size_t y) const {
    return spans_[x].folded >= 0 && spans_[y].folded >= 0 && (x == y || factors_.m > 1);
  }
  PairBlock<T> BlockOf(size_t x, size_t y) const {
    return PairBlock<T>(factors_, factors_.factor[spans_[x].folded], factors_.factor[spans_[y].folded]);
  }
  ProductShape ShapeOf(size_t x, size_t y, int64_t examples) const {
    return {spans_[x].columns, spans_[y].columns, examples * factors_.m, x == y};
  }

  // Numbers of J that are in memory at a time.
  int64_t PanelSize() const { return fused_ || operations_ == 0 ? 0 : chunk_ * factors_.m * factors_.p; }

  // The products follow one another, so they share what is left of the workspace: first those of rows, then those of pairs.
  void TakeScratch() {
    int64_t most = 0;
    for (size_t x = 0; x < spans_.size(); ++x) {
      for (size_t y = 0; y <= x; ++y) {
        Arena one(nullptr);
        if (FromPairs(x, y)) {
          PairWorkspace<T>(BlockOf(x, y), &one);
        } else {
          one.Take<T>(PanelSize());
          one.Take<T>(fused_ ? ShapeOf(x, y, chunk_).scratch() : 0);
        }
        most = LargerOf(most, one.used());
      }
    }
    shared_ = Arena(arena_.Take<char>(most));
  }

  int RunFewColumns(void* stream, const T* residual, T* gram, T* gradient) {
    const FewColumns<T> few(factors_.p, factors_.n * factors_.m);
    FactorTable<T> table;
    FillTable(factors_, 0, [](const Factor<T>&) { return true; }, &table);
    TFJAC_RETURN_IF_ERROR(Launch(stream, int64_t{few.segments}, FewColumnsKernel<T>, table, DividerBy(factors_.m), few,
                                 residual, gram, gradient, others_));
    return SumParts(stream, int64_t{few.segments - 1}, factors_.p + 1, factors_.p, false,
                    static_cast<const T*>(others_), gram, factors_.p, gradient);
  }

  // Add the rows of some examples to the blocks that are computed from rows.
  int AddExamples(void* stream, int64_t n, int64_t examples, T* gram) {
    std::vector<Factor<T>> storage(factors_.factor, factors_.factor + factors_.count);
    for (Factor<T>& f : storage) {
      f.a = RowOfA(f, n, 0, 0);
      f.d = RowOfD(f, factors_.m, n, 0, 0, 0);
    }
    const Factors<T> some{examples, factors_.m, factors_.p, factors_.count, storage.data()};
    Arena space = shared_;
    T* const panel = space.Take<T>(PanelSize());
    if (!fused_) TFJAC_RETURN_IF_ERROR(LaunchJacobianRows(stream, some, panel));
    for (size_t x = 0; x < spans_.size(); ++x) {
      for (size_t y = 0; y <= x; ++y) {
        if (!FromPairs(x, y)) TFJAC_RETURN_IF_ERROR(AddBlock(stream, some, x, y, panel, n > 0, space, gram));
      }
    }
    return 0;
  }

  int AddBlock(void* stream, const Factors<T>& some, size_t x, size_t y, const T* panel, bool add, Arena rest,
               T* gram) {
    const int64_t p = factors_.p;
    const Span &down = spans_[x], &across = spans_[y];
    const ProductShape shape = ShapeOf(x, y, some.n);
    T* const out = gram + down.begin * p + across.begin;
    if (!fused_) {
      const T *const left = panel + down.begin, *const right = panel + across.begin;
      return x == y ? LibrarySquare(stream, down.columns, shape.depth, left, p, add, out, p)
                    : LibraryProduct(stream, down.columns, across.columns, shape.depth, left, p, right, p, add, out, p);
    }
    const ProductTarget<T> target{out, p, add, rest.Take<T>(shape.scratch())};
    FactorTable<T> table;
    FillTable(some, 0, [](const Factor<T>&) { return true; }, &table);
    const int64_t tasks = shape.tiles() * shape.segments();
    TFJAC_RETURN_IF_ERROR(Launch(stream, tasks, FusedProductKernel<T>, table, DividerBy(factors_.m), down.begin,
                                 across.begin, shape, target));
    return AddSegments(stream, shape, target);
  }

  static constexpr int64_t kMostRows = int64_t{1} << 30;

  const Factors<T>& factors_;
  const std::vector<Span> spans_;
  Arena arena_, shared_{nullptr};
  double operations_ = 0;  // of the blocks computed from rows
  bool few_columns_ = false;
  bool fused_ = false;     // made from the factors, tile by tile
  int64_t chunk_ = 1;      // examples at a time
  T* others_ = nullptr;    // segments after the first: of the gradient, or of all of few columns
};

template <typename T>
int Workspace(const Factors<T>& factors, int64_t* bytes) {
  *bytes = Plan<T>(factors, nullptr).bytes();
  return 0;
}

}  // namespace
}  // namespace tfjac

int tfjac_cuda_jacobian_gram_workspace_f32(void*, const tfjac::Factors<float>* factors, int64_t* bytes) {
  return tfjac::Workspace(*factors, bytes);
}
int tfjac_cuda_jacobian_gram_workspace_f64(void*, const tfjac::Factors<double>* factors, int64_t* bytes) {
  return tfjac::Workspace(*factors, bytes);
}
int tfjac_cuda_jacobian_gram_f32(void* stream, const tfjac::Factors<float>* factors, const float* residual, float* gram,
                                 float* gradient, void* workspace) {
  return tfjac::Plan<float>(*factors, workspace).Run(stream, residual, gram, gradient);
}
int tfjac_cuda_jacobian_gram_f64(void* stream, const tfjac::Factors<double>* factors, const double* residual,
                                 double* gram, double* gradient, void* workspace) {
  return tfjac::Plan<double>(*factors, workspace).Run(stream, residual, gram, gradient);
}
