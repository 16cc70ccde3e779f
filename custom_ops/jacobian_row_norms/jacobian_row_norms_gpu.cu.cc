#include "custom_ops/jacobian_row_norms/jacobian_row_norms_gpu.h"

#include "custom_ops/common/forms.h"
#include "custom_ops/common/gpu/factor_table.h"
#include "custom_ops/common/gpu/launch.h"
#include "custom_ops/common/gpu/sources.h"
#include "custom_ops/common/gpu/tile_product.h"

namespace tfjac {
namespace {

// The sum of x over a warp, in every lane.
template <typename T>
__device__ T SumOverWarp(T x) {
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

// The sum of x over a block, in thread 0.
template <typename T>
__device__ T SumOverBlock(T x, T* shared) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  x = SumOverWarp(x);
  __syncthreads();
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  T sum = 0;
  for (int k = 0; k < kThreads / kWarp; ++k) sum += shared[k];
  return sum;
}

template <typename T>
__device__ T SquaredNorm(const T* x, int64_t size) {
  T sum = 0;
  for (int64_t k = threadIdx.x % kWarp; k < size; k += kWarp) sum += x[k] * x[k];
  return SumOverWarp(sum);
}

// Factors with one position of use: a warp per row of J.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    NormsOfOuterProductsKernel(const __grid_constant__ FactorTable<T> table, int64_t rows, int64_t m_size, bool add,
                               T* norms) {
  constexpr int64_t kRows = kThreads / kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int64_t task = FirstTask(); task < CeilingOf(rows, kRows); task += TaskStep()) {
    const int64_t row = task * kRows + warp;
    if (row >= rows) continue;  // for the whole warp
    const int64_t n = row / m_size, m = row % m_size;
    T sum = 0;
    for (int k = 0; k < table.count; ++k) {
      const Factor<T>& f = table.factor[k];
      for (int64_t g = 0; g < f.g; ++g) {
        sum += SquaredNorm(RowOfA(f, n, 0, g), f.i) * SquaredNorm(RowOfD(f, m_size, n, m, 0, g), f.o);
      }
    }
    if (lane == 0) norms[row] = sum + (add ? norms[row] : T(0));
  }
}

// A thread's part of sum_t sum_s (a_t · a_s) (d_t · d_s).
template <typename T>
__device__ T NormOverPairs(const Factor<T>& f, const T* a, const T* d, Panels<T>* panels) {
  const StoredColumns<T> of_a{a, f.g * f.i, f.t}, of_d{d, f.g * f.o, f.t};
  T sum = 0;
  for (int64_t x = 0; x < f.t; x += kTileSide) {
    for (int64_t y = 0; y <= x; y += kTileSide) {
      TilePart<T> products_a, products_d;
      products_a.Clear();
      products_d.Clear();
      AddTileProduct(of_a, x, of_a, y, 0, f.i, panels, &products_a);
      AddTileProduct(of_d, x, of_d, y, 0, f.o, panels, &products_d);
      T part = 0;
#pragma unroll
      for (int u = 0; u < kPerThread; ++u) {
#pragma unroll
        for (int v = 0; v < kPerThread; ++v) part += products_a.value[u][v] * products_d.value[u][v];
      }
      sum += y < x ? 2 * part : part;  // tiles off the diagonal stand for two
    }
  }
  return sum;
}

// A thread's part of the squared norm of the row itself.
template <typename T>
__device__ T NormOfRow(const Factor<T>& f, const T* a, const T* d, Panels<T>* panels) {
  const StoredRows<T> of_a{a, f.g * f.i, f.i}, of_d{d, f.g * f.o, f.o};
  T sum = 0;
  for (int64_t x = 0; x < f.i; x += kTileSide) {
    for (int64_t y = 0; y < f.o; y += kTileSide) {
      TilePart<T> part;
      part.Clear();
      AddTileProduct(of_a, x, of_d, y, 0, f.t, panels, &part);
#pragma unroll
      for (int u = 0; u < kPerThread; ++u) {
#pragma unroll
        for (int v = 0; v < kPerThread; ++v) sum += part.value[u][v] * part.value[u][v];
      }
    }
  }
  return sum;
}

// Factors with several positions of use: a block per row of J. Adds to the norms.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    NormsOfSumsKernel(const __grid_constant__ FactorTable<T> table, int64_t rows, int64_t m_size, T* norms) {
  __shared__ Panels<T> panels;
  __shared__ T shared[kThreads / kWarp];
  for (int64_t row = FirstTask(); row < rows; row += TaskStep()) {
    const int64_t n = row / m_size, m = row % m_size;
    T sum = 0;
    for (int k = 0; k < table.count; ++k) {
      const Factor<T>& f = table.factor[k];
      for (int64_t g = 0; g < f.g; ++g) {
        const T *a = RowOfA(f, n, 0, g), *d = RowOfD(f, m_size, n, m, 0, g);
        sum += NormCostsOnGpu(SizesOf(f, 1, m_size)).Pairs() ? NormOverPairs(f, a, d, &panels)
                                                             : NormOfRow(f, a, d, &panels);
      }
    }
    sum = SumOverBlock(sum, shared);
    if (threadIdx.x == 0) norms[row] += sum;
  }
}

template <typename T>
int JacobianRowNorms(void* stream, const Factors<T>& factors, T* norms) {
  const int64_t rows = factors.n * factors.m;
  FactorTable<T> table;
  bool add = false;
  for (int64_t k = 0; k < factors.count || !add; add = true) {  // at least once: the norms start at zero
    k = FillTable(factors, k, [](const Factor<T>& f) { return f.t == 1; }, &table);
    TFJAC_RETURN_IF_ERROR(Launch(stream, CeilingOf(rows, kThreads / kWarp), NormsOfOuterProductsKernel<T>, table, rows,
                                 factors.m, add, norms));
  }
  for (int64_t k = 0; k < factors.count;) {
    k = FillTable(factors, k, [](const Factor<T>& f) { return f.t > 1; }, &table);
    if (table.count == 0) continue;
    TFJAC_RETURN_IF_ERROR(Launch(stream, rows, NormsOfSumsKernel<T>, table, rows, factors.m, norms));
  }
  return 0;
}

}  // namespace
}  // namespace tfjac

int tfjac_cuda_jacobian_row_norms_f32(void* stream, const tfjac::Factors<float>* factors, float* norms) {
  return tfjac::JacobianRowNorms(stream, *factors, norms);
}
int tfjac_cuda_jacobian_row_norms_f64(void* stream, const tfjac::Factors<double>* factors, double* norms) {
  return tfjac::JacobianRowNorms(stream, *factors, norms);
}
