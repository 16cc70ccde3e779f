// In which of two forms a factor's part of a result is computed, by what each costs: the one place that decides it, for all
// ops, on the CPU, on the GPU and by XLA. tfjac/ops/_forms.py says the same to the twins.
//
//   rows    the rows of J are formed, some at a time, and multiplied with one another
//   pairs   products of a with a and of d with d, and no row: for one position of use, t = 1, they factor; for more, each
//           position meets each
//
// A cost is a number of multiply-adds, per group and per whatever both forms have in common. On the CPU a call for a small
// product, and a number that is written, take as long as so many of them as stands here: fitted to times by
// `python -m benchmarks.forms`, which measures both forms over a grid of sizes, and how far what is chosen falls behind.
// Contractions, by XLA or by the twins' einsum, are counted as they are.
#ifndef TFJAC_CUSTOM_OPS_COMMON_FORMS_H_
#define TFJAC_CUSTOM_OPS_COMMON_FORMS_H_

#include <cstdint>

#include "custom_ops/common/factors.h"

namespace tfjac {

enum class Form { kCheaper, kRows, kPairs };

struct FormCosts {
  double rows, pairs;

  // Whether pairs are taken, if not `wanted` says so.
  TFJAC_HOST_DEVICE bool Pairs(Form wanted = Form::kCheaper) const {
    return wanted == Form::kCheaper ? pairs < rows : wanted == Form::kPairs;
  }
};

// Sizes of a factor; see factors.h.
struct FactorSizes {
  double n, m, t, i, o;
};

template <typename F>
TFJAC_HOST_DEVICE static inline FactorSizes SizesOf(const F& f, int64_t n, int64_t m) {
  return {static_cast<double>(n), static_cast<double>(m), static_cast<double>(f.t), static_cast<double>(f.i),
          static_cast<double>(f.o)};
}

TFJAC_HOST_DEVICE static inline double PairsWithinSize(double size) { return size * (size + 1) / 2; }

// ---- J Jᵀ, of two examples. In pairs: (a aᵀ) ∘ (d dᵀ) for t = 1; for t > 1 the products of a are taken with d of one example,
// and that with d of the other.

// `other` is the same factor where the other example is of another block.
static inline FormCosts KernelCostsByContraction(const FactorSizes& f, const FactorSizes& other) {
  const double squares = f.m * other.m;
  return {squares * f.i * f.o, f.t == 1 && other.t == 1 ? f.i + squares * (f.o + 1)
                                                        : f.t * (other.t * (f.i + other.m * f.o) + squares * f.o)};
}

// For t > 1.
static inline FormCosts KernelCostsOnCpu(const FactorSizes& f) {
  const double squares = f.m * f.m, used = f.i + f.m * f.o;
  const double forming = f.m * f.i * f.o * (100 + f.t) / f.n;
  return {squares * (f.i * f.o + 12) + forming,
          4000 + 1300 * squares + f.t * (80 + 1.5 * f.t) * used + 2 * squares * f.t * f.o};
}

// ---- Norms of the rows, of one example, for t > 1. In pairs: each position with each.

static inline FormCosts NormCostsByContraction(const FactorSizes& f) {
  return {f.m * f.i * f.o * (f.t + 1), f.t * f.t * (f.i + f.m * f.o + f.m)};
}

// A product [side, depth] times [depth, side]; Eigen does not rearrange the smallest before it computes.
static inline double ProductCost(double side, double depth) {
  const double pairs = side * side;
  return 2 * side + depth < 20 ? 400 + pairs * (40 + 2 * depth) : 1800 + (120 + 20 * side + 0.5 * pairs) * depth;
}

static inline FormCosts NormCostsOnCpu(const FactorSizes& f) {
  return {f.m * (1400 + f.i * f.o * (5 + 0.8 * f.t) + 8 * f.t * (f.i + f.o)),
          ProductCost(f.t, f.i) + f.m * (ProductCost(f.t, f.o) + 15 * f.t * f.t)};
}

// Each row is by itself on a GPU, and pairs of positions are taken once.
TFJAC_HOST_DEVICE static inline FormCosts NormCostsOnGpu(const FactorSizes& f) {
  return {f.t * f.i * f.o, f.t * f.t * (f.i + f.o) / 2};
}

// ---- JᵀJ, of one example, for t = 1. In pairs: those of the inputs times those of the outputs, the residuals summed.

// The block of two factors, divided by the product of their outputs: one a is multiplied in, then the other.
static inline FormCosts GramCostsByContraction(const FactorSizes& f, const FactorSizes& other) {
  return {f.m * f.i * other.i, f.m + f.i + f.i * other.i};
}

// A factor's own block, where both forms know that it is symmetric, and tiles of `tile` columns are multiplied. Results in pairs
// are scattered to their places, once, and faster where a tile holds all pairs of outputs.
static inline FormCosts GramCostsOnCpu(const FactorSizes& f, double tile) {
  const double x = PairsWithinSize(f.i), y = PairsWithinSize(f.o), p = f.i * f.o;
  const double writing = 70 * x * (1 + y / tile) + 8 * f.m * y * (f.m > 1 ? 1 : 1 + x / tile);
  return {f.m * p * p / 2 + 60 * f.m * p, x * y + writing + 2500 + (y <= tile ? 12 : 40) * p * p / f.n};
}

// In multiply-adds of cuBLAS' product of pairs, by what was measured in float32 on an NVIDIA H200 on 2026-11-27: 30 TFLOP/s,
// where its square of rows runs at 42; a number that is written, at 4.1 TB/s, takes as long as 15 of them. float64 has 38, 39
// and 37, so that pairs pay a little sooner.
constexpr double kWrittenOnGpu = 15, kSquareOnGpu = 30.0 / 42;

// The rows of p columns, formed and multiplied with themselves.
static inline double SquareCostOnGpu(double m, double p) { return m * (kSquareOnGpu * p * p / 2 + kWrittenOnGpu * p); }

// In pairs each result is scattered to its places once, half as fast.
static inline FormCosts GramCostsOnGpu(const FactorSizes& f) {
  const double p = f.i * f.o, x = PairsWithinSize(f.i), y = PairsWithinSize(f.o);
  return {SquareCostOnGpu(f.m, p), x * y + kWrittenOnGpu * (x + y) + f.m * y + kWrittenOnGpu * p * p / f.n};
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_FORMS_H_
