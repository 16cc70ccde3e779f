#include "custom_ops/jacobian_kernel/jacobian_kernel_gpu.h"

#include "custom_ops/common/gpu/launch.h"
#include "custom_ops/common/gpu/product.h"
#include "custom_ops/common/gpu/sources.h"
#include "custom_ops/jacobian_rows/jacobian_rows_gpu.h"

namespace tfjac {
namespace {

// (weights[n,x]) ∘ (d dᵀ)
template <typename T>
struct Term {
  const T* d;  // [n·m, depth], ld numbers between rows
  int64_t ld, depth;
  const T* weights;  // [n, n], of which the lower triangle is read; null: ones
};

template <typename T>
struct Terms {
  Term<T> term[kFactorsPerLaunch];
  int count = 0;
};

// kernel = the sum of the terms, or kernel += it; both triangles.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    KernelTilesKernel(const __grid_constant__ Terms<T> terms, int64_t n_size, Divider m_size, bool add, T* kernel) {
  __shared__ Panels<T> panels;
  const int64_t size = n_size * m_size.divisor;
  for (int64_t task = FirstTask(); task < TriangleSize(CeilingOf(size, kTileSide)); task += TaskStep()) {
    const int64_t tile_row = TriangleRow(task);
    const int64_t x = tile_row * kTileSide, y = (task - TriangleIndex(tile_row, 0)) * kTileSide;
    const uint32_t row = static_cast<uint32_t>(x + TilePart<T>::row());
    const uint32_t column = static_cast<uint32_t>(y + TilePart<T>::column());
    TilePart<T> sum;
    sum.Clear();
    for (int k = 0; k < terms.count; ++k) {
      const Term<T>& term = terms.term[k];
      const StoredColumns<T> d{term.d, term.ld, size};
      TilePart<T> part;
      part.Clear();
      AddTileProduct(d, x, d, y, 0, term.depth, &panels, &part);
#pragma unroll
      for (int u = 0; u < kPerThread; ++u) {
#pragma unroll
        for (int v = 0; v < kPerThread; ++v) {
          const bool inside = row + u < size && column + v <= row + u;
          const T weight = !inside ? T(0)
                           : term.weights == nullptr
                               ? T(1)
                               : term.weights[Divide(row + u, m_size) * n_size + Divide(column + v, m_size)];
          sum.value[u][v] += weight * part.value[u][v];
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) {
#pragma unroll
      for (int v = 0; v < kPerThread; ++v) {
        const int64_t r = row + u, c = column + v;
        if (r >= size || c > r) continue;
        const T value = sum.value[u][v] + (add ? kernel[r * size + c] : T(0));
        kernel[r * size + c] = value;
        kernel[c * size + r] = value;
      }
    }
  }
}

// Walks over the factors, collecting terms and launching them some at a time. Made without memory it tells how large
// the workspace must be.
template <typename T>
class Walk {
 public:
  Walk(void* stream, const Factors<T>& factors, T* kernel, void* workspace)
      : stream_(stream), factors_(factors), kernel_(kernel), arena_(workspace) {
    ProductShape products{factors.n, factors.n, 0, true};
    for (int64_t k = 0; k < factors.count; ++k) {
      if (factors.factor[k].t != 1) continue;
      products.depth = LargerOf(products.depth, factors.factor[k].i);
      weights_wanted_ += factors.factor[k].g;
    }
    const int64_t square = factors.n * factors.n;
    const int64_t affordable = LargerOf(1, kPanelBytes / LargerOf(1, square * static_cast<int64_t>(sizeof(T))));
    weights_room_ = SmallerOf(SmallerOf(weights_wanted_, affordable), kFactorsPerLaunch);
    weights_ = arena_.Take<T>(weights_room_ * square);
    scratch_ = arena_.Take<T>(weights_room_ > 0 ? products.scratch() : 0);
    rows_ = arena_.Take<T>(factors.n * factors.m * WidestSlice());
  }

  int Run() {
    const Factor<T>* const end = factors_.factor + factors_.count;
    for (const Factor<T>* f = factors_.factor; f != end;) {
      const Factor<T>* next = f + 1;
      if (f->t == 1) {
        while (next != end && next->t == 1 && next->d == f->d && next->g == f->g && next->o == f->o) ++next;
        TFJAC_RETURN_IF_ERROR(AddGroups(f, next));
      } else {
        TFJAC_RETURN_IF_ERROR(AddSlices(*f));
      }
      f = next;
    }
    return terms_.count > 0 || !started_ ? Flush() : 0;
  }

  int64_t bytes() const { return arena_.used(); }

 private:
  // Inputs of a factor with several positions of use whose columns are formed at a time.
  int64_t SliceOf(const Factor<T>& f) const {
    const int64_t line = LargerOf(1, factors_.n * factors_.m * f.o * static_cast<int64_t>(sizeof(T)));
    return SmallerOf(f.i, LargerOf(1, kPanelBytes / line));
  }
  int64_t WidestSlice() const {
    int64_t widest = 0;
    for (int64_t k = 0; k < factors_.count; ++k) {
      const Factor<T>& f = factors_.factor[k];
      if (f.t != 1) widest = LargerOf(widest, SliceOf(f) * f.o);
    }
    return widest;
  }

  // A term for each group of the factors [first, last), which share d.
  int AddGroups(const Factor<T>* first, const Factor<T>* last) {
    for (int64_t g = 0; g < first->g; ++g) {
      if (weights_used_ == weights_room_ || terms_.count == kFactorsPerLaunch) TFJAC_RETURN_IF_ERROR(Flush());
      T* const weights = weights_ + weights_used_++ * factors_.n * factors_.n;
      for (const Factor<T>* f = first; f != last; ++f) {
        const StoredColumns<T> a{RowOfA(*f, 0, 0, g), f->g * f->i, factors_.n};
        TFJAC_RETURN_IF_ERROR(LaunchProduct(stream_, ProductShape{factors_.n, factors_.n, f->i, true}, a, a,
                                            ProductTarget<T>{weights, factors_.n, f != first, scratch_}));
      }
      const T* const d = RowOfD(*first, factors_.m, 0, 0, 0, g);
      terms_.term[terms_.count++] = Term<T>{d, first->g * first->o, first->o, weights};
    }
    return 0;
  }

  // A term for each slice of the rows of a factor with several positions of use.
  int AddSlices(const Factor<T>& factor) {
    const int64_t slice = SliceOf(factor);
    for (int64_t g = 0; g < factor.g; ++g) {
      for (int64_t i = 0; i < factor.i; i += slice) {
        const int64_t count = SmallerOf(slice, factor.i - i), width = count * factor.o;
        if (terms_.count == kFactorsPerLaunch) TFJAC_RETURN_IF_ERROR(Flush());
        Factor<T> f = factor;
        f.stride_g = 0, f.stride_i = f.o, f.stride_o = 1;
        const Expansion<T> expansion{f, g, 1, i, count, rows_, width};
        TFJAC_RETURN_IF_ERROR(LaunchExpansion(stream_, factors_.n, factors_.m, expansion));
        terms_.term[terms_.count++] = Term<T>{rows_, width, width, nullptr};
        TFJAC_RETURN_IF_ERROR(Flush());  // the next slice takes the same place
      }
    }
    return 0;
  }

  int Flush() {
    const int64_t tiles = TriangleSize(CeilingOf(factors_.n * factors_.m, kTileSide));
    TFJAC_RETURN_IF_ERROR(
        Launch(stream_, tiles, KernelTilesKernel<T>, terms_, factors_.n, DividerBy(factors_.m), started_, kernel_));
    started_ = true;
    terms_.count = 0;
    weights_used_ = 0;
    return 0;
  }

  void* const stream_;
  const Factors<T>& factors_;
  T* const kernel_;
  Arena arena_;
  int64_t weights_wanted_ = 0, weights_room_ = 0, weights_used_ = 0;
  T *weights_, *scratch_, *rows_;
  Terms<T> terms_;
  bool started_ = false;
};

template <typename T>
int JacobianKernel(void* stream, const Factors<T>& factors, T* kernel, void* workspace) {
  if (factors.n == 0 || factors.m == 0) return 0;
  return Walk<T>(stream, factors, kernel, workspace).Run();
}

template <typename T>
int Workspace(void* stream, const Factors<T>& factors, int64_t* bytes) {
  *bytes = Walk<T>(stream, factors, nullptr, nullptr).bytes();
  return 0;
}

}  // namespace
}  // namespace tfjac

int tfjac_cuda_jacobian_kernel_workspace_f32(void* stream, const tfjac::Factors<float>* factors, int64_t* bytes) {
  return tfjac::Workspace(stream, *factors, bytes);
}
int tfjac_cuda_jacobian_kernel_workspace_f64(void* stream, const tfjac::Factors<double>* factors, int64_t* bytes) {
  return tfjac::Workspace(stream, *factors, bytes);
}
int tfjac_cuda_jacobian_kernel_f32(void* stream, const tfjac::Factors<float>* factors, float* kernel, void* workspace) {
  return tfjac::JacobianKernel(stream, *factors, kernel, workspace);
}
int tfjac_cuda_jacobian_kernel_f64(void* stream, const tfjac::Factors<double>* factors, double* kernel,
                                   void* workspace) {
  return tfjac::JacobianKernel(stream, *factors, kernel, workspace);
}
