#include "custom_ops/jacobian_rows/jacobian_rows.h"

#include <cstring>

#include "custom_ops/common/cpu/outer_product.h"
#include "custom_ops/common/cpu/stream.h"
#include "custom_ops/common/cpu/tiles.h"

namespace tfjac::TFJAC_ISA {
namespace {

// One row of a factor with several positions of use: per group the product of two small matrices.
template <typename T>
void WriteSumOfProducts(const Factor<T>& f, const T* a, const T* d, T* out) {
  std::memset(out, 0, Columns(f) * sizeof(T));
  for (int64_t g = 0; g < f.g; ++g) {
    const T* const left = a + g * f.i;
    const T* const right = d + g * f.o;
    T* const block = out + g * f.stride_g;
    if (f.stride_o == 1 || f.o == 1) {
      AddTransposedProduct(f.i, f.o, f.t, left, f.g * f.i, right, f.g * f.o, block, f.stride_i);
    } else if (f.stride_i == 1 || f.i == 1) {
      AddTransposedProduct(f.o, f.i, f.t, right, f.g * f.o, left, f.g * f.i, block, f.stride_o);
    } else {  // the groups run fastest
      for (int64_t t = 0; t < f.t; ++t) {
        for (int64_t i = 0; i < f.i; ++i) {
          const T scale = left[t * f.g * f.i + i];
          for (int64_t o = 0; o < f.o; ++o) {
            block[i * f.stride_i + o * f.stride_o] += scale * right[t * f.g * f.o + o];
          }
        }
      }
    }
  }
}

// The rows [begin, end) of factors that all have one position of use, past the cache.
template <typename T>
void StreamRows(const Factors<T>& factors, int64_t begin, int64_t end, T* rows) {
  StreamWriter<T> writer(rows + begin * factors.p);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t n = row / factors.m, m = row % factors.m;
    for (int64_t k = 0; k < factors.count; ++k) {
      const Factor<T>& f = factors.factor[k];
      WriteOuterProduct(NestOf(f), RowOfA(f, n, 0, 0), RowOfD(f, factors.m, n, m, 0, 0), 0, Columns(f), &writer);
    }
  }
}

}  // namespace

template <typename T>
bool JacobianRows(const Runtime& runtime, const Factors<T>& factors, T* rows) {
  int64_t positions = 1;
  bool outer_products = true;
  for (int64_t k = 0; k < factors.count; ++k) {
    const int64_t t = factors.factor[k].t;
    outer_products = outer_products && t == 1;
    if (t > positions) positions = t;
  }
  // Tasks of a fixed number of rows, about 256 KB of results: each row is written by one thread in one way.
  const int64_t row_bytes = factors.p * static_cast<int64_t>(sizeof(T));
  const int64_t count = factors.n * factors.m;
  const int64_t rows_per_task = 1 + (int64_t{1} << 18) / (row_bytes + 1);
  const int64_t tasks = (count + rows_per_task - 1) / rows_per_task;
  const double cost = static_cast<double>(positions * rows_per_task * factors.p);
  const bool stream = outer_products && count * row_bytes >= kWorthStreaming;
  ForEach(runtime, Workers(runtime, tasks, cost), tasks, [&](int64_t task, int64_t) {
    const int64_t begin = task * rows_per_task;
    const int64_t end = begin + rows_per_task < count ? begin + rows_per_task : count;
    if (stream) {
      StreamRows(factors, begin, end, rows);
      return;
    }
    for (int64_t k = 0; k < factors.count; ++k) {
      const Factor<T>& f = factors.factor[k];
      ExpandFactor(f, factors.m, begin, end, rows + begin * factors.p + f.column, factors.p);
    }
  });
  return true;
}

template <typename T>
void ExpandFactor(const Factor<T>& f, int64_t m_size, int64_t row_begin, int64_t row_end, T* out, int64_t ld) {
  if (f.t != 1) {
    for (int64_t row = row_begin; row < row_end; ++row, out += ld) {
      WriteSumOfProducts(f, RowOfA(f, row / m_size, 0, 0), RowOfD(f, m_size, row / m_size, row % m_size, 0, 0), out);
    }
    return;
  }
  const Nest nest = NestOf(f);
  int64_t n = row_begin / m_size, m = row_begin % m_size;
  const T* d = RowOfD(f, m_size, n, m, 0, 0);
  for (int64_t row = row_begin; row < row_end; ++row, out += ld, d += f.g * f.o) {
    const T* const a = RowOfA(f, n, 0, 0);
    if (f.g * f.i == 1) {
      const T scale = *a;
      for (int64_t k = 0; k < f.o; ++k) out[k] = scale * d[k];
    } else if (f.g * f.o == 1) {
      const T scale = *d;
      for (int64_t k = 0; k < f.i; ++k) out[k] = scale * a[k];
    } else {
      DirectWriter<T> writer(out);
      WriteOuterProduct(nest, a, d, 0, Columns(f), &writer);
    }
    if (++m == m_size) m = 0, ++n;
  }
}

#define INSTANTIATE(T)                                                    \
  template bool JacobianRows(const Runtime&, const Factors<T>&, T* rows); \
  template void ExpandFactor(const Factor<T>&, int64_t, int64_t, int64_t, T*, int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tfjac::TFJAC_ISA
