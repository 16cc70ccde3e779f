#include "custom_ops/jacobian_kernel/jacobian_kernel.h"

#include <cstring>

#include "custom_ops/common/cpu/balance.h"
#include "custom_ops/common/cpu/symmetric.h"
#include "custom_ops/common/cpu/tiles.h"
#include "custom_ops/common/cpu/vectors.h"

namespace tfjac::TFJAC_ISA {
namespace {

constexpr int64_t kSide =
    192;  // rows and columns of a tile: two of them stay in the cache; a multiple of what Eigen computes at a time

// How a factor's part of the kernel is computed.
enum class Way {
  kHadamard,  // t = 1: (a aᵀ) ∘ (d dᵀ)
  kGhost,     // positions against positions, pair by pair of examples
  kRows,      // the factor's rows, formed some columns at a time
};

// What is computed, and how. Tiles are pairs of strips, of which none has rows of two blocks.
template <typename T>
struct Plan {
  Blocks<T> blocks;
  int64_t factors;  // in each block
  int64_t size;     // rows of the kernel
  int64_t strips;
  Way* way;  // [factors]

  const Factors<T>& block(int64_t b) const { return blocks.block[b]; }
  const Factor<T>& factor(int64_t k) const { return blocks.block[0].factor[k]; }  // for its g, i and o
};

// Sizes of factor k, those that differ from block to block averaged over the examples.
template <typename T>
FactorSizes MeanSizes(const Blocks<T>& blocks, int64_t k) {
  const Factor<T>& f = blocks.block[0].factor[k];
  FactorSizes mean{0, 0, 0, static_cast<double>(f.i), static_cast<double>(f.o)};
  for (int64_t b = 0; b < blocks.count; ++b) {
    const FactorSizes sizes = SizesOf(blocks.block[b].factor[k], blocks.block[b].n, blocks.block[b].m);
    mean.n += sizes.n;
    mean.m += sizes.n * sizes.m;
    mean.t += sizes.n * sizes.t;
  }
  mean.m /= mean.n;
  mean.t /= mean.n;
  return mean;
}

// The form of factor k; products of one position are taken for all factors with the same d at once, and always pay.
template <typename T>
Way WayOf(const Runtime& runtime, const Blocks<T>& blocks, int64_t k) {
  bool once = true;
  for (int64_t b = 0; b < blocks.count; ++b) once = once && blocks.block[b].factor[k].t <= 1;
  if (once) return runtime.form == Form::kRows ? Way::kRows : Way::kHadamard;
  return KernelCostsOnCpu(MeanSizes(blocks, k)).Pairs(runtime.form) ? Way::kGhost : Way::kRows;
}

// The plan, for factors that are balanced where they are multiplied with one another. False where there is no memory.
template <typename T>
bool MakePlan(const Runtime& runtime, const Blocks<T>& given, Plan<T>* plan) {
  *plan = Plan<T>{given, given.block[0].count, RowsOf(given), 0, nullptr};
  plan->way = static_cast<Way*>(runtime.allocate(runtime.self, plan->factors * sizeof(Way)));
  Factors<T>* const blocks = static_cast<Factors<T>*>(runtime.allocate(runtime.self, given.count * sizeof(Factors<T>)));
  if (plan->way == nullptr || blocks == nullptr) return false;
  for (int64_t k = 0; k < plan->factors; ++k) plan->way[k] = WayOf(runtime, given, k);
  for (int64_t b = 0; b < given.count; ++b) {
    blocks[b] = given.block[b];
    plan->strips += Ceiling(blocks[b].n * blocks[b].m, kSide);
    if (!Balance(runtime, [&](int64_t k) { return plan->way[k] != Way::kRows; }, &blocks[b])) return false;
  }
  plan->blocks.block = blocks;
  return true;
}

// Up to kSide rows of one block: a side of a tile.
template <typename T>
struct Strip {
  const Factors<T>* block;
  int64_t row, rows;  // in the block
  int64_t place;      // of the first one in the kernel
};
template <typename T>
Strip<T> StripOf(const Plan<T>& plan, int64_t index) {
  int64_t place = 0;
  for (const Factors<T>* block = plan.blocks.block;; ++block) {
    const int64_t rows = block->n * block->m, strips = Ceiling(rows, kSide), row = index * kSide;
    if (index < strips) return Strip<T>{block, row, Smaller(kSide, rows - row), place + row};
    index -= strips;
    place += rows;
  }
}

// The tiles on and below the diagonal, in the order of TriangleIndex.
template <typename T>
struct Tile {
  Strip<T> down, across;

  Area area() const { return Area{down.place, down.rows, across.place, across.rows}; }
  bool on_diagonal() const { return down.place == across.place; }
};
template <typename T>
Tile<T> TileOf(const Plan<T>& plan, int64_t index) {
  const int64_t x = TriangleRow(index);
  return Tile<T>{StripOf(plan, x), StripOf(plan, index - TriangleIndex(x, 0))};
}

// Scratch memory of one worker.
template <typename T>
struct Scratch {
  T* tile;      // [kSide, kSide] the result
  T* products;  // [kSide, kSide] d dᵀ
  T* weights;   // [kSide + 2, kSide + 2] a aᵀ, by examples
  T* row;       // [kSide] one row of a aᵀ, by columns of the tile
  T* ghost;     // [largest t², then largest t o]
  int64_t ghost_pairs;
};

// The examples that a strip touches.
struct Examples {
  int64_t begin, count;
};
template <typename T>
Examples ExamplesOf(const Strip<T>& strip) {
  const int64_t m_size = strip.block->m, begin = strip.row / m_size;
  return Examples{begin, (strip.row + strip.rows - 1) / m_size + 1 - begin};
}

// What factors with one position each have in common, in both blocks of a tile.
enum class Shared { kNothing, kA, kD };

// The factors [first, last), which share a or d.
struct Run {
  int64_t first, last;
  Shared shared;
};

// scratch.weights = a aᵀ of the examples of a tile, or the sum of these; g is the group.
template <typename T>
void ComputeWeights(const Run& run, int64_t g, const Tile<T>& tile, const Scratch<T>& scratch) {
  const Examples left = ExamplesOf(tile.down), right = ExamplesOf(tile.across);
  std::memset(scratch.weights, 0, left.count * right.count * sizeof(T));
  for (int64_t k = run.first; k < (run.shared == Shared::kA ? run.first + 1 : run.last); ++k) {
    const Factor<T>&x = tile.down.block->factor[k], &y = tile.across.block->factor[k];
    const int64_t lda = x.g * x.i;
    AddProduct(left.count, right.count, x.i, T(1), RowOfA(x, left.begin, 0, g), lda, RowOfA(y, right.begin, 0, g), lda,
               scratch.weights, right.count);
  }
}

// scratch.products = d dᵀ of the rows of a tile, or the sum of these; on the diagonal, what lies above it is not used.
template <typename T>
void ComputeProducts(const Run& run, int64_t g, const Tile<T>& tile, const Scratch<T>& scratch) {
  const Strip<T>&down = tile.down, &across = tile.across;
  std::memset(scratch.products, 0, down.rows * across.rows * sizeof(T));
  for (int64_t k = run.first; k < (run.shared == Shared::kA ? run.last : run.first + 1); ++k) {
    const Factor<T>&x = down.block->factor[k], &y = across.block->factor[k];
    const int64_t o = x.o, ldd = x.g * x.o;
    const T* const of_down = x.d + down.row * ldd + g * o;
    if (tile.on_diagonal()) {
      AddSquare(down.rows, o, T(1), of_down, ldd, scratch.products, across.rows);
    } else {
      const T* const of_across = y.d + across.row * ldd + g * o;
      AddProduct(down.rows, across.rows, o, T(1), of_down, ldd, of_across, ldd, scratch.products, across.rows);
    }
  }
}

// tile += (a aᵀ) ∘ (d dᵀ), where the a aᵀ of factors that share d are summed first, or the d dᵀ of those that share a.
template <typename T>
void AddHadamard(const Run& run, const Tile<T>& tile, const Scratch<T>& scratch) {
  const Strip<T>&down = tile.down, &across = tile.across;
  const Examples left = ExamplesOf(down), right = ExamplesOf(across);
  for (int64_t g = 0; g < down.block->factor[run.first].g; ++g) {
    ComputeWeights(run, g, tile, scratch);
    ComputeProducts(run, g, tile, scratch);
    int64_t expanded = -1;  // the example whose row of weights stands in scratch.row
    for (int64_t r = 0; r < down.rows; ++r) {
      const int64_t n = (down.row + r) / down.block->m - left.begin;
      if (n != expanded) {
        const T* const weights = scratch.weights + n * right.count;
        int64_t example = 0, m = across.row % across.block->m;
        for (int64_t c = 0; c < across.rows; ++c) {
          scratch.row[c] = weights[example];
          if (++m == across.block->m) m = 0, ++example;
        }
        expanded = n;
      }
      const T* __restrict const weights = scratch.row;
      const T* __restrict const products = scratch.products + r * across.rows;
      T* __restrict const sums = scratch.tile + r * across.rows;
      for (int64_t c = 0; c < across.rows; ++c) sums[c] += weights[c] * products[c];
    }
  }
}

// tile += sum_t sum_s (a_t · a_s) (d_t · d_s) for factor k, pair by pair of examples.
template <typename T>
void AddGhost(int64_t k, const Tile<T>& tile, const Scratch<T>& scratch) {
  const Strip<T>&down = tile.down, &across = tile.across;
  const Examples left = ExamplesOf(down), right = ExamplesOf(across);
  const Factor<T>&f = down.block->factor[k], &other = across.block->factor[k];
  const int64_t lda = f.g * f.i, ldd = f.g * f.o, m_down = down.block->m, m_across = across.block->m;
  const int64_t step = f.g == 1 ? f.t : 1;                // positions that stand side by side in d
  T* const pairs = scratch.ghost;                         // [s, t]
  T* const spread = scratch.ghost + scratch.ghost_pairs;  // [t, o]
  for (int64_t x = right.begin; x < right.begin + right.count; ++x) {
    for (int64_t n = left.begin; n < left.begin + left.count; ++n) {
      for (int64_t g = 0; g < f.g; ++g) {
        std::memset(pairs, 0, other.t * f.t * sizeof(T));
        AddProduct(other.t, f.t, f.i, T(1), RowOfA(other, x, 0, g), lda, RowOfA(f, n, 0, g), lda, pairs, f.t);
        for (int64_t y = 0; y < m_across; ++y) {
          const int64_t c = x * m_across + y - across.row;
          if (c < 0 || c >= across.rows) continue;
          std::memset(spread, 0, f.t * f.o * sizeof(T));  // spread[t] = sum_s (a_s · a_t) d_s
          AddTransposedProduct(f.t, f.o, other.t, pairs, f.t, RowOfD(other, m_across, x, y, 0, g), ldd, spread, f.o);
          for (int64_t m = 0; m < m_down; ++m) {
            const int64_t r = n * m_down + m - down.row;
            if (r < 0 || r >= down.rows) continue;
            const T* const d = RowOfD(f, m_down, n, m, 0, g);
            T sum = 0;
            for (int64_t t = 0; t < f.t; t += step) sum += Dot(spread + t * f.o, d + t * ldd, step * f.o);
            scratch.tile[r * across.rows + c] += sum;
          }
        }
      }
    }
  }
}

// kernel += rows rowsᵀ of factor k, on and below the diagonal tiles; some columns of the rows at a time.
template <typename T>
void AddRows(const Runtime& runtime, const Plan<T>& plan, int64_t k, int64_t workers, T* slice, int64_t slice_columns,
             T* kernel) {
  const Factor<T>& sizes = plan.factor(k);
  const int64_t inputs = Smaller(sizes.i, 1 + (slice_columns - 1) / (sizes.o + 1));  // input features at a time
  for (int64_t g = 0; g < sizes.g; ++g) {
    for (int64_t i = 0; i < sizes.i; i += inputs) {
      const int64_t count = Smaller(inputs, sizes.i - i), width = count * sizes.o;
      ForEach(runtime, workers, plan.strips, [&](int64_t task, int64_t) {
        const Strip<T> strip = StripOf(plan, task);
        const Factor<T>& f = strip.block->factor[k];
        for (int64_t r = 0; r < strip.rows; ++r) {
          const int64_t n = (strip.row + r) / strip.block->m, m = (strip.row + r) % strip.block->m;
          T* const row = slice + (strip.place + r) * width;
          std::memset(row, 0, width * sizeof(T));
          AddTransposedProduct(count, f.o, f.t, RowOfA(f, n, 0, g) + i, f.g * f.i,
                               RowOfD(f, strip.block->m, n, m, 0, g), f.g * f.o, row, f.o);
        }
      });
      ForEach(runtime, workers, TriangleSize(plan.strips), [&](int64_t task, int64_t) {
        const Area area = TileOf(plan, task).area();
        AddProduct(area.rows, area.columns, width, T(1), slice + area.row * width, width, slice + area.column * width,
                   width, kernel + area.row * plan.size + area.column, plan.size);
      });
    }
  }
}

// All factors of the form `kRows`; the kernel must be zero. Returns through `some` whether there are any.
template <typename T>
bool AddAllRows(const Runtime& runtime, const Plan<T>& plan, int64_t workers, T* kernel, bool* some) {
  constexpr int64_t kSliceColumns = 1024;
  int64_t widest = 0;
  for (int64_t k = 0; k < plan.factors; ++k) {
    const Factor<T>& f = plan.factor(k);
    if (plan.way[k] != Way::kRows) continue;
    const int64_t width = Smaller(f.i, 1 + (kSliceColumns - 1) / (f.o + 1)) * f.o;
    if (width > widest) widest = width;
  }
  *some = widest > 0;
  if (!*some) return true;
  T* const slice = static_cast<T*>(runtime.allocate(runtime.self, plan.size * widest * sizeof(T)));
  if (slice == nullptr) return false;
  std::memset(kernel, 0, plan.size * plan.size * sizeof(T));
  for (int64_t k = 0; k < plan.factors; ++k) {
    if (plan.way[k] == Way::kRows) AddRows(runtime, plan, k, workers, slice, kSliceColumns, kernel);
  }
  return true;
}

// What factors k and `next` share in a block. What stands in the same memory, in the same shape, is the same.
template <typename T>
Shared SharedBy(const Factors<T>& block, int64_t k, int64_t next) {
  const Factor<T>&f = block.factor[k], &other = block.factor[next];
  if (other.t != f.t || other.g != f.g) return Shared::kNothing;
  if (other.d == f.d && other.o == f.o) return Shared::kD;
  return other.a == f.a && other.i == f.i ? Shared::kA : Shared::kNothing;
}

// The factors from k on that can be added to a tile at once; k has one position in both of its blocks.
template <typename T>
Run RunFrom(int64_t k, const Plan<T>& plan, const Tile<T>& tile) {
  Run run{k, k + 1, Shared::kNothing};
  for (; run.last < plan.factors && plan.way[run.last] == Way::kHadamard; ++run.last) {
    const Shared down = SharedBy(*tile.down.block, k, run.last), across = SharedBy(*tile.across.block, k, run.last);
    if (down != across || down == Shared::kNothing || (run.last > k + 1 && down != run.shared)) break;
    run.shared = down;
  }
  return run;
}

// Add the factors of the other forms to one tile.
template <typename T>
void AddToTile(const Plan<T>& plan, const Tile<T>& tile, const Scratch<T>& scratch) {
  const Factors<T>&down = *tile.down.block, &across = *tile.across.block;
  for (int64_t k = 0, next; k < plan.factors; k = next) {
    next = k + 1;
    if (down.factor[k].t == 0 || across.factor[k].t == 0) continue;
    if (plan.way[k] == Way::kHadamard) {
      const Run run = RunFrom(k, plan, tile);
      AddHadamard(run, tile, scratch);
      next = run.last;
    } else if (plan.way[k] == Way::kGhost) {
      AddGhost(k, tile, scratch);
    }
  }
}

// Numbers of scratch memory for the pairs of positions of two examples, and for d spread over them.
template <typename T>
void GhostRoom(const Plan<T>& plan, int64_t* pairs, int64_t* spread) {
  *pairs = *spread = 0;
  for (int64_t k = 0; k < plan.factors; ++k) {
    if (plan.way[k] != Way::kGhost) continue;
    for (int64_t b = 0; b < plan.blocks.count; ++b) {
      const Factor<T>& f = plan.block(b).factor[k];
      if (f.t * f.t > *pairs) *pairs = f.t * f.t;
      if (f.t * f.o > *spread) *spread = f.t * f.o;
    }
  }
}

// Floating-point operations for a number of the kernel, about.
template <typename T>
double CostOfNumber(const Plan<T>& plan) {
  double cost = 0;
  for (int64_t k = 0; k < plan.factors; ++k) {
    const FactorSizes sizes = MeanSizes(plan.blocks, k);
    cost += plan.factor(k).g * sizes.t * (sizes.o + sizes.i / sizes.m);
  }
  return cost;
}

}  // namespace

template <typename T>
bool JacobianKernel(const Runtime& runtime, const Blocks<T>& blocks, T* kernel) {
  Plan<T> plan;
  if (!MakePlan(runtime, blocks, &plan)) return false;
  const int64_t size = plan.size, tasks = TriangleSize(plan.strips);
  const double tile_side = static_cast<double>(Smaller(size, kSide));
  const int64_t workers = Workers(runtime, tasks, CostOfNumber(plan) * tile_side * tile_side);
  bool started = false;
  if (!AddAllRows(runtime, plan, workers, kernel, &started)) return false;

  const int64_t square = (kSide + 2) * (kSide + 2);
  int64_t ghost_pairs, ghost_spread;
  GhostRoom(plan, &ghost_pairs, &ghost_spread);
  const int64_t room = 3 * square + kSide + ghost_pairs + ghost_spread;
  T* const memory = static_cast<T*>(runtime.allocate(runtime.self, workers * room * sizeof(T)));
  if (memory == nullptr) return false;
  const bool stream = size * size * static_cast<int64_t>(sizeof(T)) >= kWorthStreaming;
  ForEach(runtime, workers, tasks, [&](int64_t task, int64_t worker) {
    T* const mine = memory + worker * room;
    const Scratch<T> scratch{mine,       mine + square, mine + 2 * square, mine + 3 * square, mine + 3 * square + kSide,
                             ghost_pairs};
    const Tile<T> tile = TileOf(plan, task);
    const Area area = tile.area();
    for (int64_t r = 0; r < area.rows; ++r) {
      T* const row = scratch.tile + r * area.columns;
      if (started) {
        std::memcpy(row, kernel + (area.row + r) * size + area.column, area.columns * sizeof(T));
      } else {
        std::memset(row, 0, area.columns * sizeof(T));
      }
    }
    AddToTile(plan, tile, scratch);
    if (stream) {
      StreamTile(scratch.tile, area, size, scratch.products, kernel);
    } else {
      StoreTile(scratch.tile, area, size, kernel);
    }
  });
  return true;
}

#define INSTANTIATE(T) template bool JacobianKernel(const Runtime&, const Blocks<T>&, T*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tfjac::TFJAC_ISA
