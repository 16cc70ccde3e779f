// The block of JᵀJ that two factors with one position of use have, with the residuals summed before the product:
//
//     gram[(i,o),(j,q)] = sum_n X[n,(i,j)] Y[n,(o,q)]      X = a_k[n,i] a_l[n,j]      Y = sum_m d_k[n,m,o] d_l[n,m,q]
//
// a product of two matrices with n rows whatever m is. Where k = l both X and Y are symmetric in their pairs, so pairs
// with j <= i and q <= o are enough: a quarter of the block. For jacobian_gram_cpu.cc.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_PAIR_PRODUCTS_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_PAIR_PRODUCTS_H_

#include <cstring>

#include "custom_ops/common/cpu/symmetric.h"
#include "custom_ops/common/cpu/tiles.h"
#include "custom_ops/common/factors.h"
#include "custom_ops/common/forms.h"
#include "custom_ops/common/runtime.h"

namespace tfjac::TFJAC_ISA {

// The pairs (x, y), 0 <= x < rows, 0 <= y < columns; or, if triangular, those with y <= x (rows == columns), numbered row by
// row.
struct Pairs {
  int64_t rows, columns;
  bool triangular;

  struct Pair {
    int64_t x, y;
  };
};

static inline int64_t CountOf(const Pairs& pairs) {
  return pairs.triangular ? TriangleSize(pairs.rows) : pairs.rows * pairs.columns;
}

static inline Pairs::Pair PairAt(const Pairs& pairs, int64_t index) {
  const int64_t x = pairs.triangular ? TriangleRow(index) : index / pairs.columns;
  return {x, index - (pairs.triangular ? TriangleIndex(x, 0) : x * pairs.columns)};
}

// Call run(x, y, length, offset) for each stretch of pairs [begin, end) that share x; y is the first of the stretch.
template <typename Run>
static inline void ForEachStretch(const Pairs& pairs, int64_t begin, int64_t end, const Run& run) {
  if (begin >= end) return;
  Pairs::Pair pair = PairAt(pairs, begin);
  for (int64_t index = begin; index < end;) {
    const int64_t length = Smaller((pairs.triangular ? pair.x + 1 : pairs.columns) - pair.y, end - index);
    run(pair.x, pair.y, length, index - begin);
    index += length;
    ++pair.x, pair.y = 0;
  }
}

// out = x[pair.x] y[pair.y] for the pairs [begin, end), or out += that.
template <typename T>
static inline void WriteProducts(const Pairs& pairs, int64_t begin, int64_t end, const T* x, const T* y, bool add,
                                 T* __restrict out) {
  ForEachStretch(pairs, begin, end, [=](int64_t u, int64_t v, int64_t length, int64_t offset) {
    const T scale = x[u];
    const T* const from = y + v;
    T* __restrict const to = out + offset;
    if (add) {
      for (int64_t k = 0; k < length; ++k) to[k] += scale * from[k];
    } else {
      for (int64_t k = 0; k < length; ++k) to[k] = scale * from[k];
    }
  });
}

// Some pairs of inputs, those of [i, i + pairs.rows) of the first factor by [j, j + pairs.columns) of the second.
struct InputBlock {
  int64_t i, j;
  Pairs pairs;
};

// The block of one pair of factors.
template <typename T>
class PairBlock {
 public:
  // The columns of `k` are rows of the block, those of `l` its columns; &k == &l for the block on the diagonal.
  PairBlock(const Factors<T>& factors, const Factor<T>& k, const Factor<T>& l)
      : factors_(factors), k_(k), l_(l), same_(&k == &l), outputs_{k.o, l.o, &k == &l},
        columns_(Ceiling(l.i, Ceiling(l.i, kInputs))), rows_(same_ ? columns_ : Smaller(kTile / columns_, k.i)),
        across_(Ceiling(CountOf(outputs_), kTile)) {}

  int64_t tasks() const {
    const int64_t down = Ceiling(k_.i, rows_);
    return (same_ ? TriangleSize(down) : down * Ceiling(l_.i, columns_)) * across_;
  }

  // Numbers in Y, all examples.
  int64_t folded_size() const { return factors_.n * CountOf(outputs_); }

  // Y for one example.
  void Fold(int64_t n, T* folded) const { FoldSome(n, 0, CountOf(outputs_), folded + n * CountOf(outputs_)); }

  // Compute one tile of the product and write it to all its places in `gram`. `folded` is Y, or null to compute the part
  // that is needed; `scratch` holds two panels [kDepth, kTile] and a tile.
  void Compute(int64_t task, const T* folded, T* scratch, T* gram) const {
    const InputBlock block = InputBlockAt(task / across_);
    const int64_t y = task % across_ * kTile;
    const int64_t rows = CountOf(block.pairs), columns = Smaller(kTile, CountOf(outputs_) - y);
    T* const left = scratch;
    T* const right = left + kDepth * kTile;
    T* const tile = right + kDepth * kTile;
    std::memset(tile, 0, rows * columns * sizeof(T));
    for (int64_t n = 0; n < factors_.n; n += kDepth) {
      const int64_t depth = Smaller(kDepth, factors_.n - n);
      for (int64_t r = 0; r < depth; ++r) {
        const T* const a = RowOfA(k_, n + r, 0, 0) + block.i;
        WriteProducts(block.pairs, 0, rows, a, RowOfA(l_, n + r, 0, 0) + block.j, false, left + r * rows);
        if (folded == nullptr) FoldSome(n + r, y, y + columns, right + r * columns);
      }
      const int64_t ld = folded == nullptr ? columns : CountOf(outputs_);
      const T* const from = folded == nullptr ? right : folded + n * ld + y;
      AddTransposedProduct(rows, columns, depth, left, rows, from, ld, tile, columns);
    }
    Scatter(block, y, columns, tile, left, gram);
  }

 private:
  // Neighbouring inputs of the second factor in a tile, so that neighbouring columns of the result are written together.
  static constexpr int64_t kInputs = 16;

  InputBlock InputBlockAt(int64_t index) const {
    const int64_t across = Ceiling(l_.i, columns_);
    const int64_t x = same_ ? TriangleRow(index) : index / across;
    const int64_t y = index - (same_ ? TriangleIndex(x, 0) : x * across);
    const Pairs pairs{Smaller(rows_, k_.i - x * rows_), Smaller(columns_, l_.i - y * columns_), same_ && x == y};
    return {x * rows_, y * columns_, pairs};
  }

  void FoldSome(int64_t n, int64_t begin, int64_t end, T* out) const {
    for (int64_t m = 0; m < factors_.m; ++m) {
      WriteProducts(outputs_, begin, end, RowOfD(k_, factors_.m, n, m, 0, 0), RowOfD(l_, factors_.m, n, m, 0, 0), m > 0,
                    out);
    }
  }

  // Write a tile, the pairs of inputs in `block` by the pairs [y, y + columns) of outputs, to all places with its values.
  void Scatter(const InputBlock& block, int64_t y, int64_t columns, const T* tile, T* square, T* gram) const {
    const bool whole = same_ && across_ == 1 && l_.stride_o == 1;
    ForEachStretch(block.pairs, 0, CountOf(block.pairs), [&](int64_t u, int64_t v, int64_t length, int64_t offset) {
      for (int64_t k = 0; k < length; ++k) {
        const int64_t i = block.i + u, j = block.j + v + k;
        if (whole) {
          ScatterSquare(i, j, tile + (offset + k) * columns, square, gram);
        } else {
          ScatterPairs(i, j, y, y + columns, tile + (offset + k) * columns, gram);
        }
      }
    });
  }

  // All pairs of outputs of one factor: a symmetric square, twice, by whole rows. `square` holds it.
  void ScatterSquare(int64_t i, int64_t j, const T* values, T* square, T* gram) const {
    const int64_t o = k_.o;
    for (int64_t x = 0; x < o; ++x) {
      for (int64_t y = 0; y <= x; ++y) square[x * o + y] = square[y * o + x] = *values++;
    }
    for (int swapped = 0; swapped < (i == j ? 1 : 2); ++swapped) {
      T* to = gram + ColumnOf(k_, 0, swapped ? j : i, 0) * factors_.p + ColumnOf(l_, 0, swapped ? i : j, 0);
      for (int64_t x = 0; x < o; ++x, to += factors_.p) {
        for (int64_t y = 0; y < o; ++y) to[y] = square[x * o + y];
      }
    }
  }

  void ScatterPairs(int64_t i, int64_t j, int64_t begin, int64_t end, const T* values, T* gram) const {
    ForEachStretch(outputs_, begin, end, [&](int64_t o, int64_t q, int64_t length, int64_t offset) {
      Spread(ColumnOf(k_, 0, i, o), ColumnOf(l_, 0, j, q), length, values + offset, gram);
      if (same_ && i != j) Spread(ColumnOf(k_, 0, j, o), ColumnOf(l_, 0, i, q), length, values + offset, gram);
    });
  }

  // gram[row, column + k stride] = its mirror image = values[k]
  void Spread(int64_t row, int64_t column, int64_t length, const T* values, T* gram) const {
    const int64_t p = factors_.p, step = l_.stride_o;
    T* const along = gram + row * p + column;
    T* const down = gram + column * p + row;
    for (int64_t k = 0; k < length; ++k) along[k * step] = values[k];
    for (int64_t k = 0; k < length; ++k) down[k * step * p] = values[k];
  }

  const Factors<T>& factors_;
  const Factor<T>&k_, &l_;
  const bool same_;
  const Pairs outputs_;
  const int64_t columns_, rows_;  // inputs of the second and of the first factor in a tile
  const int64_t across_;          // tiles that the pairs of outputs take
};

// Whether a factor's own block is made this way.
template <typename T>
static inline bool PairsPay(const Runtime& runtime, const Factors<T>& factors, const Factor<T>& f) {
  return f.t == 1 && f.g == 1 && f.i > 1 && factors.n > 0 && factors.m > 0 &&
         GramCostsOnCpu(SizesOf(f, factors.n, factors.m), kTile).Pairs(runtime.form);
}

}  // namespace tfjac::TFJAC_ISA

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_GRAM_PAIR_PRODUCTS_H_
