#include "custom_ops/example_grams/example_grams.h"

#include <cstring>

#include "custom_ops/common/cpu/symmetric.h"
#include "custom_ops/common/cpu/tiles.h"
#include "custom_ops/common/cpu/vectors.h"

namespace tfjac::TFJAC_ISA {
namespace {

constexpr int64_t kSmall = 32;  // columns of J, up to which they are laid out one by one
constexpr int64_t kRows = 64;   // rows of J at a time

// Add the products of few columns, laid out as long vectors, to the lower triangle and to the gradient.
template <typename T>
void AddFewColumns(int64_t m, int64_t p, const T* jacobian, const T* residual, T* gram, T* gradient) {
  T columns[kSmall * kRows];
  for (int64_t begin = 0; begin < m; begin += kRows) {
    const int64_t rows = Smaller(kRows, m - begin);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < p; ++i) columns[i * kRows + row] = jacobian[(begin + row) * p + i];
    }
    for (int64_t i = 0; i < p; ++i) {
      const T* const column = columns + i * kRows;
      for (int64_t j = 0; j <= i; ++j) gram[i * p + j] += Dot(column, columns + j * kRows, rows);
      gradient[i] += Dot(column, residual + begin, rows);
    }
  }
}

template <typename T>
void AddManyColumns(int64_t m, int64_t p, const T* jacobian, const T* residual, T* gram, T* gradient) {
  AddTransposedSquare(p, m, jacobian, p, gram, p);
  for (int64_t row = 0; row < m; ++row) Axpy(residual[row], jacobian + row * p, gradient, p);
}

}  // namespace

template <typename T>
void ExampleGrams(const Runtime& runtime, const ExampleBlocks<T>& blocks, T* gram, T* gradient) {
  const int64_t n = blocks.n, m = blocks.m, p = blocks.p;
  const double cost = static_cast<double>(m * p * (p + 3) + p * p);
  const int64_t examples = 1 + static_cast<int64_t>(kWorthAThread / 4 / (cost + 1));  // of a task
  const int64_t tasks = (n + examples - 1) / examples;
  ForEach(runtime, Workers(runtime, tasks, cost * examples), tasks, [&](int64_t task, int64_t) {
    for (int64_t k = task * examples; k < Smaller(n, (task + 1) * examples); ++k) {
      T *const square = gram + k * p * p, *const vector = gradient + k * p;
      std::memset(square, 0, p * p * sizeof(T));
      std::memset(vector, 0, p * sizeof(T));
      const auto add = p <= kSmall ? AddFewColumns<T> : AddManyColumns<T>;
      add(m, p, blocks.jacobian + k * m * p, blocks.residual + k * m, square, vector);
      Mirror(Area{0, p, 0, p}, p, square);
    }
  });
}

#define INSTANTIATE(T) template void ExampleGrams(const Runtime&, const ExampleBlocks<T>&, T*, T*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tfjac::TFJAC_ISA
