// The CPU kernels without TensorFlow, to be run under AddressSanitizer and UndefinedBehaviorSanitizer (`make sanitize`).
//
// Every array is allocated to its exact size, so that a read or write past either end is caught; results are compared with
// loops that follow the definitions. Built once per instruction set.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "custom_ops/damped_solve/damped_solve.h"
#include "custom_ops/example_grams/example_grams.h"
#include "custom_ops/schur_complement/schur_complement.h"
#include "custom_ops/jacobian_gram/jacobian_gram.h"
#include "custom_ops/jacobian_kernel/jacobian_kernel.h"
#include "custom_ops/jacobian_row_norms/jacobian_row_norms.h"
#include "custom_ops/jacobian_rows/jacobian_rows.h"

namespace tfjac {
namespace {

int failures = 0;

// A runtime with real threads; scratch memory in exact pieces.
struct TestRuntime {
  explicit TestRuntime(int64_t threads, Form form = Form::kCheaper) : runtime{this, threads, &Run, &Allocate, form} {}

  static void Run(void*, int64_t workers, void (*body)(void*, int64_t), void* state) {
    std::vector<std::thread> threads;
    for (int64_t worker = 0; worker < workers; ++worker) threads.emplace_back(body, state, worker);
    for (std::thread& thread : threads) thread.join();
  }
  static void* Allocate(void* self, int64_t bytes) {
    void* const memory = std::aligned_alloc(64, (bytes / 64 + 1) * 64);
    std::memset(memory, 0xff, (bytes / 64 + 1) * 64);  // NaN, should anything read what it has not written
    static_cast<TestRuntime*>(self)->pieces.emplace_back(memory, &std::free);
    return memory;
  }

  std::vector<std::unique_ptr<void, void (*)(void*)>> pieces;
  Runtime runtime;
};

double Random() { return 2.0 * std::rand() / RAND_MAX - 1.0; }

template <typename T>
std::vector<T> RandomVector(int64_t count) {
  std::vector<T> x(count);
  for (T& value : x) value = static_cast<T>(Random());
  return x;
}

struct BlockSizes {
  int64_t t, g, i, o;
  const char* layout;
};

template <typename T>
struct Problem {
  Problem(int64_t n, int64_t m, const std::vector<BlockSizes>& blocks) {
    int64_t p = 0;
    for (const BlockSizes& b : blocks) {
      a.push_back(RandomVector<T>(n * b.t * b.g * b.i));
      d.push_back(RandomVector<T>(n * m * b.t * b.g * b.o));
      Factor<T> f{a.back().data(), d.back().data(), b.t, b.g, b.i, b.o, 0, 0, 0, 0};
      if (!PlaceColumns(b.layout, &f, &p)) std::abort();
      storage.push_back(f);
    }
    factors = Factors<T>{n, m, p, static_cast<int64_t>(storage.size()), storage.data()};
    residual = RandomVector<T>(n * m);
  }

  // J by its definition, [n·m, p].
  std::vector<double> Rows() const {
    std::vector<double> rows(factors.n * factors.m * factors.p, 0.0);
    for (const Factor<T>& f : storage) {
      for (int64_t row = 0; row < factors.n * factors.m; ++row) {
        for (int64_t c = 0; c < Columns(f); ++c) {
          const Place place = PlaceOf(f, c);
          double sum = 0;
          for (int64_t t = 0; t < f.t; ++t) {
            sum += static_cast<double>(RowOfA(f, row / factors.m, t, place.g)[place.i]) *
                   RowOfD(f, factors.m, row / factors.m, row % factors.m, t, place.g)[place.o];
          }
          rows[row * factors.p + f.column + c] = sum;
        }
      }
    }
    return rows;
  }

  std::vector<std::vector<T>> a, d;
  std::vector<Factor<T>> storage;
  Factors<T> factors;
  std::vector<T> residual;
};

template <typename T>
void Compare(const char* what, const std::vector<T>& found, const std::vector<double>& expected) {
  double scale = 1, worst = 0;
  for (double x : expected) scale = std::fmax(scale, std::fabs(x));
  for (size_t k = 0; k < expected.size(); ++k) {
    const double error = std::fabs(found[k] - expected[k]);
    worst = error <= worst ? worst : error;  // a NaN counts as worst
  }
  const double limit = scale * (sizeof(T) == 4 ? 1e-4 : 1e-12);
  if (!(worst <= limit)) {
    std::printf("%s: off by %g, more than %g\n", what, worst, limit);
    ++failures;
  }
}

template <typename T>
std::vector<double> Product(const std::vector<double>& x, int64_t rows, int64_t columns, bool transposed) {
  const int64_t size = transposed ? columns : rows, depth = transposed ? rows : columns;
  std::vector<double> result(size * size, 0.0);
  for (int64_t r = 0; r < size; ++r) {
    for (int64_t c = 0; c < size; ++c) {
      for (int64_t k = 0; k < depth; ++k) {
        result[r * size + c] +=
            transposed ? x[k * columns + r] * x[k * columns + c] : x[r * columns + k] * x[c * columns + k];
      }
    }
  }
  return result;
}

template <typename T>
void CheckFactors(int64_t n, int64_t m, const std::vector<BlockSizes>& blocks) {
  const Problem<T> problem(n, m, blocks);
  const Factors<T>& f = problem.factors;
  const std::vector<double> expected = problem.Rows();
  const std::pair<int64_t, Form> ways[] = {
      {1, Form::kCheaper}, {3, Form::kCheaper}, {1, Form::kRows}, {3, Form::kPairs}};
  for (const auto& [threads, form] : ways) {
    TestRuntime test(threads, form);
    std::vector<T> rows(n * m * f.p), gram(f.p * f.p), gradient(f.p), kernel(n * m * n * m), norms(n * m);
    if (!rows.empty()) {
      TFJAC_ISA::JacobianRows<T>(test.runtime, f, rows.data());
      Compare("rows", rows, expected);
    }
    if (f.p > 5000) continue;  // the loops below would take too long
    if (f.p > 0) {
      TFJAC_ISA::JacobianGram<T>(test.runtime, f, problem.residual.data(), gram.data(), gradient.data());
      Compare("gram", gram, Product<T>(expected, n * m, f.p, true));
      std::vector<double> transposed(f.p, 0.0);
      for (int64_t row = 0; row < n * m; ++row) {
        for (int64_t c = 0; c < f.p; ++c) transposed[c] += expected[row * f.p + c] * problem.residual[row];
      }
      Compare("gradient", gradient, transposed);
    }
    if (!kernel.empty()) {
      TFJAC_ISA::JacobianKernel<T>(test.runtime, Blocks<T>{1, &f}, kernel.data());
      const std::vector<double> products = Product<T>(expected, n * m, f.p, false);
      Compare("kernel", kernel, products);
      TFJAC_ISA::JacobianRowNorms<T>(test.runtime, f, norms.data());
      std::vector<double> diagonal(n * m);
      for (int64_t row = 0; row < n * m; ++row) diagonal[row] = products[row * (n * m + 1)];
      Compare("row norms", norms, diagonal);
    }
  }
}

// The kernel of several blocks of rows: sizes of the factors, of which t is that of the first block, and for each block n, m
// and what its t are.
struct RowBlock {
  int64_t n, m;
  std::vector<int64_t> t;
};
template <typename T>
void CheckBlocks(std::vector<BlockSizes> sizes, const std::vector<RowBlock>& rows) {
  std::vector<std::unique_ptr<Problem<T>>> problems;
  std::vector<Factors<T>> blocks;
  std::vector<double> jacobian;
  for (const RowBlock& block : rows) {
    for (size_t k = 0; k < sizes.size(); ++k) sizes[k].t = block.t[k];
    problems.push_back(std::make_unique<Problem<T>>(block.n, block.m, sizes));
    blocks.push_back(problems.back()->factors);
    const std::vector<double> more = problems.back()->Rows();
    jacobian.insert(jacobian.end(), more.begin(), more.end());
  }
  const Blocks<T> all{static_cast<int64_t>(blocks.size()), blocks.data()};
  const int64_t size = RowsOf(all);
  const std::vector<double> expected = Product<T>(jacobian, size, blocks[0].p, false);
  for (const auto& [threads, form] : {std::pair{1, Form::kCheaper}, {3, Form::kRows}, {3, Form::kPairs}}) {
    TestRuntime test(threads, form);
    std::vector<T> kernel(size * size);
    TFJAC_ISA::JacobianKernel<T>(test.runtime, all, kernel.data());
    Compare("kernel of blocks", kernel, expected);
  }
}

template <typename T>
void CheckSolve(int64_t p) {
  std::vector<T> matrix(p * p), rhs = RandomVector<T>(p), scaling(p, T(1)), damping = {T(2), T(-1e6), T(3)};
  for (int64_t r = 0; r < p; ++r) {
    for (int64_t c = 0; c < p; ++c) matrix[r * p + c] = c <= r ? T(1) / T(1 + r - c) : T(NAN);  // above: never read
  }
  for (int64_t threads : {1, 3}) {
    TestRuntime test(threads);
    std::vector<T> solution(3 * p);
    bool success[3];
    const DampedSystems<T> systems{p, 3, matrix.data(), rhs.data(), scaling.data(), damping.data()};
    TFJAC_ISA::DampedSolve<T>(test.runtime, systems, solution.data(), success);
    if (!success[0] || success[1] != (p == 0) || !success[2])
      std::printf("solve: flags at p = %d\n", int(p)), ++failures;
    for (int64_t j : {0, 2}) {  // the residual of the equations
      std::vector<T> left(p);
      for (int64_t r = 0; r < p; ++r) {
        double sum = damping[j] * solution[j * p + r];
        for (int64_t c = 0; c < p; ++c) sum += matrix[c <= r ? r * p + c : c * p + r] * solution[j * p + c];
        left[r] = static_cast<T>(sum);
      }
      Compare("solve", left, std::vector<double>(rhs.begin(), rhs.end()));
    }
  }
}

// k systems of p unknowns, each with a damping of its own; one has no solution.
template <typename T>
void CheckManySolves(int64_t k, int64_t p) {
  std::vector<T> matrix(k * p * p), rhs = RandomVector<T>(k * p), scaling(k * p, T(1)), damping(k);
  for (int64_t j = 0; j < k; ++j) {
    damping[j] = T(1 + j % 3);
    for (int64_t r = 0; r < p; ++r) {
      for (int64_t c = 0; c < p; ++c) matrix[(j * p + r) * p + c] = c < r ? T(0) : c == r ? T(1) : T(NAN);
    }
  }
  matrix[(k / 2) * p * p] = T(-9);
  for (int64_t threads : {1, 3}) {
    TestRuntime test(threads);
    std::vector<T> solution(k * p);
    std::vector<char> success(k);
    const DampedSystems<T> systems{p, k, matrix.data(), rhs.data(), scaling.data(), damping.data(), 1};
    TFJAC_ISA::DampedSolve<T>(test.runtime, systems, solution.data(), reinterpret_cast<bool*>(success.data()));
    for (int64_t j = 0; j < k; ++j) {
      if (success[j] != (j != k / 2)) std::printf("many solves: flag %d of %d\n", int(j), int(k)), ++failures;
      std::vector<T> left(p);
      std::vector<double> right(p, 0.0);
      for (int64_t r = 0; r < p; ++r) {
        left[r] = solution[j * p + r] * (T(1) + damping[j]);
        if (success[j]) right[r] = rhs[j * p + r];
      }
      Compare("many solves", left, right);
    }
  }
}

template <typename T>
void CheckExampleGrams(int64_t n, int64_t m, int64_t p) {
  const std::vector<T> jacobian = RandomVector<T>(n * m * p), residual = RandomVector<T>(n * m);
  std::vector<double> grams, gradients;
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t i = 0; i < p; ++i) {
      const auto column = [&](int64_t row, int64_t j) { return double(jacobian[(k * m + row) * p + j]); };
      for (int64_t j = 0; j < p; ++j) {
        grams.push_back(0);
        for (int64_t row = 0; row < m; ++row) grams.back() += column(row, i) * column(row, j);
      }
      gradients.push_back(0);
      for (int64_t row = 0; row < m; ++row) gradients.back() += column(row, i) * residual[k * m + row];
    }
  }
  for (int64_t threads : {1, 3}) {
    TestRuntime test(threads);
    std::vector<T> gram(n * p * p), gradient(n * p);
    const ExampleBlocks<T> blocks{n, m, p, jacobian.data(), residual.data()};
    TFJAC_ISA::ExampleGrams<T>(test.runtime, blocks, gram.data(), gradient.data());
    Compare("example grams", gram, grams);
    Compare("gradients of examples", gradient, gradients);
  }
}

// M is four times the identity, so that the results are sums of products.
template <typename T>
void CheckSchurComplement(int64_t n, int64_t m, int64_t k, int64_t o, int64_t p, int64_t groups) {
  const std::vector<T> values = RandomVector<T>(n * m * k), block = RandomVector<T>(n * m * o);
  const std::vector<T> vector = RandomVector<T>(groups * o);
  std::vector<T> matrix(groups * o * o);
  for (int64_t j = 0; j < groups * o; ++j) matrix[j * o + j % o] = T(4);
  std::vector<int32_t> columns(n * k), group(n);
  for (int64_t i = 0; i < n; ++i) {
    group[i] = static_cast<int32_t>(i * 7 % (groups + 1)) - 1;
    for (int64_t c = 0; c < k; ++c) {
      columns[i * k + c] = static_cast<int32_t>(i % 2 ? (i * 5 + c * c) % p : i % (p - k + 1) + c);
    }
  }
  std::vector<double> couples(p * groups * o), complement(p * p), projected(p);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t r = i * m; r < (i + 1) * m; ++r) {
      for (int64_t c = 0; c < k; ++c) {
        const double value = values[r * k + c];
        for (int64_t d = 0; d < k; ++d)
          complement[columns[i * k + c] * p + columns[i * k + d]] += value * values[r * k + d];
        for (int64_t j = 0; j < o && group[i] >= 0; ++j) {
          couples[(columns[i * k + c] * groups + group[i]) * o + j] += value * block[r * o + j];
        }
      }
    }
  }
  for (int64_t u = 0; u < p; ++u) {
    const double* const row = &couples[u * groups * o];
    for (int64_t q = 0; q < groups * o; ++q) {
      projected[u] += row[q] * vector[q] / 4;
      for (int64_t v = 0; v < p; ++v) complement[u * p + v] -= row[q] * couples[v * groups * o + q] / 4;
    }
  }
  for (int64_t threads : {1, 3}) {
    TestRuntime test(threads);
    std::vector<T> square(p * p), rest(p);
    bool success = false;
    SparseExamples<T> examples{
        n, m, k, o, p, groups, values.data(), columns.data(), block.data(), group.data(), matrix.data(), vector.data()};
    TFJAC_ISA::SchurComplement<T>(test.runtime, examples, square.data(), rest.data(), &success);
    Compare("Schur complement", square, complement);
    Compare("projection", rest, projected);
    if (k == 0) continue;
    std::vector<int32_t> wrong = columns;
    wrong[0] = static_cast<int32_t>(p);
    examples.columns = wrong.data();
    const SchurStatus status =
        TFJAC_ISA::SchurComplement<T>(test.runtime, examples, square.data(), rest.data(), &success);
    if (!success || status != SchurStatus::kOutOfRange) ++failures, std::printf("Schur complement: not refused\n");
  }
}

template <typename T>
void CheckAll() {
  CheckFactors<T>(3, 2, {{1, 1, 1, 1, "gio"}});
  CheckFactors<T>(0, 2, {{1, 1, 3, 2, "gio"}, {4, 1, 3, 2, "gio"}});
  CheckFactors<T>(0, 5, {{1, 1, 5, 23, "oig"}, {1, 1, 20, 9, "gio"}});
  CheckFactors<T>(2, 0, {{1, 1, 3, 2, "gio"}});
  CheckFactors<T>(2, 2, {{1, 1, 0, 2, "gio"}, {0, 1, 3, 2, "oig"}, {1, 0, 3, 2, "igo"}});
  CheckFactors<T>(9, 3, {{1, 1, 5, 4, "gio"}, {1, 1, 1, 4, "gio"}, {1, 1, 4, 3, "oig"}, {1, 1, 1, 3, "igo"}});
  CheckFactors<T>(5, 2, {{3, 2, 3, 2, "igo"}, {1, 3, 2, 4, "ogi"}, {7, 1, 2, 9, "iog"}});
  CheckFactors<T>(260, 1, {{1, 1, 17, 3, "gio"}, {1, 1, 1, 260, "gio"}});                    // blocks of columns
  CheckFactors<T>(2200, 1, {{1, 1, 3, 2, "gio"}});                                           // segments of rows
  CheckFactors<T>(270, 1, {{1, 1, 3, 410, "ogi"}, {1, 1, 1, 17, "gio"}});                    // rows for each tile again
  CheckFactors<T>(30, 2, {{1, 1, 1, 130, "gio"}, {1, 1, 3, 30, "gio"}});                     // narrow and wide blocks
  CheckFactors<T>(12, 3, {{1, 1, 20, 9, "gio"}, {1, 1, 1, 9, "gio"}, {1, 1, 9, 8, "ogi"}});  // residuals folded
  CheckFactors<T>(7, 1, {{1, 1, 33, 34, "gio"}, {1, 1, 1, 34, "gio"}});                      // pair products
  CheckFactors<T>(20, 3, {{6, 1, 9, 8, "gio"}, {1, 1, 30, 9, "gio"}, {3, 2, 4, 10, "oig"}});  // rows in chunks
  CheckFactors<T>(40, 9, {{2, 1, 30, 20, "gio"}, {30, 1, 4, 3, "gio"}});                      // ghost and rows
  CheckFactors<T>(2, 200, {{1, 1, 3, 2, "gio"}, {2, 1, 3, 2, "gio"}});                        // many residuals
  CheckFactors<T>(300, 1, {{1, 1, 60, 130, "gio"}});                                          // past the cache
  CheckFactors<T>(301, 5, {{1, 1, 2, 3, "gio"}});                                             // a kernel past the cache
  CheckBlocks<T>({{1, 1, 5, 4, "gio"}, {1, 1, 1, 4, "gio"}}, {{9, 1, {3, 1}}, {4, 1, {1, 1}}});
  CheckBlocks<T>({{1, 1, 3, 2, "gio"}, {1, 2, 4, 3, "gio"}},
                 {{5, 1, {1, 0}}, {0, 2, {1, 1}}, {4, 2, {0, 3}}, {3, 1, {2, 1}}});
  CheckBlocks<T>({{1, 1, 3, 2, "gio"}, {1, 1, 9, 8, "gio"}}, {{210, 1, {1, 2}}, {3, 1, {1, 1}}, {65, 3, {1, 4}}});
  for (int64_t p : {0, 1, 5, 143, 144, 145, 400}) CheckSolve<T>(p);
  CheckManySolves<T>(200, 5), CheckManySolves<T>(3, 32), CheckManySolves<T>(3, 33);
  CheckExampleGrams<T>(300, 25, 5), CheckExampleGrams<T>(2, 130, 32), CheckExampleGrams<T>(2, 3, 33);
  CheckExampleGrams<T>(2, 0, 3);
  CheckSchurComplement<T>(60, 2, 9, 3, 30, 12), CheckSchurComplement<T>(40, 1, 3, 4, 3, 5);
  CheckSchurComplement<T>(500, 2, 8, 1, 150, 40), CheckSchurComplement<T>(9, 2, 0, 3, 0, 5);
}

}  // namespace
}  // namespace tfjac

int main() {
  tfjac::CheckAll<float>();
  tfjac::CheckAll<double>();
  std::printf("%s\n", tfjac::failures ? "FAILED" : "the CPU kernels are right, and the sanitizers found nothing");
  return tfjac::failures ? 1 : 0;
}
