#include "custom_ops/jacobian_row_norms/jacobian_row_norms.h"

#include <cstring>

#include "custom_ops/common/cpu/balance.h"
#include "custom_ops/common/cpu/tiles.h"
#include "custom_ops/common/cpu/vectors.h"

namespace tfjac::TFJAC_ISA {
namespace {

// sum_t sum_s (a_t · a_s) (d_t · d_s), tile by tile of the pairs (t, s), for all residuals of one example and one group.
// `scratch` holds two tiles.
template <typename T>
void AddGhostNorms(const Factor<T>& f, int64_t m_size, int64_t n, int64_t g, T* scratch, T* norms) {
  T* const products_a = scratch;
  T* const products_d = scratch + kTile * kTile;
  const int64_t lda = f.g * f.i, ldd = f.g * f.o;
  for (int64_t t = 0; t < f.t; t += kTile) {
    const int64_t rows = f.t - t < kTile ? f.t - t : kTile;
    for (int64_t s = 0; s <= t; s += kTile) {
      const int64_t columns = f.t - s < kTile ? f.t - s : kTile;
      const T twice = s < t ? 2 : 1;  // tiles off the diagonal stand for two
      const int64_t count = rows * columns;
      std::memset(products_a, 0, count * sizeof(T));
      AddProduct(rows, columns, f.i, T(1), RowOfA(f, n, t, g), lda, RowOfA(f, n, s, g), lda, products_a, columns);
      for (int64_t m = 0; m < m_size; ++m) {
        std::memset(products_d, 0, count * sizeof(T));
        AddProduct(rows, columns, f.o, T(1), RowOfD(f, m_size, n, m, t, g), ldd, RowOfD(f, m_size, n, m, s, g), ldd,
                   products_d, columns);
        norms[m] += twice * Dot(products_a, products_d, count);
      }
    }
  }
}

// The squared norm of the rows themselves, formed tile by tile, for all residuals of one example and one group.
template <typename T>
void AddNormsOfRows(const Factor<T>& f, int64_t m_size, int64_t n, int64_t g, T* scratch, T* norms) {
  const int64_t lda = f.g * f.i, ldd = f.g * f.o;
  for (int64_t m = 0; m < m_size; ++m) {
    for (int64_t i = 0; i < f.i; i += kTile) {
      const int64_t rows = f.i - i < kTile ? f.i - i : kTile;
      for (int64_t o = 0; o < f.o; o += kTile) {
        const int64_t columns = f.o - o < kTile ? f.o - o : kTile;
        std::memset(scratch, 0, rows * columns * sizeof(T));
        AddTransposedProduct(rows, columns, f.t, RowOfA(f, n, 0, g) + i, lda, RowOfD(f, m_size, n, m, 0, g) + o, ldd,
                             scratch, columns);
        norms[m] += Dot(scratch, scratch, rows * columns);
      }
    }
  }
}

template <typename T>
void AddNormsOfFactor(const Factor<T>& f, bool ghost, int64_t m_size, int64_t n, T* scratch, T* norms) {
  for (int64_t g = 0; g < f.g; ++g) {
    if (f.t == 1) {
      const T* const a = RowOfA(f, n, 0, g);
      const T norm = Dot(a, a, f.i);
      for (int64_t m = 0; m < m_size; ++m) {
        const T* const d = RowOfD(f, m_size, n, m, 0, g);
        const T other = Dot(d, d, f.o);
        norms[m] += FarFromTheEnds(norm) && FarFromTheEnds(other) ? norm * other : BalancedNorm(a, f.i, d, f.o);
      }
    } else if (ghost) {
      AddGhostNorms(f, m_size, n, g, scratch, norms);
    } else {
      AddNormsOfRows(f, m_size, n, g, scratch, norms);
    }
  }
}

}  // namespace

template <typename T>
bool JacobianRowNorms(const Runtime& runtime, const Factors<T>& given, T* norms) {
  Factors<T> factors = given;
  const auto ghost = [&](const Factor<T>& f) {
    return f.t != 1 && NormCostsOnCpu(SizesOf(f, given.n, given.m)).Pairs(runtime.form);
  };
  if (!Balance(runtime, [&](int64_t k) { return ghost(given.factor[k]); }, &factors)) return false;
  double cost = 0;  // per example
  bool needs_scratch = false;
  for (int64_t k = 0; k < factors.count; ++k) {
    const Factor<T>& f = factors.factor[k];
    const double expanded = f.t == 1 ? 1.0 : static_cast<double>(f.i);
    cost += static_cast<double>(f.t * f.g) * (f.i + factors.m * f.o * expanded);
    needs_scratch = needs_scratch || f.t != 1;
  }
  const int64_t examples_per_task = 1 + static_cast<int64_t>(kWorthAThread / 4 / (cost + 1));
  const int64_t tasks = (factors.n + examples_per_task - 1) / examples_per_task;
  const int64_t workers = Workers(runtime, tasks, cost * examples_per_task);
  const int64_t room = needs_scratch ? 2 * kTile * kTile : 0;
  T* scratch = nullptr;
  if (room > 0) {
    scratch = static_cast<T*>(runtime.allocate(runtime.self, workers * room * sizeof(T)));
    if (scratch == nullptr) return false;
  }
  ForEach(runtime, workers, tasks, [&](int64_t task, int64_t worker) {
    const int64_t begin = task * examples_per_task;
    const int64_t end = begin + examples_per_task < factors.n ? begin + examples_per_task : factors.n;
    for (int64_t n = begin; n < end; ++n) {
      T* const out = norms + n * factors.m;
      std::memset(out, 0, factors.m * sizeof(T));
      for (int64_t k = 0; k < factors.count; ++k) {
        const Factor<T>& f = factors.factor[k];
        AddNormsOfFactor(f, ghost(f), factors.m, n, room ? scratch + worker * room : nullptr, out);
      }
    }
  });
  return true;
}

#define INSTANTIATE(T) template bool JacobianRowNorms(const Runtime&, const Factors<T>&, T*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tfjac::TFJAC_ISA
