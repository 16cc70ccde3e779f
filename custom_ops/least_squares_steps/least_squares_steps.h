// Steps of the Levenberg-Marquardt method for a small problem, all in one call: x moves until there is a reason to stop.
//
// The rules are those of the loop in tfjac/optimizers/loop, line by line: steps from a QR factorisation of J (Moré 1978),
// λ by TrustRegionDamping, D by MoreScaling, bounds by projection or truncation, the tests of converge.py, and the estimate
// of residual_curvature.py. That loop is the twin, and says why each rule is as it is. A loop of TensorFlow takes hundreds of ops a step, a quarter of a
// millisecond; these are some microseconds.
//
// All numbers are float64. Nothing is drawn at random, and there is one thread: same bits in every run.
#ifndef TFJAC_CUSTOM_OPS_LEAST_SQUARES_STEPS_H_
#define TFJAC_CUSTOM_OPS_LEAST_SQUARES_STEPS_H_

#include <cstdint>

#include "custom_ops/common/cpu/isa.h"

namespace tfjac {

// Those of tfjac.Status that steps can end with.
enum StepStatus : int32_t {
  kRunning = 0,
  kRejected = 1,
  kNotFinite = 2,
  kGradientTolerance = 3,
  kCostTolerance = 4,
  kStepTolerance = 5,
  kMaxSteps = 6,
  kStalled = 7,
};

struct StepRules {
  double cost_tolerance, step_tolerance, gradient_tolerance;  // zero switches one off
  double min_gain;                                            // a step is kept if its gain ratio exceeds this
  double factor;                                              // the first radius, as a multiple of ‖D^½ x‖
  double lowest, highest;                                     // bounds of λ as multiples of max diag(D⁻¹ JᵀJ)
  double max_attempts;                                        // of a step
};
constexpr int64_t kStepRules = sizeof(StepRules) / sizeof(double);

// What one call hands to the next, so that many short runs do as one long run does.
struct StepNumbers {
  double radius, damping;      // of the trust region; zeros before the first step
  double first_cost;           // at the start
  double cost, gradient_norm;  // where x is
  double last_damping;         // of the last step
};
constexpr int64_t kStepNumbers = sizeof(StepNumbers) / sizeof(double);

struct StepCounts {
  int32_t status, steps, evaluations, jacobians;
  int32_t moved;   // whether `gradient_norm` is that of another point
  int32_t better;  // whether the model with the curvature of residuals is the better one
};
constexpr int64_t kStepCounts = sizeof(StepCounts) / sizeof(int32_t);

// What is known of the curvature of residuals, row by row [p + 3, p]: the estimate, the last step, g where it started, and
// JᵀJ times it.
constexpr int64_t kCurvatureVectors = 3;

constexpr int64_t kRecorded = 7;  // cost, reduction, gain ratio, λ, gradient norm, attempts, accepted

// F, r [m] and J [m, p], row by row, at some x; m >= p.
struct Residuals {
  int64_t m;
  double cost;
  const double* residual;
  const double* jacobian;
};

// The function that is minimised. What it finds at a trial point is there until it looks at the next one, or is kept.
class ResidualFunction {
 public:
  virtual bool At(const double* x, Residuals* found) = 0;  // false where it failed
  virtual void Keep() = 0;                                 // the last result, in place of the one that was kept before

 protected:
  ~ResidualFunction() = default;
};

struct StepProblem {
  int64_t p;
  const double *lower, *upper;  // [p]; null where there are no bounds
  int64_t until, max_steps;     // after how many steps to return, and to stop for good
  bool finish;                  // whether to linearise once more where steps ended, for the gradient there
  int64_t record;               // of how many steps there is room in `rows`
  double* curvature;            // [p + 3, p]; null where the curvature of residuals is not estimated
};

TFJAC_PER_ISA(
    // x [p], scaling [p] (D; zeros before the first step), numbers, counts and curvature are updated. rows [record, kRecorded] has a row
    // for each step that was taken. False where the function failed: x is then as the last accepted step left it.
    bool LeastSquaresSteps(const StepProblem& problem, const StepRules& rules, ResidualFunction* function, double* x,
                           double* scaling, StepNumbers* numbers, StepCounts* counts, double* rows);)

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_LEAST_SQUARES_STEPS_H_
