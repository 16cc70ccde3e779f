// Jᵀ residual from the factors: a thread per column, over some examples; their sums are added in order. For
// jacobian_gram_gpu.cu.cc.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_GRADIENT_GPU_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_GRADIENT_GPU_H_

#include "custom_ops/common/gpu/factor_table.h"
#include "custom_ops/common/gpu/launch.h"

namespace tfjac {

// Into how many segments of examples the sum is cut.
static inline int64_t GradientSegments(int64_t n, int64_t p) {
  return LargerOf(1, SmallerOf(CeilingOf(kEnoughBlocks, CeilingOf(p, kThreads)), n / kRowsPerThread));
}

// sums[segment, column] = sum_nm J[n,m,column] residual[n,m] over the examples of the segment.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    GradientKernel(const __grid_constant__ FactorTable<T> table, int64_t n_size, int64_t m_size, int64_t p,
                   int64_t segments, const T* __restrict__ residual, T* gradient, T* others) {
  const int64_t across = CeilingOf(table.columns(), kThreads), length = CeilingOf(n_size, segments);
  for (int64_t task = FirstTask(); task < across * segments; task += TaskStep()) {
    const int64_t segment = task / across, number = task % across * kThreads + threadIdx.x;
    if (number >= table.columns()) continue;
    const int k = FactorAt(table, number);
    const Factor<T>& f = table.factor[k];
    const Place place = PlaceOf(f, number - table.first[k]);
    T sum = 0;
    for (int64_t n = segment * length; n < SmallerOf((segment + 1) * length, n_size); ++n) {
      for (int64_t t = 0; t < f.t; ++t) {
        T weighted = 0;
        for (int64_t m = 0; m < m_size; ++m) {
          weighted += residual[n * m_size + m] * RowOfD(f, m_size, n, m, t, place.g)[place.o];
        }
        sum += RowOfA(f, n, t, place.g)[place.i] * weighted;
      }
    }
    T* const out = segment == 0 ? gradient : others + (segment - 1) * p;
    out[ColumnOf(f, place.g, place.i, place.o)] = sum;
  }
}

// gradient[column] += the sums of the segments after the first, in their order.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    SumGradientsKernel(int64_t p, int64_t others, const T* __restrict__ sums, T* gradient) {
  for (int64_t task = FirstTask(); task < CeilingOf(p, kThreads); task += TaskStep()) {
    const int64_t column = task * kThreads + threadIdx.x;
    if (column >= p) continue;
    T sum = gradient[column];
    for (int64_t s = 0; s < others; ++s) sum += sums[s * p + column];
    gradient[column] = sum;
  }
}

// `scratch` holds p numbers for each segment but the first.
template <typename T>
int LaunchGradient(void* stream, const Factors<T>& factors, const T* residual, T* gradient, T* scratch) {
  const int64_t segments = GradientSegments(factors.n, factors.p);
  FactorTable<T> table;
  for (int64_t k = 0; k < factors.count;) {
    k = FillTable(factors, k, [](const Factor<T>&) { return true; }, &table);
    TFJAC_RETURN_IF_ERROR(Launch(stream, CeilingOf(table.columns(), kThreads) * segments, GradientKernel<T>, table,
                                 factors.n, factors.m, factors.p, segments, residual, gradient, scratch));
  }
  if (segments == 1) return 0;
  return Launch(stream, CeilingOf(factors.p, kThreads), SumGradientsKernel<T>, factors.p, segments - 1,
                static_cast<const T*>(scratch), gradient);
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_GRADIENT_GPU_H_
