#include "custom_ops/jacobian_rows/jacobian_rows_gpu.h"

#include "custom_ops/common/gpu/factor_table.h"
#include "custom_ops/common/gpu/launch.h"
#include "custom_ops/common/gpu/sources.h"
#include "custom_ops/common/gpu/tile_product.h"

namespace tfjac {
namespace {

// A block covers `lanes` columns, a power of two, and kThreads / lanes rows at a time; `depth` of them for each thread.
struct RowsShape {
  int64_t rows, m_size, p;
  int lanes, depth;

  TFJAC_HOST_DEVICE int64_t rows_per_task() const { return int64_t{kThreads} / lanes * depth; }
};

// The walk of a thread down the rows, `step` rows at a time: from row to row, a and d move on by numbers that are known before.
template <typename T>
struct RowWalk {
  const T *a, *d;
  int m, m_size, step_m;
  int64_t step_a, step_d, carry_a;  // carry_a: where m runs over to the next example

  __device__ T Next() {
    const T product = *a * *d;
    m += step_m;
    const bool over = m >= m_size;
    if (over) m -= m_size;
    a += step_a + (over ? carry_a : 0);
    d += step_d;
    return product;
  }
};

// Factors with one position of use.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    OuterProductsKernel(const __grid_constant__ FactorTable<T> table, RowsShape shape, T* __restrict__ rows) {
  const int64_t across = CeilingOf(table.columns(), shape.lanes);
  const int64_t tasks = across * CeilingOf(shape.rows, shape.rows_per_task());
  const int lane = static_cast<int>(threadIdx.x) % shape.lanes, line = static_cast<int>(threadIdx.x) / shape.lanes;
  const int step = kThreads / shape.lanes;
  for (int64_t task = FirstTask(); task < tasks; task += TaskStep()) {
    const int64_t column = task % across * shape.lanes + lane;
    if (column >= table.columns()) continue;
    const int k = FactorAt(table, column);
    const Factor<T>& f = table.factor[k];
    const Place place = PlaceOf(f, column - table.first[k]);
    const int64_t ld_a = f.g * f.i, ld_d = f.g * f.o;
    const T* const a = RowOfA(f, 0, 0, place.g) + place.i;
    const T* const d = RowOfD(f, shape.m_size, 0, 0, 0, place.g) + place.o;

    const int64_t row = task / across * shape.rows_per_task() + line, stride = step * shape.p;
    const int m_size = static_cast<int>(shape.m_size), whole = step / m_size;
    const int64_t n = row / m_size;
    RowWalk<T> walk{a + n * ld_a, d + row * ld_d, static_cast<int>(row - n * m_size), m_size, step - whole * m_size,
                    whole * ld_a, step * ld_d, ld_a};
    T* out = rows + ColumnOf(f, place.g, place.i, place.o) + row * shape.p;
    int left = static_cast<int>(SmallerOf(shape.depth, CeilingOf(shape.rows - row, step)));  // rows of this thread
    for (; left >= kRowsAtOnce; left -= kRowsAtOnce) {
      T value[kRowsAtOnce];
#pragma unroll
      for (int u = 0; u < kRowsAtOnce; ++u) value[u] = walk.Next();
#pragma unroll
      for (int u = 0; u < kRowsAtOnce; ++u, out += stride) *out = value[u];
    }
    for (; left > 0; --left, out += stride) *out = walk.Next();
  }
}

// The product of a[t, i] and d[t, (m, o)] of one example and group, tile by tile.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    ExpansionKernel(const __grid_constant__ Expansion<T> e, int64_t n_size, int64_t m_size) {
  __shared__ Panels<T> panels;
  const Factor<T>& f = e.factor;
  const int64_t down = CeilingOf(e.i_count, kTileSide), across = CeilingOf(m_size * f.o, kTileSide);
  for (int64_t task = FirstTask(); task < n_size * e.g_count * down * across; task += TaskStep()) {
    const int64_t y = task % across * kTileSide, x = task / across % down * kTileSide;
    const int64_t g = task / across / down % e.g_count, n = task / across / down / e.g_count;
    const StoredRows<T> left{RowOfA(f, n, 0, e.g_begin + g) + e.i_begin, f.g * f.i, e.i_count};
    const PositionsOfOutputs<T> right{RowOfD(f, m_size, n, 0, 0, e.g_begin + g), f.t * f.g * f.o, f.g * f.o, f.o,
                                      m_size * f.o};
    TilePart<T> part;
    part.Clear();
    AddTileProduct(left, x, right, y, 0, f.t, &panels, &part);
#pragma unroll
    for (int v = 0; v < kPerThread; ++v) {
      const int64_t column = y + part.column() + v;
      if (column >= m_size * f.o) continue;
      const int64_t m = column / f.o, o = column % f.o;
      T* const out = e.out + (n * m_size + m) * e.ld + g * f.stride_g + o * f.stride_o;
#pragma unroll
      for (int u = 0; u < kPerThread; ++u) {
        const int64_t i = x + part.row() + u;
        if (i < e.i_count) out[i * f.stride_i] = part.value[u][v];
      }
    }
  }
}

template <typename T>
int JacobianRows(void* stream, const Factors<T>& factors, T* rows) {
  FactorTable<T> table;
  const auto outer = [](const Factor<T>& f) { return f.t == 1; };
  for (int64_t k = 0; k < factors.count;) {
    k = FillTable(factors, k, outer, &table);
    RowsShape shape{factors.n * factors.m, factors.m, factors.p, 1, 0};
    while (shape.lanes < kThreads && shape.lanes < table.columns()) shape.lanes *= 2;
    const int64_t across = CeilingOf(table.columns(), shape.lanes);
    shape.depth = RowsPerThread(across, CeilingOf(shape.rows * shape.lanes, kThreads));
    const int64_t tasks = across * CeilingOf(shape.rows, shape.rows_per_task());
    TFJAC_RETURN_IF_ERROR(Launch(stream, tasks, OuterProductsKernel<T>, table, shape, rows));
  }
  for (int64_t k = 0; k < factors.count; ++k) {
    const Factor<T>& f = factors.factor[k];
    if (f.t == 1 || Columns(f) == 0) continue;
    TFJAC_RETURN_IF_ERROR(
        LaunchExpansion(stream, factors.n, factors.m, Expansion<T>{f, 0, f.g, 0, f.i, rows + f.column, factors.p}));
  }
  return 0;
}

}  // namespace

template <typename T>
int LaunchExpansion(void* stream, int64_t n, int64_t m, const Expansion<T>& e) {
  const int64_t tiles = CeilingOf(e.i_count, kTileSide) * CeilingOf(m * e.factor.o, kTileSide);
  return Launch(stream, n * e.g_count * tiles, ExpansionKernel<T>, e, n, m);
}
template int LaunchExpansion(void*, int64_t, int64_t, const Expansion<float>&);
template int LaunchExpansion(void*, int64_t, int64_t, const Expansion<double>&);

}  // namespace tfjac

int tfjac_cuda_jacobian_rows_f32(void* stream, const tfjac::Factors<float>* factors, float* rows) {
  return tfjac::JacobianRows(stream, *factors, rows);
}
int tfjac_cuda_jacobian_rows_f64(void* stream, const tfjac::Factors<double>* factors, double* rows) {
  return tfjac::JacobianRows(stream, *factors, rows);
}
