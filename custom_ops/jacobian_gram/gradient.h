// Jᵀ residual from the factors: per factor and group the product of a and of d with the residuals summed out of it. For
// jacobian_gram_cpu.cc.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_GRADIENT_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_GRADIENT_H_

#include <cstring>

#include "custom_ops/common/cpu/symmetric.h"
#include "custom_ops/common/cpu/tiles.h"
#include "custom_ops/common/cpu/vectors.h"
#include "custom_ops/common/factors.h"

namespace tfjac::TFJAC_ISA {

// Number of tiles of at most kTile inputs by kTile outputs that a factor's part of the gradient is cut into.
template <typename T>
static inline int64_t GradientTasks(const Factor<T>& f) {
  return f.g * Ceiling(f.i, kTile) * Ceiling(f.o, kTile);
}

// Compute one of them; `scratch` holds a panel [kDepth, kTile] and a tile.
template <typename T>
static inline void ComputeGradient(const Factors<T>& factors, const Factor<T>& f, int64_t task, const T* residual,
                                   T* scratch, T* gradient) {
  const int64_t across = Ceiling(f.o, kTile), down = Ceiling(f.i, kTile);
  const int64_t o = task % across * kTile, i = task / across % down * kTile, g = task / across / down;
  const int64_t inputs = Smaller(kTile, f.i - i), outputs = Smaller(kTile, f.o - o);
  T* const summed = scratch;  // [kDepth, outputs]: sum_m residual d, for some of the pairs (n, t)
  T* const tile = scratch + kDepth * kTile;
  std::memset(tile, 0, inputs * outputs * sizeof(T));
  for (int64_t begin = 0; begin < factors.n * f.t; begin += kDepth) {
    const int64_t depth = Smaller(kDepth, factors.n * f.t - begin);
    std::memset(summed, 0, depth * outputs * sizeof(T));
    for (int64_t r = 0; r < depth; ++r) {
      const int64_t n = (begin + r) / f.t, t = (begin + r) % f.t;
      for (int64_t m = 0; m < factors.m; ++m) {
        Axpy(residual[n * factors.m + m], RowOfD(f, factors.m, n, m, t, g) + o, summed + r * outputs, outputs);
      }
    }
    AddTransposedProduct(inputs, outputs, depth, f.a + (begin * f.g + g) * f.i + i, f.g * f.i, summed, outputs, tile,
                         outputs);
  }
  for (int64_t x = 0; x < inputs; ++x) {
    for (int64_t y = 0; y < outputs; ++y) gradient[ColumnOf(f, g, i + x, o + y)] = tile[x * outputs + y];
  }
}

}  // namespace tfjac::TFJAC_ISA

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_GRADIENT_H_
