#include "custom_ops/jacobian_gram/jacobian_gram.h"

#include <cstring>

#include "custom_ops/common/cpu/balance.h"
#include "custom_ops/common/cpu/narrow_square.h"
#include "custom_ops/common/cpu/outer_product.h"
#include "custom_ops/common/cpu/symmetric.h"
#include "custom_ops/common/cpu/tiles.h"
#include "custom_ops/common/cpu/vectors.h"
#include "custom_ops/jacobian_gram/gradient.h"
#include "custom_ops/jacobian_gram/pair_products.h"
#include "custom_ops/jacobian_rows/jacobian_rows.h"

namespace tfjac::TFJAC_ISA {
namespace {

constexpr double kShareOfJ = 0.04;             // scratch memory that may grow with the problem, as a share of J's
constexpr int64_t kLittle = int64_t{1} << 21;  // bytes of it that are always there
constexpr int64_t kCached = int64_t{4} << 20;  // bytes of a result that stays in the cache while all of it is added to
constexpr int64_t kSegments = 16;              // sums that are taken side by side, at most
constexpr int64_t kRowsATime = 16;             // rows of J that a thread forms at a time

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
  bool by_rows = false;  // form the rows once, some at a time, rather than again for each tile

  int64_t rows() const { return factors.n * factors.m; }

  // How many numbers of scratch memory there may be.
  double Affordable() const {
    const double share = kShareOfJ * static_cast<double>(rows()) * static_cast<double>(factors.p);
    const double little = static_cast<double>(kLittle / static_cast<int64_t>(sizeof(T)));
    return share > little ? share : little;
  }

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
  plan->by_rows = factors.p * factors.p * static_cast<int64_t>(sizeof(T)) <= kCached;
  int64_t begin = 0;  // of the columns not yet in a block
  for (int64_t k = 0; k < factors.count; ++k) {
    const Factor<T>& f = factors.factor[k];
    plan->nests[k] = NestOf(f);
    plan->by_rows = plan->by_rows || f.t != 1;
    if (!PairsPay(runtime, factors, f)) continue;
    AddBlocks(begin, f.column, -1, plan);
    begin = f.column + Columns(f);
    AddBlocks(f.column, begin, k, plan);
  }
  AddBlocks(begin, factors.p, -1, plan);
  return true;
}

// The rows [row, row + depth) of J, to `some` with `ld` numbers between them.
template <typename T>
void FormRows(const Runtime& runtime, const Factors<T>& factors, int64_t row, int64_t depth, T* some, int64_t ld) {
  double cost = 0;  // of a row
  for (int64_t k = 0; k < factors.count; ++k) {
    cost += static_cast<double>(factors.factor[k].t * Columns(factors.factor[k]));
  }
  const int64_t tasks = Ceiling(depth, kRowsATime);
  ForEach(runtime, Workers(runtime, tasks, cost * kRowsATime), tasks, [&](int64_t task, int64_t) {
    const int64_t begin = task * kRowsATime, end = Smaller(begin + kRowsATime, depth);
    for (int64_t k = 0; k < factors.count; ++k) {
      const Factor<T>& f = factors.factor[k];
      ExpandFactor(f, factors.m, row + begin, row + end, some + begin * ld + f.column, ld);
    }
  });
}

// Add what the rows [row, end) of J make to the lower triangle of `gram`, and to `gradient` unless `residual` is null: at most
// `most` of them are formed at a time, in `some`, with `ld` numbers between them and kPadding behind, and all tiles use them.
template <typename T>
void AddRows(const Runtime& runtime, const Plan<T>& plan, const T* residual, int64_t row, int64_t end, int64_t most,
             T* some, int64_t ld, T* gram, T* gradient) {
  const int64_t p = plan.factors.p, tiles = TriangleSize(plan.count);
  const int64_t tasks = tiles + (residual == nullptr ? 0 : plan.count);
  for (; row < end; row += most) {
    const int64_t depth = Smaller(most, end - row);
    FormRows(runtime, plan.factors, row, depth, some, ld);
    const double cost = static_cast<double>(depth) * p * p / static_cast<double>(tasks);
    ForEach(runtime, Workers(runtime, tasks, cost), tasks, [&](int64_t task, int64_t) {
      if (task >= tiles) {
        const Block& block = plan.blocks[task - tiles];
        AddTransposedProduct(block.end - block.begin, 1, depth, some + block.begin, ld, residual + row, 1,
                             gradient + block.begin, 1);
        return;
      }
      const int64_t index = tiles - 1 - task;  // the large ones first
      const int64_t x = TriangleRow(index), y = index - TriangleIndex(x, 0);
      if (plan.FromPairs(x, y)) return;
      const Area area = plan.AreaOf(x, y);
      T* const tile = gram + area.row * p + area.column;
      if (x == y && area.rows <= kNarrow) {
        AddNarrowSquare(area.rows, depth, some + area.row, ld, tile, p);
      } else if (x == y) {
        AddTransposedSquare(area.rows, depth, some + area.row, ld, tile, p);
      } else {
        AddTransposedProduct(area.rows, area.columns, depth, some + area.row, ld, some + area.column, ld, tile, p);
      }
    });
  }
}

// All that is made from rows. Where there is one tile, the rows are cut into segments, whose sums are taken side by side and
// added up; into how many depends on the sizes alone.
template <typename T>
bool GramByRows(const Runtime& runtime, const Plan<T>& plan, const T* residual, T* gram, T* gradient) {
  const int64_t p = plan.factors.p, rows = plan.rows(), tiles = TriangleSize(plan.count), sums = p * p + p;
  if (p == 0) return true;
  const double affordable = plan.Affordable();
  int64_t segments = plan.count > 1 ? 1 : Smaller(kSegments, Ceiling(rows, 2 * kDepth));
  segments = Smaller(segments, static_cast<int64_t>(affordable / static_cast<double>(sums)));
  segments = segments < 1 ? 1 : segments;
  const int64_t length = Ceiling(rows, segments);
  const int64_t ld = Ceiling(p, kPadding) * kPadding;
  int64_t most = static_cast<int64_t>(affordable / static_cast<double>(ld));
  most = most < 16 ? 16 : Smaller(most, kDepth);

  std::memset(gram, 0, p * p * sizeof(T));
  std::memset(gradient, 0, p * sizeof(T));
  const int64_t workers = segments > 1 ? Workers(runtime, segments, static_cast<double>(length) * p * p) : 1;
  const int64_t room = most * ld + kPadding, apart = segments > 1 ? segments * sums : 0;
  T* const memory = static_cast<T*>(runtime.allocate(runtime.self, (workers * room + apart) * sizeof(T)));
  if (memory == nullptr) return false;
  std::memset(memory, 0, (workers * room + apart) * sizeof(T));
  if (segments == 1) {
    AddRows(runtime, plan, residual, 0, rows, most, memory, ld, gram, gradient);
  } else {
    const Runtime alone{runtime.self, 1, runtime.run, runtime.allocate};
    T* const partial = memory + workers * room;
    ForEach(runtime, workers, segments, [&](int64_t segment, int64_t worker) {
      T* const sum = partial + segment * sums;
      const int64_t begin = segment * length, end = Smaller(begin + length, rows);
      AddRows(alone, plan, residual, begin, end, most, memory + worker * room, ld, sum, sum + p * p);
    });
    for (int64_t segment = 0; segment < segments; ++segment) {
      Axpy(T(1), partial + segment * sums, gram, p * p);
      Axpy(T(1), partial + segment * sums + p * p, gradient, p);
    }
  }
  ForEach(runtime, Workers(runtime, tiles, static_cast<double>(kTile * kTile)), tiles, [&](int64_t index, int64_t) {
    const int64_t x = TriangleRow(index), y = index - TriangleIndex(x, 0);
    if (!plan.FromPairs(x, y)) Mirror(plan.AreaOf(x, y), p, gram);
  });
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

// tile = the sum over all rows for the blocks x >= y; panels are made and used kDepth rows at a time.
template <typename T>
void ComputeTile(const Plan<T>& plan, int64_t x, int64_t y, T* scratch, T* tile) {
  const Area area = plan.AreaOf(x, y);
  const int64_t rows = plan.rows();
  T* const left = scratch;
  T* const right = scratch + kDepth * plan.widest;
  std::memset(tile, 0, area.rows * area.columns * sizeof(T));
  for (int64_t row = 0; row < rows; row += kDepth) {
    const int64_t depth = Smaller(kDepth, rows - row);
    FillPanel(plan, plan.blocks[x], row, depth, left);
    if (x == y) {
      AddTransposedSquare(area.rows, depth, left, area.rows, tile, area.columns);
    } else {
      FillPanel(plan, plan.blocks[y], row, depth, right);
      AddTransposedProduct(area.rows, area.columns, depth, left, area.rows, right, area.columns, tile, area.columns);
    }
  }
}

// Tiles one by one, each over all rows, which are formed again for each: where the result does not fit in the cache.
template <typename T>
bool GramByTiles(const Runtime& runtime, const Plan<T>& plan, Scratch<T>* scratch_memory, T* gram) {
  const int64_t p = plan.factors.p, tiles = TriangleSize(plan.count);
  const double cost = static_cast<double>(plan.rows()) * p * p / static_cast<double>(tiles);
  const int64_t workers = Workers(runtime, tiles, cost);
  const int64_t panels = 2 * kDepth * plan.widest, room = panels + plan.widest * plan.widest;
  T* const memory = scratch_memory->Get(workers * room);
  if (memory == nullptr) return false;
  ForEach(runtime, workers, tiles, [&](int64_t index, int64_t worker) {
    const int64_t x = TriangleRow(index), y = index - TriangleIndex(x, 0);
    if (plan.FromPairs(x, y)) return;
    T* const scratch = memory + worker * room;
    ComputeTile(plan, x, y, scratch, scratch + panels);
    StoreTile(scratch + panels, plan.AreaOf(x, y), p, gram);
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
    if (!PairsPay(runtime, factors, factors.factor[k])) continue;
    for (int64_t l = factors.m > 1 ? 0 : k; l <= k; ++l) {
      if (!PairsPay(runtime, factors, factors.factor[l])) continue;
      const PairBlock<T> block(factors, factors.factor[k], factors.factor[l]);
      memory = scratch_memory->Get(runtime.threads * room);
      if (memory == nullptr) return false;
      const int64_t size = block.folded_size();
      const bool fold_first = factors.m > 1 && size > 0 && static_cast<double>(size) <= plan.Affordable();
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
  const auto in_pairs = [&](int64_t k) { return PairsPay(runtime, given, given.factor[k]); };
  if (!Balance(runtime, in_pairs, &factors)) return false;
  Plan<T> plan{factors, nullptr, nullptr};
  Scratch<T> scratch(runtime);
  return MakePlan(runtime, &plan) &&
         (plan.by_rows ? GramByRows(runtime, plan, residual, gram, gradient)
                       : GramByTiles(runtime, plan, &scratch, gram) &&
                             Gradient(runtime, factors, residual, &scratch, gradient)) &&
         GramByPairs(runtime, plan, &scratch, gram);
}

#define INSTANTIATE(T) template bool JacobianGram(const Runtime&, const Factors<T>&, const T*, T*, T*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tfjac::TFJAC_ISA
