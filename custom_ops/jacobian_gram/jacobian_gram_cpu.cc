#include "custom_ops/jacobian_gram/jacobian_gram.h"

#include <cstring>

#include "custom_ops/common/cpu/balance.h"
#include "custom_ops/common/cpu/outer_product.h"
#include "custom_ops/common/cpu/symmetric.h"
#include "custom_ops/common/cpu/tiles.h"
#include "custom_ops/jacobian_gram/gradient.h"
#include "custom_ops/jacobian_gram/pair_products.h"
#include "custom_ops/jacobian_rows/jacobian_rows.h"

namespace tfjac::TFJAC_ISA {
namespace {

constexpr double kShareOfJ = 0.04;  // scratch memory that may grow with the problem, as a share of J's

// Scratch memory that one step of the computation after another uses.
template <typename T>
class Scratch {
 public:
  explicit Scratch(const Runtime& runtime) : runtime_(runtime) {}

  // Memory for `count` numbers, whose contents are lost at the next call; nullptr where there is none left.
  T* Get(int64_t count) {
    if (count > count_) {
      data_ = static_cast<T*>(runtime_.allocate(runtime_.self, count * sizeof(T)));
      count_ = data_ == nullptr ? 0 : count;
    }
    return data_;
  }

 private:
  const Runtime& runtime_;
  T* data_ = nullptr;
  int64_t count_ = 0;
};

// Some columns of J, at most kTile: a side of the tiles of the result.
struct Block {
  int64_t begin, end;
  int64_t factor;  // the factor they all belong to, if its own block is made from pair products; else -1
};

// How JᵀJ is computed.
template <typename T>
struct Plan {
  const Factors<T>& factors;
  Block* blocks;
  Nest* nests;  // [factors.count]
  int64_t count = 0;
  int64_t widest = 0;
  bool expand = false;  // some factor has several positions of use: form the rows, some at a time

  int64_t rows() const { return factors.n * factors.m; }
  double share_of_j() const { return kShareOfJ * static_cast<double>(rows()) * static_cast<double>(factors.p); }

  // Whether the tile of the blocks x, y is made from pair products.
  bool FromPairs(int64_t x, int64_t y) const {
    const int64_t k = blocks[x].factor, l = blocks[y].factor;
    return k >= 0 && l >= 0 && (k == l || factors.m > 1);
  }
  Area AreaOf(int64_t x, int64_t y) const {
    return Area{blocks[x].begin, blocks[x].end - blocks[x].begin, blocks[y].begin, blocks[y].end - blocks[y].begin};
  }
};

template <typename T>
void AddBlocks(int64_t begin, int64_t end, int64_t factor, Plan<T>* plan) {
  if (begin == end) return;
  const int64_t parts = Ceiling(end - begin, kTile);
  const int64_t width = Smaller(kTile, Ceiling(Ceiling(end - begin, parts), 16) * 16);
  for (; begin < end; begin += width) {
    plan->blocks[plan->count++] = Block{begin, Smaller(begin + width, end), factor};
    if (width > plan->widest) plan->widest = Smaller(width, plan->factors.p);
  }
}

// Cut the columns into blocks. Neighbouring factors share blocks, except those that pair products pay for.
template <typename T>
bool MakePlan(const Runtime& runtime, Plan<T>* plan) {
  const Factors<T>& factors = plan->factors;
  const int64_t most = 2 * Ceiling(factors.p, kTile) + 2 * factors.count + 2;
  plan->blocks = static_cast<Block*>(runtime.allocate(runtime.self, most * sizeof(Block)));
  plan->nests = static_cast<Nest*>(runtime.allocate(runtime.self, factors.count * sizeof(Nest)));
  if (plan->blocks == nullptr || plan->nests == nullptr) return false;
  int64_t begin = 0;  // of the columns not yet in a block
  for (int64_t k = 0; k < factors.count; ++k) {
    const Factor<T>& f = factors.factor[k];
    plan->nests[k] = NestOf(f);
    plan->expand = plan->expand || f.t != 1;
    if (!PairsPay(f, factors.m)) continue;
    AddBlocks(begin, f.column, -1, plan);
    begin = f.column + Columns(f);
    AddBlocks(f.column, begin, k, plan);
  }
  AddBlocks(begin, factors.p, -1, plan);
  return true;
}

// The columns of a block for the rows [row, row + depth) of J, where every factor has one position of use.
template <typename T>
void FillPanel(const Plan<T>& plan, const Block& block, int64_t row, int64_t depth, T* panel) {
  const Factors<T>& factors = plan.factors;
  const int64_t width = block.end - block.begin;
  for (int64_t k = 0; k < factors.count; ++k) {
    const Factor<T>& f = factors.factor[k];
    const int64_t begin = block.begin > f.column ? block.begin - f.column : 0;
    const int64_t end = Smaller(block.end - f.column, Columns(f));
    if (begin >= end) continue;
    for (int64_t r = 0; r < depth; ++r) {
      const int64_t n = (row + r) / factors.m, m = (row + r) % factors.m;
      DirectWriter<T> writer(panel + r * width + (f.column + begin - block.begin));
      WriteOuterProduct(plan.nests[k], RowOfA(f, n, 0, 0), RowOfD(f, factors.m, n, m, 0, 0), begin, end, &writer);
    }
  }
}

// tile = the sum over the rows [row, end) for the blocks x >= y; panels are made and used kDepth rows at a time.
template <typename T>
void ComputeTile(const Plan<T>& plan, int64_t x, int64_t y, int64_t row, int64_t end, T* scratch, T* tile) {
  const Area area = plan.AreaOf(x, y);
  T* const left = scratch;
  T* const right = scratch + kDepth * plan.widest;
  std::memset(tile, 0, area.rows * area.columns * sizeof(T));
  for (; row < end; row += kDepth) {
    const int64_t depth = Smaller(kDepth, end - row);
    FillPanel(plan, plan.blocks[x], row, depth, left);
    if (x == y) {
      AddTransposedSquare(area.rows, depth, left, area.rows, tile, area.columns);
    } else {
      FillPanel(plan, plan.blocks[y], row, depth, right);
      AddTransposedProduct(area.rows, area.columns, depth, left, area.rows, right, area.columns, tile, area.columns);
    }
  }
}

// Tiles one by one, each over all rows. Where there are few tiles, the rows are cut into segments that are summed
// afterwards, so that there is work for several threads; into how many depends on the sizes alone.
template <typename T>
bool GramByTiles(const Runtime& runtime, const Plan<T>& plan, Scratch<T>* scratch_memory, T* gram) {
  const int64_t p = plan.factors.p, rows = plan.rows(), tiles = TriangleSize(plan.count);
  const int64_t affordable = static_cast<int64_t>(plan.share_of_j() / (static_cast<double>(p) * p));
  const int64_t wanted = Smaller(Smaller(16, Ceiling(rows, 4 * kDepth)), Ceiling(16, tiles));
  const int64_t segments = affordable < 2 ? 1 : Smaller(wanted, affordable);
  const int64_t length = Ceiling(Ceiling(rows, segments), kDepth) * kDepth;

  const int64_t tasks = tiles * segments;
  const double cost = static_cast<double>(rows) * p * p / static_cast<double>(tasks);
  const int64_t workers = Workers(runtime, tasks, cost);
  const int64_t panels = 2 * kDepth * plan.widest, square = plan.widest * plan.widest;
  const int64_t room = panels + square;
  const int64_t sums = segments > 1 ? tasks * square : 0;
  T* const memory = scratch_memory->Get(workers * room + sums);
  if (memory == nullptr) return false;
  T* const partial = memory + workers * room;

  ForEach(runtime, workers, tasks, [&](int64_t task, int64_t worker) {
    const int64_t index = task / segments, begin = task % segments * length;
    const int64_t x = TriangleRow(index), y = index - TriangleIndex(x, 0);
    if (plan.FromPairs(x, y)) return;
    T* const scratch = memory + worker * room;
    T* const tile = segments > 1 ? partial + task * square : scratch + panels;
    ComputeTile(plan, x, y, begin, Smaller(begin + length, rows), scratch, tile);
    if (segments == 1) StoreTile(tile, plan.AreaOf(x, y), p, gram);
  });
  for (int64_t index = 0; segments > 1 && index < tiles; ++index) {
    const int64_t x = TriangleRow(index), y = index - TriangleIndex(x, 0);
    if (plan.FromPairs(x, y)) continue;
    const Area area = plan.AreaOf(x, y);
    T* const tile = partial + index * segments * square;
    for (int64_t s = 1; s < segments; ++s) Axpy(T(1), tile + s * square, tile, area.rows * area.columns);
    StoreTile(tile, area, p, gram);
  }
  return true;
}

// Rows some at a time, all tiles for each: a row of a factor with several positions of use costs too much to be formed
// again for every tile.
template <typename T>
bool GramByRows(const Runtime& runtime, const Plan<T>& plan, T* gram) {
  const Factors<T>& factors = plan.factors;
  const int64_t p = factors.p, rows = plan.rows(), tiles = TriangleSize(plan.count);
  const int64_t affordable = static_cast<int64_t>(plan.share_of_j() / static_cast<double>(p));
  const int64_t depth_limit = affordable < 16 ? 16 : Smaller(affordable, kDepth);
  T* const some = static_cast<T*>(runtime.allocate(runtime.self, depth_limit * p * sizeof(T)));
  if (some == nullptr) return false;
  std::memset(gram, 0, p * p * sizeof(T));
  double positions = 1;
  for (int64_t k = 0; k < factors.count; ++k) positions += static_cast<double>(factors.factor[k].t);
  for (int64_t row = 0; row < rows; row += depth_limit) {
    const int64_t depth = Smaller(depth_limit, rows - row);
    ForEach(runtime, Workers(runtime, depth, positions * p), depth, [&](int64_t r, int64_t) {
      for (int64_t k = 0; k < factors.count; ++k) {
        const Factor<T>& f = factors.factor[k];
        ExpandFactor(f, factors.m, row + r, row + r + 1, some + r * p + f.column, p);
      }
    });
    const double cost = static_cast<double>(depth) * p * p / static_cast<double>(tiles);
    ForEach(runtime, Workers(runtime, tiles, cost), tiles, [&](int64_t index, int64_t) {
      const int64_t x = TriangleRow(index), y = index - TriangleIndex(x, 0);
      if (plan.FromPairs(x, y)) return;
      const Area area = plan.AreaOf(x, y);
      T* const tile = gram + area.row * p + area.column;
      if (x == y) {
        AddTransposedSquare(area.rows, depth, some + area.row, p, tile, p);
      } else {
        AddTransposedProduct(area.rows, area.columns, depth, some + area.row, p, some + area.column, p, tile, p);
      }
    });
  }
  ForEach(runtime, Workers(runtime, tiles, static_cast<double>(kTile * kTile)), tiles, [&](int64_t index, int64_t) {
    const int64_t x = TriangleRow(index), y = index - TriangleIndex(x, 0);
    if (!plan.FromPairs(x, y)) Mirror(plan.AreaOf(x, y), p, gram);
  });
  return true;
}

// The blocks of the pairs of factors that are made from pair products.
template <typename T>
bool GramByPairs(const Runtime& runtime, const Plan<T>& plan, Scratch<T>* scratch_memory, T* gram) {
  const Factors<T>& factors = plan.factors;
  const int64_t room = 2 * kDepth * kTile + kTile * kTile;
  T *memory = nullptr, *folded = nullptr;
  int64_t folded_room = 0;
  for (int64_t k = 0; k < factors.count; ++k) {
    if (!PairsPay(factors.factor[k], factors.m)) continue;
    for (int64_t l = factors.m > 1 ? 0 : k; l <= k; ++l) {
      if (!PairsPay(factors.factor[l], factors.m)) continue;
      const PairBlock<T> block(factors, factors.factor[k], factors.factor[l]);
      memory = scratch_memory->Get(runtime.threads * room);
      if (memory == nullptr) return false;
      const int64_t size = block.folded_size();
      const bool fold_first = factors.m > 1 && size > 0 && static_cast<double>(size) <= plan.share_of_j();
      if (fold_first && size > folded_room) {
        folded = static_cast<T*>(runtime.allocate(runtime.self, size * sizeof(T)));
        if (folded == nullptr) return false;
        folded_room = size;
      }
      if (fold_first) {
        const double cost = static_cast<double>(factors.m * (size / factors.n));
        ForEach(runtime, Workers(runtime, factors.n, cost), factors.n,
                [&](int64_t n, int64_t) { block.Fold(n, folded); });
      }
      const double cost = static_cast<double>(factors.n) * kTile * kTile;
      ForEach(runtime, Workers(runtime, block.tasks(), cost), block.tasks(), [&](int64_t task, int64_t worker) {
        block.Compute(task, fold_first ? folded : nullptr, memory + worker * room, gram);
      });
    }
  }
  return true;
}

template <typename T>
bool Gradient(const Runtime& runtime, const Factors<T>& factors, const T* residual, Scratch<T>* scratch_memory,
              T* gradient) {
  if (residual == nullptr) {
    std::memset(gradient, 0, factors.p * sizeof(T));
    return true;
  }
  int64_t tasks = 0;
  double cost = 0;
  for (int64_t k = 0; k < factors.count; ++k) {
    const Factor<T>& f = factors.factor[k];
    tasks += GradientTasks(f);
    cost += static_cast<double>(factors.n * f.t * f.g * f.o) * (factors.m + f.i);
  }
  const int64_t workers = tasks > 0 ? Workers(runtime, tasks, cost / static_cast<double>(tasks)) : 1;
  const int64_t room = kDepth * kTile + kTile * kTile;
  T* const memory = scratch_memory->Get(workers * room);
  if (memory == nullptr) return false;
  ForEach(runtime, workers, tasks, [&](int64_t task, int64_t worker) {
    const Factor<T>* f = factors.factor;
    for (; task >= GradientTasks(*f); ++f) task -= GradientTasks(*f);
    ComputeGradient(factors, *f, task, residual, memory + worker * room, gradient);
  });
  return true;
}

}  // namespace

template <typename T>
bool JacobianGram(const Runtime& runtime, const Factors<T>& given, const T* residual, T* gram, T* gradient) {
  Factors<T> factors = given;
  if (!Balance(runtime, [&](const Factor<T>& f) { return PairsPay(f, given.m); }, &factors)) return false;
  Plan<T> plan{factors, nullptr, nullptr};
  Scratch<T> scratch(runtime);
  return MakePlan(runtime, &plan) &&
         (plan.expand ? GramByRows(runtime, plan, gram) : GramByTiles(runtime, plan, &scratch, gram)) &&
         GramByPairs(runtime, plan, &scratch, gram) && Gradient(runtime, factors, residual, &scratch, gradient);
}

#define INSTANTIATE(T) template bool JacobianGram(const Runtime&, const Factors<T>&, const T*, T*, T*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tfjac::TFJAC_ISA
