// A = QR by Householder's reflections, for a tall matrix with few columns: one column at a time, as blocks pay for many alone.
// Eigen's own does both, and takes longer to compile than all of what calls it. For files compiled per instruction set.
//
// Golub and Van Loan, Matrix Computations, algorithms 5.1.1 and 5.2.1.
#ifndef TFJAC_CUSTOM_OPS_COMMON_CPU_REFLECTIONS_H_
#define TFJAC_CUSTOM_OPS_COMMON_CPU_REFLECTIONS_H_

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "Eigen/Core"

namespace tfjac::TFJAC_ISA {

class Reflections {
 public:
  using Matrix = Eigen::MatrixXd;
  using Vector = Eigen::VectorXd;

  // Factorise A[m, p], m >= p.
  void Factor(const Matrix& a) {
    packed_ = a;
    weights_.resize(a.cols());
    for (int64_t k = 0; k < a.cols(); ++k) {
      weights_[k] = Reflect(k);
      for (int64_t j = k + 1; j < a.cols(); ++j) Apply(k, packed_.col(j));
    }
  }

  // Replace v[m] by Qᵀ v.
  void ApplyTransposed(Vector* v) const {
    for (int64_t k = 0; k < weights_.size(); ++k) Apply(k, v->col(0));
  }

  // R[p, p], with zeros below the diagonal.
  Matrix Triangle() const {
    Matrix triangle = Matrix::Zero(weights_.size(), weights_.size());
    for (int64_t k = 0; k < weights_.size(); ++k) triangle.col(k).head(k + 1) = packed_.col(k).head(k + 1);
    return triangle;
  }

  // x[p] of R x = the first p numbers of v.
  Vector SolveTriangle(const Vector& v) const {
    Vector x = v.head(weights_.size());
    for (int64_t k = x.size() - 1; k >= 0; --k) {
      x[k] /= packed_(k, k);
      x.head(k) -= x[k] * packed_.col(k).head(k);
    }
    return x;
  }

 private:
  // Replace column k from its diagonal on by R[k, k] and the reflection v = [1, rest] behind it; its weight 2 / vᵀv.
  double Reflect(int64_t k) {
    auto rest = packed_.col(k).tail(packed_.rows() - k - 1);
    const double first = packed_(k, k), square = rest.squaredNorm();
    if (square <= DBL_MIN) {
      rest.setZero();
      return 0;
    }
    const double norm = std::sqrt(first * first + square), pivot = first >= 0 ? -norm : norm;
    rest /= first - pivot;
    packed_(k, k) = pivot;
    return (pivot - first) / pivot;
  }

  // Reflect a vector, from its element k on.
  template <typename Column>
  void Apply(int64_t k, Column&& vector) const {
    const int64_t count = packed_.rows() - k - 1;
    const auto rest = packed_.col(k).tail(count);
    const double scale = weights_[k] * (vector[k] + rest.dot(vector.tail(count)));
    vector[k] -= scale;
    vector.tail(count) -= scale * rest;
  }

  Matrix packed_;   // R on and above the diagonal, reflections below it
  Vector weights_;  // of the reflections
};

}  // namespace tfjac::TFJAC_ISA

#endif  // TFJAC_CUSTOM_OPS_COMMON_CPU_REFLECTIONS_H_
