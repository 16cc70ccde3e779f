#include "custom_ops/damped_solve/damped_solve.h"

#include <atomic>
#include <cmath>
#include <cstring>

#include "custom_ops/common/cpu/symmetric.h"
#include "custom_ops/common/cpu/tiles.h"
#include "custom_ops/common/cpu/vectors.h"

namespace tfjac::TFJAC_ISA {
namespace {

constexpr int64_t kPanel = 144;   // columns factorised at a time; both are multiples of what Eigen computes at a time
constexpr int64_t kRows = 192;    // rows of a task
constexpr int64_t kSmall = 32;    // systems of up to so many unknowns are solved by one thread each
constexpr int64_t kSystems = 64;  // of them, of a task

// The lower triangle of the damped matrix, with the right-hand side as row p below it. Factorising A = L Lᵀ then leaves
// L⁻¹ rhs in that row: the forward substitution comes for free.
template <typename T>
struct Work {
  int64_t p;
  T* data;  // [p + 1, ld]
  int64_t ld;

  T* at(int64_t row, int64_t column) const { return data + row * ld + column; }
};

// Copy damped system j into the work space; false where something is not finite.
template <typename T>
bool Load(const Runtime& runtime, const DampedSystems<T>& systems, int64_t j, const Work<T>& work) {
  const int64_t p = work.p;
  const T *const matrix = systems.MatrixOf(j), *const scaling = systems.ScalingOf(j), *const rhs = systems.RhsOf(j);
  const T damping = systems.damping[j];
  std::atomic<bool> finite{AllFinite(rhs, p)};
  const int64_t tasks = (p + kRows - 1) / kRows;
  ForEach(runtime, Workers(runtime, tasks, static_cast<double>(kRows * p)), tasks, [&](int64_t task, int64_t) {
    bool good = true;
    for (int64_t row = task * kRows; row < Smaller(p, (task + 1) * kRows); ++row) {
      T* const to = work.at(row, 0);
      std::memcpy(to, matrix + row * p, (row + 1) * sizeof(T));
      to[row] += damping * scaling[row];
      good = good && AllFinite(to, row + 1);
    }
    if (!good) finite.store(false, std::memory_order_relaxed);
  });
  std::memcpy(work.at(p, 0), rhs, p * sizeof(T));
  return finite.load();
}

// Left-looking blocked Cholesky factorisation: a panel of columns takes all updates from the left in one product, then its
// diagonal tile is factorised, then the rows below it are solved for.
template <typename T>
bool Factorise(const Runtime& runtime, const Work<T>& work) {
  for (int64_t begin = 0; begin < work.p; begin += kPanel) {
    const int64_t width = Smaller(kPanel, work.p - begin);
    const int64_t rows = work.p + 1 - begin;  // from the diagonal on, right-hand side included
    const int64_t tasks = (rows + kRows - 1) / kRows;
    const double cost = static_cast<double>(kRows * width) * 2.0;
    const auto count = [&](int64_t task) { return Smaller(kRows, rows - task * kRows); };
    if (begin > 0) {
      ForEach(runtime, Workers(runtime, tasks, cost * begin), tasks, [&](int64_t task, int64_t) {
        const int64_t row = begin + task * kRows;
        AddProduct(count(task), width, begin, T(-1), work.at(row, 0), work.ld, work.at(begin, 0), work.ld,
                   work.at(row, begin), work.ld);
      });
    }
    if (!FactorTile(width, work.at(begin, begin), work.ld)) return false;
    const int64_t below = begin + width;
    const int64_t tasks_below = (work.p + 1 - below + kRows - 1) / kRows;
    ForEach(runtime, Workers(runtime, tasks_below, cost * width), tasks_below, [&](int64_t task, int64_t) {
      const int64_t row = below + task * kRows;
      SolveTile(Smaller(kRows, work.p + 1 - row), width, work.at(begin, begin), work.ld, work.at(row, begin), work.ld);
    });
  }
  return true;
}

// Solve Lᵀ x = y, y in row p of the work space, row by row of L from the last.
template <typename T>
void SubstituteBackwards(const Work<T>& work, T* x) {
  std::memcpy(x, work.at(work.p, 0), work.p * sizeof(T));
  for (int64_t row = work.p - 1; row >= 0; --row) {
    const T* const l = work.at(row, 0);
    x[row] /= l[row];
    Axpy(-x[row], l, x, row);
  }
}

// Solve one system of up to kSmall unknowns in the thread's own memory; false where it failed.
template <typename T>
bool SolveSmall(const DampedSystems<T>& systems, int64_t j, T* x) {
  const int64_t p = systems.p;
  const T *const matrix = systems.MatrixOf(j), *const scaling = systems.ScalingOf(j);
  const T* const rhs = systems.RhsOf(j);
  T l[kSmall * kSmall], inverse[kSmall];
  bool finite = AllFinite(rhs, p);
  for (int64_t row = 0; row < p; ++row) {
    for (int64_t column = 0; column < row; ++column) {
      T value = matrix[row * p + column];
      for (int64_t k = 0; k < column; ++k) value -= l[row * kSmall + k] * l[column * kSmall + k];
      l[row * kSmall + column] = value * inverse[column];
    }
    T pivot = matrix[row * p + row] + systems.damping[j] * scaling[row];
    finite = finite && AllFinite(matrix + row * p, row + 1) && AllFinite(&pivot, 1);
    for (int64_t k = 0; k < row; ++k) pivot -= l[row * kSmall + k] * l[row * kSmall + k];
    if (!finite || !(pivot > T(0))) return false;
    inverse[row] = T(1) / std::sqrt(pivot);
  }
  for (int64_t row = 0; row < p; ++row) {
    T value = rhs[row];
    for (int64_t k = 0; k < row; ++k) value -= l[row * kSmall + k] * x[k];
    x[row] = value * inverse[row];
  }
  for (int64_t row = p - 1; row >= 0; --row) {
    x[row] *= inverse[row];
    for (int64_t k = 0; k < row; ++k) x[k] -= l[row * kSmall + k] * x[row];
  }
  return AllFinite(x, p);
}

// Many small systems, each by one thread.
template <typename T>
void SolveAllSmall(const Runtime& runtime, const DampedSystems<T>& systems, T* solution, bool* success) {
  const int64_t p = systems.p, tasks = (systems.k + kSystems - 1) / kSystems;
  const double cost = static_cast<double>(kSystems * p) * (p * p / 6.0 + 2.0 * p + 20.0);
  ForEach(runtime, Workers(runtime, tasks, cost), tasks, [&](int64_t task, int64_t) {
    for (int64_t j = task * kSystems; j < Smaller(systems.k, (task + 1) * kSystems); ++j) {
      T* const x = solution + j * p;
      success[j] = SolveSmall(systems, j, x);
      if (!success[j]) std::memset(x, 0, p * sizeof(T));
    }
  });
}

}  // namespace

template <typename T>
bool DampedSolve(const Runtime& runtime, const DampedSystems<T>& systems, T* solution, bool* success) {
  const int64_t p = systems.p;
  if (p == 0) {
    for (int64_t j = 0; j < systems.k; ++j) success[j] = true;
    return true;
  }
  if (systems.own != 0 && p <= kSmall) {
    SolveAllSmall(runtime, systems, solution, success);
    return true;
  }
  // Rows start at different places of the cache: no power of two between them.
  const int64_t line = 64 / static_cast<int64_t>(sizeof(T));
  const int64_t ld = ((p + line - 1) / line | 1) * line;
  T* const data = static_cast<T*>(runtime.allocate(runtime.self, (p + 1) * ld * sizeof(T)));
  if (data == nullptr) return false;
  const Work<T> work{p, data, ld};
  for (int64_t j = 0; j < systems.k; ++j, solution += p) {
    success[j] = Load(runtime, systems, j, work) && Factorise(runtime, work);
    if (success[j]) SubstituteBackwards(work, solution);
    success[j] = success[j] && AllFinite(solution, p);
    if (!success[j]) std::memset(solution, 0, p * sizeof(T));
  }
  return true;
}

#define INSTANTIATE(T) template bool DampedSolve(const Runtime&, const DampedSystems<T>&, T*, bool*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tfjac::TFJAC_ISA
