#include "custom_ops/jacobian_kernel/jacobian_kernel_gpu.h"

#include <vector>

#include "custom_ops/common/gpu/launch.h"
#include "custom_ops/common/gpu/libraries.h"
#include "custom_ops/common/gpu/product.h"
#include "custom_ops/common/gpu/sources.h"
#include "custom_ops/jacobian_rows/jacobian_rows_gpu.h"

namespace tfjac {
namespace {

// weights[n,x] ∘ (d dᵀ)
template <typename T>
struct Term {
  const T *down, *across;  // d of both sides, [rows, depth], ld numbers between rows
  int64_t ld, depth;
  const T* weights;  // [n down, n across]
};

template <typename T>
struct Terms {
  Term<T> term[kFactorsPerLaunch];
  int count = 0;
};

// The part of the kernel that belongs to two blocks of rows, or to one with itself; of that what is on and below the
// diagonal counts.
template <typename T>
struct Part {
  ProductShape shape;  // its depth: that of all terms of a launch
  Divider m_down, m_across;
  int64_t n_across;
  T* out;  // number (row, column) goes to out[row * ld + column]
  int64_t ld;

  __device__ T WeightAt(const T* weights, uint32_t row, uint32_t column) const {
    return weights[Divide(row, m_down) * n_across + Divide(column, m_across)];
  }
};

// Where segments after the first go: [segments - 1, rows, columns].
template <typename T>
struct Segments {
  T* scratch;
  bool add;  // the first one: to what is there
};

// The sum of the terms, tile by tile. The depth of each term is cut into as many segments as the part's shape says. Two blocks
// share a multiprocessor, which the compiler has to be told.
template <typename T>
__global__ void __launch_bounds__(kThreads, 2)
    KernelTilesKernel(const __grid_constant__ Terms<T> terms, const __grid_constant__ Part<T> part,
                      Segments<T> segmented) {
  __shared__ Panels<T> panels;
  const ProductShape& shape = part.shape;
  const int64_t across = LargerOf(shape.tiles_across(), 1), segments = shape.segments();
  for (int64_t task = FirstTask(); task < shape.tiles() * segments; task += TaskStep()) {
    const int64_t segment = task % segments, index = task / segments;
    const int64_t tile_row = shape.triangular ? TriangleRow(index) : index / across;
    const int64_t x = tile_row * kTileSide;
    const int64_t y = (index - (shape.triangular ? TriangleIndex(tile_row, 0) : tile_row * across)) * kTileSide;
    const uint32_t row = static_cast<uint32_t>(x + TilePart<T>::row());
    const uint32_t column = static_cast<uint32_t>(y + TilePart<T>::column());
    const auto inside = [&](uint32_t r, uint32_t c) { return r < shape.rows && c < shape.columns; };
    TilePart<T> sum;
    sum.Clear();
    for (int k = 0; k < terms.count; ++k) {
      const Term<T>& term = terms.term[k];
      const StoredColumns<T> down{term.down, term.ld, shape.rows}, right{term.across, term.ld, shape.columns};
      const int64_t length = CeilingOf(CeilingOf(term.depth, segments), kPanelDepth) * kPanelDepth;
      TilePart<T> products;
      products.Clear();
      AddTileProduct(down, x, right, y, segment * length, SmallerOf((segment + 1) * length, term.depth), &panels,
                     &products);
#pragma unroll
      for (int u = 0; u < kPerThread; ++u) {
#pragma unroll
        for (int v = 0; v < kPerThread; ++v) {
          const T weight = inside(row + u, column + v) ? part.WeightAt(term.weights, row + u, column + v) : T(0);
          sum.value[u][v] += weight * products.value[u][v];
        }
      }
    }
    T* const out = segment == 0 ? part.out : segmented.scratch + (segment - 1) * shape.rows * shape.columns;
    const int64_t ld = segment == 0 ? part.ld : shape.columns;
    const bool add = segment == 0 && segmented.add;
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) {
#pragma unroll
      for (int v = 0; v < kPerThread; ++v) {
        if (!inside(row + u, column + v)) continue;
        const int64_t place = static_cast<int64_t>(row + u) * ld + column + v;
        out[place] = sum.value[u][v] + (add ? out[place] : T(0));
      }
    }
  }
}

// Rows of the part, [begin, begin + rows), from products [rows, columns] of d with d: out = weights ∘ products, or out += it.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    WeightProductsKernel(const __grid_constant__ Part<T> part, int64_t begin, int64_t rows, int64_t columns,
                         const T* __restrict__ products, const T* __restrict__ weights, bool add) {
  const int64_t across = CeilingOf(columns, kThreads);
  for (int64_t task = FirstTask(); task < across * rows; task += TaskStep()) {
    const int64_t row = task / across, column = task % across * kThreads + threadIdx.x;
    if (column >= columns) continue;
    T* const out = part.out + (begin + row) * part.ld + column;
    const T weight = part.WeightAt(weights, static_cast<uint32_t>(begin + row), static_cast<uint32_t>(column));
    *out = weight * products[row * columns + column] + (add ? *out : T(0));
  }
}

// Walks over the factors of two blocks of rows, or of one twice, collecting terms and launching them some at a time. Made
// without memory it tells how large the workspace must be.
template <typename T>
class Walk {
 public:
  Walk(void* stream, const Factors<T>& down, const Factors<T>& across, T* out, int64_t ld, void* workspace)
      : stream_(stream), down_(down), across_(across),
        part_{ProductShape{down.n * down.m, across.n * across.m, 0, &down == &across},
              DividerBy(down.m),
              DividerBy(across.m),
              across.n,
              out,
              ld},
        arena_(workspace) {
    const int64_t rows = part_.shape.rows, columns = part_.shape.columns, square = down.n * across.n;
    int64_t weights_wanted = 0, depth = 0;
    bool in_memory = false;
    for (int64_t k = 0; k < down.count; ++k) {
      const Factor<T>& f = down.factor[k];
      if (!Once(k)) continue;
      weights_wanted += f.g;
      if (GoesThroughMemory(f)) {
        in_memory = true;
      } else {
        depth += f.g * f.o;
      }
    }
    const int64_t affordable = LargerOf(1, kPanelBytes / LargerOf(1, square * static_cast<int64_t>(sizeof(T))));
    weights_room_ = SmallerOf(SmallerOf(weights_wanted, affordable), kFactorsPerLaunch);
    weights_ = arena_.Take<T>(weights_room_ * square);
    ProductShape deepest = part_.shape;
    deepest.depth = depth;
    scratch_ = arena_.Take<T>(deepest.scratch());
    products_ = arena_.Take<T>(in_memory ? BandRows() * columns : 0);
    const int64_t widest = WidestSlice();
    rows_down_ = arena_.Take<T>(rows * widest);
    rows_across_ = OnDiagonal() ? rows_down_ : arena_.Take<T>(columns * widest);
  }

  int Run() {
    for (int64_t k = 0, next; k < down_.count; k = next) {
      next = k + 1;
      if (Absent(k)) continue;
      if (Once(k)) {
        while (next < down_.count && Once(next) && SharesD(down_, k, next) && SharesD(across_, k, next)) ++next;
        TFJAC_RETURN_IF_ERROR(AddGroups(k, next));
      } else {
        TFJAC_RETURN_IF_ERROR(AddSlices(k));
      }
    }
    return terms_.count > 0 || !started_ ? Flush() : 0;
  }

  int64_t bytes() const { return arena_.used(); }

 private:
  bool OnDiagonal() const { return part_.shape.triangular; }
  bool Once(int64_t k) const { return down_.factor[k].t == 1 && across_.factor[k].t == 1; }
  bool Absent(int64_t k) const { return down_.factor[k].t == 0 || across_.factor[k].t == 0; }
  static bool SharesD(const Factors<T>& block, int64_t k, int64_t next) {
    const Factor<T>&f = block.factor[k], &other = block.factor[next];
    return other.d == f.d && other.g == f.g && other.o == f.o;
  }
  // Whether the products of d with d of a factor with one position of use are cuBLAS'.
  bool GoesThroughMemory(const Factor<T>& f) const {
    const double numbers = static_cast<double>(part_.shape.rows) * static_cast<double>(part_.shape.columns);
    return UseCublas((OnDiagonal() ? 1.0 : 2.0) * numbers * static_cast<double>(f.o), kWorthWeighting);
  }

  // Call body(begin, rows, columns) for bands of the part: of a triangular one up to the diagonal, and not much beyond.
  int64_t BandRows() const {
    const int64_t line = LargerOf(1, part_.shape.columns * static_cast<int64_t>(sizeof(T)));
    return LargerOf(1, SmallerOf(SmallerOf(kBandRows, part_.shape.rows), kPanelBytes / line));
  }
  template <typename Body>
  int ForEachBand(const Body& body) {
    const int64_t height = BandRows();
    for (int64_t begin = 0; begin < part_.shape.rows; begin += height) {
      const int64_t rows = SmallerOf(height, part_.shape.rows - begin);
      TFJAC_RETURN_IF_ERROR(body(begin, rows, OnDiagonal() ? begin + rows : part_.shape.columns));
    }
    return 0;
  }

  // Inputs of a factor with several positions of use whose columns are formed at a time.
  int64_t SliceOf(const Factor<T>& f) const {
    const int64_t rows = part_.shape.rows + (OnDiagonal() ? 0 : part_.shape.columns);
    const int64_t line = LargerOf(1, rows * f.o * static_cast<int64_t>(sizeof(T)));
    return SmallerOf(f.i, LargerOf(1, kPanelBytes / line));
  }
  int64_t WidestSlice() const {
    int64_t widest = 0;
    for (int64_t k = 0; k < down_.count; ++k) {
      const Factor<T>& f = down_.factor[k];
      if (!Once(k) && !Absent(k)) widest = LargerOf(widest, SliceOf(f) * f.o);
    }
    return widest;
  }

  // A term for each group of the factors [first, last), which share d.
  int AddGroups(int64_t first, int64_t last) {
    const Factor<T>&x = down_.factor[first], &y = across_.factor[first];
    for (int64_t g = 0; g < x.g; ++g) {
      if (weights_used_ == weights_room_ || terms_.count == kFactorsPerLaunch) TFJAC_RETURN_IF_ERROR(Flush());
      T* const weights = weights_ + weights_used_ * down_.n * across_.n;
      for (int64_t k = first; k < last; ++k) {
        const Factor<T>&f = down_.factor[k], &other = across_.factor[k];
        TFJAC_RETURN_IF_ERROR(LibraryProductOfRows(stream_, down_.n, across_.n, f.i, RowOfA(f, 0, 0, g), f.g * f.i,
                                                   RowOfA(other, 0, 0, g), f.g * f.i, k != first, weights, across_.n));
      }
      const T *const left = RowOfD(x, down_.m, 0, 0, 0, g), *const right = RowOfD(y, across_.m, 0, 0, 0, g);
      const Term<T> term{left, right, x.g * x.o, x.o, weights};
      if (GoesThroughMemory(x)) {
        TFJAC_RETURN_IF_ERROR(AddThroughMemory(term));  // on this stream, before the weights' place is taken again
      } else {
        terms_.term[terms_.count++] = term;
        ++weights_used_;
      }
    }
    return 0;
  }

  // One term from cuBLAS' products, some rows at a time.
  int AddThroughMemory(const Term<T>& term) {
    TFJAC_RETURN_IF_ERROR(ForEachBand([&](int64_t begin, int64_t rows, int64_t columns) {
      TFJAC_RETURN_IF_ERROR(LibraryProductOfRows(stream_, rows, columns, term.depth, term.down + begin * term.ld,
                                                 term.ld, term.across, term.ld, false, products_, columns));
      return Launch(stream_, CeilingOf(columns, kThreads) * rows, WeightProductsKernel<T>, part_, begin, rows, columns,
                    static_cast<const T*>(products_), term.weights, started_);
    }));
    started_ = true;
    return 0;
  }

  // The products of the rows of a factor with several positions of use, formed some columns at a time.
  int AddSlices(int64_t k) {
    const Factor<T>& f = down_.factor[k];
    const int64_t slice = SliceOf(f);
    for (int64_t g = 0; g < f.g; ++g) {
      for (int64_t i = 0; i < f.i; i += slice) {
        const int64_t count = SmallerOf(slice, f.i - i), width = count * f.o;
        TFJAC_RETURN_IF_ERROR(FormRows(down_, k, g, i, count, rows_down_));
        if (!OnDiagonal()) TFJAC_RETURN_IF_ERROR(FormRows(across_, k, g, i, count, rows_across_));
        TFJAC_RETURN_IF_ERROR(ForEachBand([&](int64_t begin, int64_t rows, int64_t columns) {
          return LibraryProductOfRows(stream_, rows, columns, width, rows_down_ + begin * width, width, rows_across_,
                                      width, started_, part_.out + begin * part_.ld, part_.ld);
        }));
        started_ = started_ || width > 0;
      }
    }
    return 0;
  }

  // The columns of the inputs [i, i + count) of one group, for all rows of a block.
  int FormRows(const Factors<T>& block, int64_t k, int64_t g, int64_t i, int64_t count, T* rows) {
    Factor<T> f = block.factor[k];
    f.stride_g = 0, f.stride_i = f.o, f.stride_o = 1;
    return LaunchExpansion(stream_, block.n, block.m, Expansion<T>{f, g, 1, i, count, rows, count * f.o});
  }

  int Flush() {
    Part<T> part = part_;
    for (int k = 0; k < terms_.count; ++k) part.shape.depth += terms_.term[k].depth;
    const ProductShape& shape = part.shape;
    TFJAC_RETURN_IF_ERROR(Launch(stream_, shape.tiles() * shape.segments(), KernelTilesKernel<T>, terms_, part,
                                 Segments<T>{scratch_, started_}));
    TFJAC_RETURN_IF_ERROR(SumParts(stream_, shape.segments() - 1, shape.rows, shape.columns, shape.triangular,
                                   static_cast<const T*>(scratch_), part.out, part.ld));
    started_ = true;
    terms_.count = 0;
    weights_used_ = 0;
    return 0;
  }

  void* const stream_;
  const Factors<T>&down_, &across_;
  const Part<T> part_;
  Arena arena_;
  int64_t weights_room_ = 0, weights_used_ = 0;
  T *weights_, *scratch_, *products_, *rows_down_, *rows_across_;
  Terms<T> terms_;
  bool started_ = false;  // whether there is anything in the part yet
};

// Some examples of a block of rows.
template <typename T>
struct Piece {
  std::vector<Factor<T>> factor;
  Factors<T> factors;
  int64_t row;  // of the kernel, where the first of its rows is

  Piece(const Factors<T>& block, int64_t begin, int64_t end, int64_t row_of_block)
      : factor(block.factor, block.factor + block.count),
        factors{end - begin, block.m, block.p, block.count, factor.data()}, row(row_of_block + begin * block.m) {
    for (Factor<T>& f : factor) {
      f.a = RowOfA(f, begin, 0, 0);
      f.d = RowOfD(f, block.m, begin, 0, 0, 0);
    }
  }
  Piece(Piece&&) = default;  // a copy's factors would be those of the original
};

// The blocks that have rows, in pieces: the weights of two of them, for kTermsAtOnce terms, fit in kPanelBytes, and so do the
// columns of one input for the rows of two, of a factor with several positions of use.
template <typename T>
std::vector<Piece<T>> PiecesOf(const Blocks<T>& blocks) {
  constexpr int64_t kTermsAtOnce = 4;
  int64_t small_enough = 1;
  while (4 * small_enough * small_enough * kTermsAtOnce * static_cast<int64_t>(sizeof(T)) <= kPanelBytes) {
    small_enough *= 2;
  }
  int64_t outputs = 1;
  for (int64_t k = 0; k < blocks.count; ++k) {
    for (int64_t f = 0; f < blocks.block[k].count; ++f) {
      if (blocks.block[k].factor[f].t > 1) outputs = LargerOf(outputs, blocks.block[k].factor[f].o);
    }
  }
  std::vector<Piece<T>> pieces;
  int64_t row = 0;
  for (int64_t k = 0; k < blocks.count; ++k) {
    const Factors<T>& block = blocks.block[k];
    int64_t most = small_enough;
    while (most > 1 && 2 * most * block.m * outputs * static_cast<int64_t>(sizeof(T)) > kPanelBytes) most /= 2;
    for (int64_t begin = 0; block.m > 0 && begin < block.n; begin += most) {
      pieces.emplace_back(block, begin, SmallerOf(begin + most, block.n), row);
    }
    row += block.n * block.m;
  }
  return pieces;
}

// Call body(down, across) for each two pieces, and each of them with itself.
template <typename T, typename Body>
int ForEachPair(const std::vector<Piece<T>>& pieces, const Body& body) {
  for (size_t x = 0; x < pieces.size(); ++x) {
    for (size_t y = 0; y <= x; ++y) TFJAC_RETURN_IF_ERROR(body(pieces[x], pieces[y]));
  }
  return 0;
}

template <typename T>
int JacobianKernel(void* stream, const Blocks<T>& blocks, T* kernel, void* workspace) {
  const int64_t size = RowsOf(blocks);
  TFJAC_RETURN_IF_ERROR(ForEachPair(PiecesOf(blocks), [&](const Piece<T>& down, const Piece<T>& across) {
    T* const out = kernel + down.row * size + across.row;
    return Walk<T>(stream, down.factors, across.factors, out, size, workspace).Run();
  }));
  return Mirror(stream, size, kernel);
}

template <typename T>
int Workspace(void* stream, const Blocks<T>& blocks, int64_t* bytes) {
  *bytes = 0;
  return ForEachPair(PiecesOf(blocks), [&](const Piece<T>& down, const Piece<T>& across) {
    *bytes = LargerOf(*bytes, Walk<T>(stream, down.factors, across.factors, nullptr, 0, nullptr).bytes());
    return 0;
  });
}

}  // namespace
}  // namespace tfjac

int tfjac_cuda_jacobian_kernel_workspace_f32(void* stream, const tfjac::Blocks<float>* blocks, int64_t* bytes) {
  return tfjac::Workspace(stream, *blocks, bytes);
}
int tfjac_cuda_jacobian_kernel_workspace_f64(void* stream, const tfjac::Blocks<double>* blocks, int64_t* bytes) {
  return tfjac::Workspace(stream, *blocks, bytes);
}
int tfjac_cuda_jacobian_kernel_f32(void* stream, const tfjac::Blocks<float>* blocks, float* kernel, void* workspace) {
  return tfjac::JacobianKernel(stream, *blocks, kernel, workspace);
}
int tfjac_cuda_jacobian_kernel_f64(void* stream, const tfjac::Blocks<double>* blocks, double* kernel, void* workspace) {
  return tfjac::JacobianKernel(stream, *blocks, kernel, workspace);
}
