#include "custom_ops/jacobian_kernel/jacobian_kernel.h"

#include <cstring>

#include "custom_ops/common/cpu/balance.h"
#include "custom_ops/common/cpu/symmetric.h"
#include "custom_ops/common/cpu/tiles.h"
#include "custom_ops/common/cpu/vectors.h"

namespace tfjac::TFJAC_ISA {
namespace {

constexpr int64_t kSide = 192;  // rows and columns of a tile: two of them stay in the cache; a multiple of what Eigen computes at a time

// How a factor's part of the kernel is computed.
enum class Way {
  kHadamard,  // t = 1: (a aᵀ) ∘ (d dᵀ)
  kGhost,     // positions against positions, pair by pair of examples
  kRows,      // the factor's rows, formed some columns at a time
};

// The form of a factor; products of one position are taken for all factors with the same d at once, and always pay.
template <typename T>
Way WayOf(const Runtime& runtime, const Factors<T>& factors, const Factor<T>& f) {
  if (f.t == 1) return runtime.form == Form::kRows ? Way::kRows : Way::kHadamard;
  return KernelCostsOnCpu(SizesOf(f, factors.n, factors.m)).Pairs(runtime.form) ? Way::kGhost : Way::kRows;
}

// The tiles on and below the diagonal, in the order of TriangleIndex.
static Area TileOf(int64_t index, int64_t size) {
  const int64_t x = TriangleRow(index), y = index - TriangleIndex(x, 0);
  return Area{x * kSide, Smaller(kSide, size - x * kSide), y * kSide, Smaller(kSide, size - y * kSide)};
}

// Scratch memory of one worker.
template <typename T>
struct Scratch {
  T* tile;      // [kSide, kSide] the result
  T* products;  // [kSide, kSide] d dᵀ
  T* weights;   // [kSide + 2, kSide + 2] a aᵀ, by examples
  T* row;       // [kSide] one row of a aᵀ, by columns of the tile
  T* ghost;     // [largest t², then largest m t o]
  int64_t ghost_pairs;
};

// The examples that an interval of rows touches.
struct Examples {
  int64_t begin, count;
};
static Examples ExamplesOf(int64_t row, int64_t rows, int64_t m_size) {
  const int64_t begin = row / m_size;
  return Examples{begin, (row + rows - 1) / m_size + 1 - begin};
}

// tile += (a aᵀ) ∘ (d dᵀ) for the factors [first, last), which share d: their a aᵀ are summed first.
template <typename T>
void AddHadamard(const Factor<T>* first, const Factor<T>* last, int64_t m_size, const Area& area,
                 const Scratch<T>& scratch) {
  const Examples down = ExamplesOf(area.row, area.rows, m_size);
  const Examples across = ExamplesOf(area.column, area.columns, m_size);
  const int64_t o = first->o, ldd = first->g * first->o;
  for (int64_t g = 0; g < first->g; ++g) {
    std::memset(scratch.weights, 0, down.count * across.count * sizeof(T));
    for (const Factor<T>* f = first; f != last; ++f) {
      AddProduct(down.count, across.count, f->i, T(1), RowOfA(*f, down.begin, 0, g), f->g * f->i,
                 RowOfA(*f, across.begin, 0, g), f->g * f->i, scratch.weights, across.count);
    }
    std::memset(scratch.products, 0, area.rows * area.columns * sizeof(T));
    const T* const left = first->d + area.row * ldd + g * o;
    const T* const right = first->d + area.column * ldd + g * o;
    if (area.row == area.column) {  // on the diagonal, what lies above it is not used
      AddSquare(area.rows, o, T(1), left, ldd, scratch.products, area.columns);
    } else {
      AddProduct(area.rows, area.columns, o, T(1), left, ldd, right, ldd, scratch.products, area.columns);
    }
    int64_t expanded = -1;  // the example whose row of weights stands in scratch.row
    for (int64_t r = 0; r < area.rows; ++r) {
      const int64_t n = (area.row + r) / m_size - down.begin;
      if (n != expanded) {
        const T* const weights = scratch.weights + n * across.count;
        int64_t x = 0, m = area.column % m_size;
        for (int64_t c = 0; c < area.columns; ++c) {
          scratch.row[c] = weights[x];
          if (++m == m_size) m = 0, ++x;
        }
        expanded = n;
      }
      const T* __restrict const weights = scratch.row;
      const T* __restrict const products = scratch.products + r * area.columns;
      T* __restrict const tile = scratch.tile + r * area.columns;
      for (int64_t c = 0; c < area.columns; ++c) tile[c] += weights[c] * products[c];
    }
  }
}

// tile += sum_t sum_s (a_t · a_s) (d_t · d_s), pair by pair of examples.
template <typename T>
void AddGhost(const Factor<T>& f, int64_t m_size, const Area& area, const Scratch<T>& scratch) {
  const Examples down = ExamplesOf(area.row, area.rows, m_size);
  const Examples across = ExamplesOf(area.column, area.columns, m_size);
  const int64_t lda = f.g * f.i, ldd = f.g * f.o;
  const int64_t step = f.g == 1 ? f.t : 1;  // positions that stand side by side in d
  T* const pairs = scratch.ghost;                         // [t, s]
  T* const spread = scratch.ghost + scratch.ghost_pairs;  // [t, o]
  for (int64_t x = across.begin; x < across.begin + across.count; ++x) {
    for (int64_t n = down.begin; n < down.begin + down.count; ++n) {
      for (int64_t g = 0; g < f.g; ++g) {
        std::memset(pairs, 0, f.t * f.t * sizeof(T));
        AddProduct(f.t, f.t, f.i, T(1), RowOfA(f, x, 0, g), lda, RowOfA(f, n, 0, g), lda, pairs, f.t);
        for (int64_t y = 0; y < m_size; ++y) {
          const int64_t c = x * m_size + y - area.column;
          if (c < 0 || c >= area.columns) continue;
          std::memset(spread, 0, f.t * f.o * sizeof(T));  // spread[t] = sum_s (a_s · a_t) d_s
          AddTransposedProduct(f.t, f.o, f.t, pairs, f.t, RowOfD(f, m_size, x, y, 0, g), ldd, spread, f.o);
          for (int64_t m = 0; m < m_size; ++m) {
            const int64_t r = n * m_size + m - area.row;
            if (r < 0 || r >= area.rows) continue;
            const T* const d = RowOfD(f, m_size, n, m, 0, g);
            T sum = 0;
            for (int64_t t = 0; t < f.t; t += step) sum += Dot(spread + t * f.o, d + t * ldd, step * f.o);
            scratch.tile[r * area.columns + c] += sum;
          }
        }
      }
    }
  }
}

// kernel += rows rowsᵀ of one factor, on and below the diagonal tiles; some columns of the rows at a time.
template <typename T>
bool AddRows(const Runtime& runtime, const Factors<T>& factors, const Factor<T>& f, int64_t workers, T* slice,
             int64_t slice_columns, T* kernel) {
  const int64_t size = factors.n * factors.m;
  const int64_t inputs = Smaller(f.i, 1 + (slice_columns - 1) / (f.o + 1));  // input features at a time
  const int64_t row_tasks = Ceiling(size, kSide);
  for (int64_t g = 0; g < f.g; ++g) {
    for (int64_t i = 0; i < f.i; i += inputs) {
      const int64_t count = Smaller(inputs, f.i - i), width = count * f.o;
      ForEach(runtime, workers, row_tasks, [&](int64_t task, int64_t) {
        for (int64_t row = task * kSide; row < Smaller(size, (task + 1) * kSide); ++row) {
          const int64_t n = row / factors.m, m = row % factors.m;
          std::memset(slice + row * width, 0, width * sizeof(T));
          AddTransposedProduct(count, f.o, f.t, RowOfA(f, n, 0, g) + i, f.g * f.i, RowOfD(f, factors.m, n, m, 0, g),
                               f.g * f.o, slice + row * width, f.o);
        }
      });
      ForEach(runtime, workers, TriangleSize(row_tasks), [&](int64_t task, int64_t) {
        const Area area = TileOf(task, size);
        AddProduct(area.rows, area.columns, width, T(1), slice + area.row * width, width, slice + area.column * width,
                   width, kernel + area.row * size + area.column, size);
      });
    }
  }
  return true;
}

// All factors of the form `kRows`; the kernel must be zero. Returns through `some` whether there are any.
template <typename T>
bool AddAllRows(const Runtime& runtime, const Factors<T>& factors, int64_t workers, T* kernel, bool* some) {
  constexpr int64_t kSliceColumns = 1024;
  const int64_t size = factors.n * factors.m;
  int64_t widest = 0;
  for (int64_t k = 0; k < factors.count; ++k) {
    const Factor<T>& f = factors.factor[k];
    if (WayOf(runtime, factors, f) != Way::kRows) continue;
    const int64_t width = Smaller(f.i, 1 + (kSliceColumns - 1) / (f.o + 1)) * f.o;
    if (width > widest) widest = width;
  }
  *some = widest > 0;
  if (!*some) return true;
  T* const slice = static_cast<T*>(runtime.allocate(runtime.self, size * widest * sizeof(T)));
  if (slice == nullptr) return false;
  std::memset(kernel, 0, size * size * sizeof(T));
  for (int64_t k = 0; k < factors.count; ++k) {
    const Factor<T>& f = factors.factor[k];
    if (WayOf(runtime, factors, f) == Way::kRows) AddRows(runtime, factors, f, workers, slice, kSliceColumns, kernel);
  }
  return true;
}

// Add the factors of the other forms to one tile.
template <typename T>
void AddToTile(const Runtime& runtime, const Factors<T>& factors, const Area& area, const Scratch<T>& scratch) {
  const Factor<T>* const end = factors.factor + factors.count;
  for (const Factor<T>* f = factors.factor; f != end;) {
    const Factor<T>* next = f + 1;
    const Way way = WayOf(runtime, factors, *f);
    if (way == Way::kHadamard) {
      while (next != end && next->t == 1 && next->d == f->d && next->g == f->g && next->o == f->o) ++next;
      AddHadamard(f, next, factors.m, area, scratch);
    } else if (way == Way::kGhost) {
      AddGhost(*f, factors.m, area, scratch);
    }
    f = next;
  }
}

}  // namespace

template <typename T>
bool JacobianKernel(const Runtime& runtime, const Factors<T>& given, T* kernel) {
  Factors<T> factors = given;
  const auto by_products = [&](const Factor<T>& f) { return WayOf(runtime, given, f) != Way::kRows; };
  if (!Balance(runtime, by_products, &factors)) return false;
  const int64_t size = factors.n * factors.m;
  const int64_t tasks = TriangleSize(Ceiling(size, kSide));
  double cost = 0;  // per element of the result
  int64_t ghost_pairs = 0, ghost_spread = 0;
  for (int64_t k = 0; k < factors.count; ++k) {
    const Factor<T>& f = factors.factor[k];
    cost += static_cast<double>(f.g * f.o * f.t) + static_cast<double>(f.g * f.i * f.t) / factors.m;
    if (WayOf(runtime, factors, f) != Way::kGhost) continue;
    if (f.t * f.t > ghost_pairs) ghost_pairs = f.t * f.t;
    if (f.t * f.o > ghost_spread) ghost_spread = f.t * f.o;
  }
  const double tile = static_cast<double>(Smaller(size, kSide));
  const int64_t workers = Workers(runtime, tasks, cost * tile * tile);
  bool started = false;
  if (!AddAllRows(runtime, factors, workers, kernel, &started)) return false;

  const int64_t square = (kSide + 2) * (kSide + 2);
  const int64_t room = 3 * square + kSide + ghost_pairs + ghost_spread;
  T* const memory = static_cast<T*>(runtime.allocate(runtime.self, workers * room * sizeof(T)));
  if (memory == nullptr) return false;
  const bool stream = size * size * static_cast<int64_t>(sizeof(T)) >= kWorthStreaming;
  ForEach(runtime, workers, tasks, [&](int64_t task, int64_t worker) {
    T* const mine = memory + worker * room;
    const Scratch<T> scratch{mine,         mine + square, mine + 2 * square, mine + 3 * square, mine + 3 * square + kSide,
                             ghost_pairs};
    const Area area = TileOf(task, size);
    for (int64_t r = 0; r < area.rows; ++r) {
      T* const row = scratch.tile + r * area.columns;
      if (started) {
        std::memcpy(row, kernel + (area.row + r) * size + area.column, area.columns * sizeof(T));
      } else {
        std::memset(row, 0, area.columns * sizeof(T));
      }
    }
    AddToTile(runtime, factors, area, scratch);
    if (stream) {
      StreamTile(scratch.tile, area, size, scratch.products, kernel);
    } else {
      StoreTile(scratch.tile, area, size, kernel);
    }
  });
  return true;
}

#define INSTANTIATE(T) template bool JacobianKernel(const Runtime&, const Factors<T>&, T*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tfjac::TFJAC_ISA
