// The curvature of residuals, S = Σ rᵢ ∇²rᵢ, estimated from the steps: residual_curvature.py has the formulas, and says why
// they are as they are. For files compiled per instruction set.
#ifndef TFJAC_CUSTOM_OPS_LEAST_SQUARES_STEPS_RESIDUAL_CURVATURE_H_
#define TFJAC_CUSTOM_OPS_LEAST_SQUARES_STEPS_RESIDUAL_CURVATURE_H_

#include <cmath>
#include <cstdint>

#include "Eigen/Core"
#include "custom_ops/common/cpu/isa.h"

namespace tfjac::TFJAC_ISA {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;
using Rows = Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
using ConstVector = Eigen::Map<const Vector>;

constexpr double kMargin = 2;
constexpr double kStays = 0.8;
constexpr double kParallel = 1e-6;

// NaN of either is the result, as in TensorFlow.
inline double Larger(double a, double b) { return a > b || a != a ? a : b; }
inline double Less(double a, double b) { return a < b || a != a ? a : b; }

// ‖D^½ v‖.
inline double Length(const Vector& vector, const Vector& metric) {
  return std::sqrt((metric.array() * vector.array().square()).sum());
}

// JᵀJ v.
inline Vector GramTimes(const Rows& jacobian, const Vector& vector) {
  const Vector along = jacobian * vector;
  return jacobian.transpose() * along;
}

// Replace b[p] by A⁻¹b, by Cholesky's factorisation of A[p, p]. False where A is not positive definite.
inline bool SolveDefinite(Matrix a, Vector* b) {
  const int64_t p = a.rows();
  for (int64_t k = 0; k < p; ++k) {
    const int64_t rest = p - k - 1;
    if (!(a(k, k) > 0)) return false;
    a(k, k) = std::sqrt(a(k, k));
    a.col(k).tail(rest) /= a(k, k);
    for (int64_t j = k + 1; j < p; ++j) a.col(j).tail(p - j) -= a(j, k) * a.col(k).tail(p - j);
    (*b)[k] /= a(k, k);
    b->tail(rest) -= (*b)[k] * a.col(k).tail(rest);
  }
  for (int64_t k = p - 1; k >= 0; --k) {
    const int64_t rest = p - k - 1;
    (*b)[k] = ((*b)[k] - a.col(k).tail(rest).dot(b->tail(rest))) / a(k, k);
  }
  return true;
}

// The estimate, and the last step until it is learnt from, in memory that is given.
class ResidualCurvature {
 public:
  ResidualCurvature(double* memory, int64_t p)
      : known_(memory, memory == nullptr ? 0 : p, memory == nullptr ? 0 : p),
        step_(memory + (memory == nullptr ? 0 : p * p), known_.rows()),
        gradient_(step_.data() + known_.rows(), known_.rows()),
        product_(gradient_.data() + known_.rows(), known_.rows()),
        matrix_(known_) {}

  const Matrix& matrix() const { return matrix_; }

  // Learn from the last step, which ended where J and g are these. False where that came to nothing finite.
  bool Learn(const Rows& jacobian, const Vector& gradient, const Vector& metric) {
    const Vector step = step_;
    if ((step.array() == 0).all()) return true;
    const Vector change = gradient - Vector(gradient_);
    const Vector curved = change - (Vector(product_) + GramTimes(jacobian, step)) / 2;
    const double known = step.dot(matrix_ * step), along = change.dot(step);
    const double size = known == 0 ? 1 : std::abs(step.dot(curved)) / std::abs(known);
    matrix_ *= Less(size, 1);
    const double least = kParallel * Length(step, metric) * Length(change, metric.cwiseInverse());
    const Vector weight = change * (Less(std::abs(along) / least, 1) / along);
    const Vector off = curved - matrix_ * step;
    const double twice = off.dot(step);
    matrix_ += off * weight.transpose() + weight * off.transpose() - twice * weight * weight.transpose();
    const bool sound = matrix_.allFinite();
    if (!sound) matrix_.setZero();
    known_ = matrix_;
    step_.setZero();
    return sound;
  }

  void Remember(const Vector& step, const Vector& gradient, const Vector& product) {
    step_ = step, gradient_ = gradient, product_ = product;
  }

 private:
  Eigen::Map<Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> known_;
  Eigen::Map<Vector> step_, gradient_, product_;
  Matrix matrix_;
};

}  // namespace tfjac::TFJAC_ISA

#endif  // TFJAC_CUSTOM_OPS_LEAST_SQUARES_STEPS_RESIDUAL_CURVATURE_H_
