// Jᵀ residual from the factors: threads for each column, over some examples; their sums are added in order. For
// jacobian_gram_gpu.cu.cc.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_GRADIENT_GPU_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_GRADIENT_GPU_H_

#include "custom_ops/common/gpu/factor_table.h"
#include "custom_ops/common/gpu/launch.h"
#include "custom_ops/common/gpu/sum_parts.h"

namespace tfjac {

// Into how many segments of examples the sum is cut.
static inline int64_t GradientSegments(int64_t n, int64_t p) {
  const int64_t across = LargerOf(1, CeilingOf(p, kThreads));
  return LargerOf(1, SmallerOf(CeilingOf(kEnoughBlocks, across), n / kRowsPerThread));
}

// sum_nm J[n,m,place] residual[n,m] over every `step`th example of [begin, end). Where an example is one product, several are
// read at a time.
template <typename T>
__device__ inline T SumOver(const Factor<T>& f, const Place& place, int64_t begin, int64_t end, int step,
                            int64_t m_size, const T* __restrict__ residual) {
  T sum = 0;
  if (f.t == 1 && m_size == 1) {
    const int64_t ld_a = f.g * f.i, ld_d = f.g * f.o;
    const T *const a = RowOfA(f, 0, 0, place.g) + place.i, *const d = RowOfD(f, 1, 0, 0, 0, place.g) + place.o;
#pragma unroll 8
    for (int64_t n = begin; n < end; n += step) sum += a[n * ld_a] * (residual[n] * d[n * ld_d]);
    return sum;
  }
  for (int64_t n = begin; n < end; n += step) {
    for (int64_t t = 0; t < f.t; ++t) {
      T weighted = 0;
#pragma unroll 4
      for (int64_t m = 0; m < m_size; ++m) {
        weighted += residual[n * m_size + m] * RowOfD(f, m_size, n, m, t, place.g)[place.o];
      }
      sum += RowOfA(f, n, t, place.g)[place.i] * weighted;
    }
  }
  return sum;
}

// sums[segment, column] = sum_nm J[n,m,column] residual[n,m] over the examples of the segment. A block covers `lanes` columns,
// a power of two; lines of so many threads share the examples, and their sums are added in order.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    GradientKernel(const __grid_constant__ FactorTable<T> table, int lanes, int64_t n_size, int64_t m_size, int64_t p,
                   int64_t segments, const T* __restrict__ residual, T* gradient, T* others) {
  __shared__ T sums[kThreads];
  const int64_t across = CeilingOf(table.columns(), lanes), length = CeilingOf(n_size, segments);
  const int lane = static_cast<int>(threadIdx.x) % lanes, line = static_cast<int>(threadIdx.x) / lanes;
  const int lines = kThreads / lanes;
  for (int64_t task = FirstTask(); task < across * segments; task += TaskStep()) {
    const int64_t segment = task / across, number = task % across * lanes + lane;
    const bool inside = number < table.columns();
    const int k = FactorAt(table, inside ? number : 0);
    const Factor<T>& f = table.factor[k];
    const Place place = PlaceOf(f, inside ? number - table.first[k] : 0);
    const int64_t end = inside ? SmallerOf((segment + 1) * length, n_size) : 0;
    const T sum = SumOver(f, place, segment * length + line, end, lines, m_size, residual);
    __syncthreads();  // the sums of the task before have been used
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (line > 0 || !inside) continue;
    T all = sum;
    for (int other = 1; other < lines; ++other) all += sums[other * lanes + lane];
    T* const out = segment == 0 ? gradient : others + (segment - 1) * p;
    out[ColumnOf(f, place.g, place.i, place.o)] = all;
  }
}

// `scratch` holds p numbers for each segment but the first.
template <typename T>
int LaunchGradient(void* stream, const Factors<T>& factors, const T* residual, T* gradient, T* scratch) {
  const int64_t segments = GradientSegments(factors.n, factors.p);
  FactorTable<T> table;
  for (int64_t k = 0; k < factors.count;) {
    k = FillTable(factors, k, [](const Factor<T>&) { return true; }, &table);
    int lanes = kWarp;
    while (lanes < kThreads && lanes < table.columns()) lanes *= 2;
    TFJAC_RETURN_IF_ERROR(Launch(stream, CeilingOf(table.columns(), lanes) * segments, GradientKernel<T>, table, lanes,
                                 factors.n, factors.m, factors.p, segments, residual, gradient, scratch));
  }
  return SumParts(stream, segments - 1, int64_t{1}, factors.p, false, static_cast<const T*>(scratch), gradient,
                  factors.p);
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_GRADIENT_GPU_H_
