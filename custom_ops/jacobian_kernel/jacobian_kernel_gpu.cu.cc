#include "custom_ops/jacobian_kernel/jacobian_kernel_gpu.h"

#include <vector>

#include "custom_ops/common/gpu/launch.h"
#include "custom_ops/common/gpu/product.h"
#include "custom_ops/common/gpu/sources.h"
#include "custom_ops/jacobian_rows/jacobian_rows_gpu.h"

namespace tfjac {
namespace {

// (weights[n,x]) ∘ (d dᵀ)
template <typename T>
struct Term {
  const T *down, *across;  // d of both sides, [rows, depth], ld numbers between rows
  int64_t ld, depth;
  const T* weights;  // [n down, n across], of which the lower triangle is read on the diagonal; null: ones
};

template <typename T>
struct Terms {
  Term<T> term[kFactorsPerLaunch];
  int count = 0;
};

// Where the products of rows of one block with rows of another go: out[r * ld + c], and mirror[c * ld + r].
template <typename T>
struct Target {
  T *out, *mirror;
  int64_t ld;
};

// The part of the kernel that belongs to two blocks of rows, or to one with itself.
template <typename T>
struct Part {
  ProductShape shape;  // triangular on the diagonal
  Divider m_down, m_across;
  int64_t n_across;
  Target<T> target;
};

// out = the sum of the terms, or out += it; the mirror image as well.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    KernelTilesKernel(const __grid_constant__ Terms<T> terms, const __grid_constant__ Part<T> part, bool add) {
  __shared__ Panels<T> panels;
  const ProductShape& shape = part.shape;
  const Target<T>& target = part.target;
  const int64_t across = LargerOf(shape.tiles_across(), 1);
  for (int64_t task = FirstTask(); task < shape.tiles(); task += TaskStep()) {
    const int64_t tile_row = shape.triangular ? TriangleRow(task) : task / across;
    const int64_t x = tile_row * kTileSide;
    const int64_t y = (task - (shape.triangular ? TriangleIndex(tile_row, 0) : tile_row * across)) * kTileSide;
    const uint32_t row = static_cast<uint32_t>(x + TilePart<T>::row());
    const uint32_t column = static_cast<uint32_t>(y + TilePart<T>::column());
    const auto inside = [&](uint32_t r, uint32_t c) {
      return r < shape.rows && c < shape.columns && (c <= r || !shape.triangular);
    };
    TilePart<T> sum;
    sum.Clear();
    for (int k = 0; k < terms.count; ++k) {
      const Term<T>& term = terms.term[k];
      const StoredColumns<T> down{term.down, term.ld, shape.rows}, right{term.across, term.ld, shape.columns};
      TilePart<T> products;
      products.Clear();
      AddTileProduct(down, x, right, y, 0, term.depth, &panels, &products);
#pragma unroll
      for (int u = 0; u < kPerThread; ++u) {
#pragma unroll
        for (int v = 0; v < kPerThread; ++v) {
          const T weight = !inside(row + u, column + v) ? T(0)
                           : term.weights == nullptr
                               ? T(1)
                               : term.weights[Divide(row + u, part.m_down) * part.n_across +
                                              Divide(column + v, part.m_across)];
          sum.value[u][v] += weight * products.value[u][v];
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) {
#pragma unroll
      for (int v = 0; v < kPerThread; ++v) {
        const int64_t r = row + u, c = column + v;
        if (!inside(row + u, column + v)) continue;
        const T value = sum.value[u][v] + (add ? target.out[r * target.ld + c] : T(0));
        target.out[r * target.ld + c] = value;
        target.mirror[c * target.ld + r] = value;
      }
    }
  }
}

// Walks over the factors of two blocks of rows, or of one twice, collecting terms and launching them some at a time. Made
// without memory it tells how large the workspace must be.
template <typename T>
class Walk {
 public:
  Walk(void* stream, const Factors<T>& down, const Factors<T>& across, const Target<T>& target, void* workspace)
      : stream_(stream),
        down_(down),
        across_(across),
        part_{ProductShape{down.n * down.m, across.n * across.m, 0, &down == &across}, DividerBy(down.m),
              DividerBy(across.m), across.n, target},
        arena_(workspace) {
    ProductShape products = WeightsShape(0);
    for (int64_t k = 0; k < down.count; ++k) {
      if (!Once(k)) continue;
      products.depth = LargerOf(products.depth, down.factor[k].i);
      weights_wanted_ += down.factor[k].g;
    }
    const int64_t square = down.n * across.n;
    const int64_t affordable = LargerOf(1, kPanelBytes / LargerOf(1, square * static_cast<int64_t>(sizeof(T))));
    weights_room_ = SmallerOf(SmallerOf(weights_wanted_, affordable), kFactorsPerLaunch);
    weights_ = arena_.Take<T>(weights_room_ * square);
    scratch_ = arena_.Take<T>(weights_room_ > 0 ? products.scratch() : 0);
    const int64_t widest = WidestSlice();
    rows_down_ = arena_.Take<T>(part_.shape.rows * widest);
    rows_across_ = OnDiagonal() ? rows_down_ : arena_.Take<T>(part_.shape.columns * widest);
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
  ProductShape WeightsShape(int64_t depth) const { return {down_.n, across_.n, depth, OnDiagonal()}; }

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
      T* const weights = weights_ + weights_used_++ * down_.n * across_.n;
      for (int64_t k = first; k < last; ++k) {
        const Factor<T>&f = down_.factor[k], &other = across_.factor[k];
        const StoredColumns<T> left{RowOfA(f, 0, 0, g), f.g * f.i, down_.n};
        const StoredColumns<T> right{RowOfA(other, 0, 0, g), f.g * f.i, across_.n};
        TFJAC_RETURN_IF_ERROR(LaunchProduct(stream_, WeightsShape(f.i), left, right,
                                            ProductTarget<T>{weights, across_.n, k != first, scratch_}));
      }
      const T *const left = RowOfD(x, down_.m, 0, 0, 0, g), *const right = RowOfD(y, across_.m, 0, 0, 0, g);
      terms_.term[terms_.count++] = Term<T>{left, right, x.g * x.o, x.o, weights};
    }
    return 0;
  }

  // A term for each slice of the rows of a factor with several positions of use.
  int AddSlices(int64_t k) {
    const Factor<T>& f = down_.factor[k];
    const int64_t slice = SliceOf(f);
    for (int64_t g = 0; g < f.g; ++g) {
      for (int64_t i = 0; i < f.i; i += slice) {
        const int64_t count = SmallerOf(slice, f.i - i), width = count * f.o;
        if (terms_.count == kFactorsPerLaunch) TFJAC_RETURN_IF_ERROR(Flush());
        TFJAC_RETURN_IF_ERROR(FormRows(down_, k, g, i, count, rows_down_));
        if (!OnDiagonal()) TFJAC_RETURN_IF_ERROR(FormRows(across_, k, g, i, count, rows_across_));
        terms_.term[terms_.count++] = Term<T>{rows_down_, rows_across_, width, width, nullptr};
        TFJAC_RETURN_IF_ERROR(Flush());  // the next slice takes the same place
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
    TFJAC_RETURN_IF_ERROR(Launch(stream_, part_.shape.tiles(), KernelTilesKernel<T>, terms_, part_, started_));
    started_ = true;
    terms_.count = 0;
    weights_used_ = 0;
    return 0;
  }

  void* const stream_;
  const Factors<T>&down_, &across_;
  const Part<T> part_;
  Arena arena_;
  int64_t weights_wanted_ = 0, weights_room_ = 0, weights_used_ = 0;
  T *weights_, *scratch_, *rows_down_, *rows_across_;
  Terms<T> terms_;
  bool started_ = false;
};

// Some examples of a block of rows.
template <typename T>
struct Piece {
  std::vector<Factor<T>> factor;
  Factors<T> factors;
  int64_t row;  // of the kernel, where the first of its rows is

  Piece(const Factors<T>& block, int64_t begin, int64_t end, int64_t row_of_block)
      : factor(block.factor, block.factor + block.count),
        factors{end - begin, block.m, block.p, block.count, factor.data()},
        row(row_of_block + begin * block.m) {
    for (Factor<T>& f : factor) {
      f.a = RowOfA(f, begin, 0, 0);
      f.d = RowOfD(f, block.m, begin, 0, 0, 0);
    }
  }
  Piece(Piece&&) = default;  // a copy's factors would be those of the original
};

// The blocks that have rows, in pieces: the weights of two of them, for kTermsAtOnce terms, fit in kPanelBytes.
template <typename T>
std::vector<Piece<T>> PiecesOf(const Blocks<T>& blocks) {
  constexpr int64_t kTermsAtOnce = 4;
  int64_t most = 1;
  while (4 * most * most * kTermsAtOnce * static_cast<int64_t>(sizeof(T)) <= kPanelBytes) most *= 2;
  std::vector<Piece<T>> pieces;
  int64_t row = 0;
  for (int64_t k = 0; k < blocks.count; ++k) {
    const Factors<T>& block = blocks.block[k];
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
  return ForEachPair(PiecesOf(blocks), [&](const Piece<T>& down, const Piece<T>& across) {
    const Target<T> target{kernel + down.row * size + across.row, kernel + across.row * size + down.row, size};
    return Walk<T>(stream, down.factors, across.factors, target, workspace).Run();
  });
}

template <typename T>
int Workspace(void* stream, const Blocks<T>& blocks, int64_t* bytes) {
  *bytes = 0;
  return ForEachPair(PiecesOf(blocks), [&](const Piece<T>& down, const Piece<T>& across) {
    *bytes = LargerOf(*bytes, Walk<T>(stream, down.factors, across.factors, Target<T>{}, nullptr).bytes());
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
int tfjac_cuda_jacobian_kernel_f64(void* stream, const tfjac::Blocks<double>* blocks, double* kernel,
                                   void* workspace) {
  return tfjac::JacobianKernel(stream, *blocks, kernel, workspace);
}
