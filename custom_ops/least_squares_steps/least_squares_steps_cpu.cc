#include "custom_ops/least_squares_steps/least_squares_steps.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "Eigen/Core"
#include "custom_ops/common/cpu/reflections.h"
#include "custom_ops/least_squares_steps/residual_curvature.h"

namespace tfjac::TFJAC_ISA {
namespace {


constexpr double kInfinity = HUGE_VAL;
// The twin says what these are: TrustRegionDamping, RegionChange and converge.py. A test holds both equal.
constexpr double kTolerance = 0.1;
constexpr int64_t kMaxSolves = 12;
constexpr double kFirstGuess = 1e-3;
constexpr double kGood = 0.75;
constexpr double kPoor = 0.25;
constexpr double kReach = 10;
constexpr double kLeastShrink = 0.1;
constexpr double kMostShrink = 0.5;
constexpr double kAsPromised = 0.25;
constexpr double kRoundings = 16;
constexpr double kRoundingsOfSquares = 128;

double Clip(double value, double low, double high) { return Less(Larger(value, low), high); }

// J = QR at one point, and what steps from there need of it.
class Linearisation {
 public:
  // Columns of parameters that a bound holds are left out: see bounds.py.
  void At(const StepProblem& problem, const Residuals& found, const Vector& x) {
    const Rows given(found.jacobian, found.m, problem.p);
    const ConstVector residual(found.residual, found.m);
    jacobian_ = given;
    gradient.noalias() = jacobian_.transpose() * residual;
    whole_gradient = gradient;
    free.setConstant(problem.p, true);
    if (problem.lower != nullptr) {
      for (int64_t k = 0; k < problem.p; ++k) {
        const bool held_below = x[k] <= problem.lower[k] && gradient[k] >= 0;
        const bool held_above = x[k] >= problem.upper[k] && gradient[k] <= 0;
        free[k] = !(held_below || held_above || problem.lower[k] >= problem.upper[k]);
        if (free[k]) continue;
        jacobian_.col(k).setZero();
        gradient[k] = 0;
      }
    }
    diagonal = jacobian_.colwise().squaredNorm();
    UseNone();
    factored_.Factor(jacobian_);
    target_ = -residual;
    factored_.ApplyTransposed(&target_);
    triangle_ = factored_.Triangle();
  }

  // From here on, JᵀJ has S added to it.
  void Use(const Matrix& curvature) {
    curvature_ = &curvature;
    matrix_.noalias() = triangle_.transpose() * triangle_;
    for (int64_t k = 0; k < free.size(); ++k) {
      for (int64_t j = 0; j < free.size(); ++j) matrix_(j, k) += free[j] && free[k] ? curvature(j, k) : 0;
    }
  }

  // From here on, it has not.
  void UseNone() { curvature_ = nullptr; }

  bool uses_curvature() const { return curvature_ != nullptr; }

  // The step p of (JᵀJ + S + λD) p = −g, zeros where there is none.
  bool Solve(double damping, const Vector& metric, Vector* step) {
    if (curvature_ == nullptr) return SolveByRows(damping, metric, step);
    const double least = kRoundingsOfSquares * DBL_EPSILON * (diagonal.array() / metric.array()).maxCoeff();
    *step = -gradient;
    Matrix damped = matrix_;
    damped.diagonal() += Larger(damping, least) * metric;
    return Finished(damped.allFinite() && SolveDefinite(damped, step), step);
  }

  // The same without S, from [R; (λD)^½].
  bool SolveByRows(double damping, const Vector& metric, Vector* step) {
    const int64_t p = diagonal.size();
    stacked_.resize(2 * p, p);
    stacked_.topRows(p) = triangle_;
    stacked_.bottomRows(p) = (damping * metric).cwiseSqrt().asDiagonal();
    damped_.Factor(stacked_);
    right_.resize(2 * p);
    right_.head(p) = target_.head(p);
    right_.tail(p).setZero();
    damped_.ApplyTransposed(&right_);
    *step = damped_.SolveTriangle(right_);
    return Finished(true, step);  // not finite where a pivot is zero
  }

  // By how much the quadratic model says that a step lowers the cost.
  double Reduction(const Vector& step) const {
    const double plain = ReductionWithout(step);
    return curvature_ == nullptr ? plain : plain - CurvatureAlong(*curvature_, step) / 2;
  }
  double ReductionWithout(const Vector& step) const {
    return -(gradient.dot(step) + (triangle_ * step).squaredNorm() / 2);
  }

  // sᵀSs of what is free.
  double CurvatureAlong(const Matrix& curvature, const Vector& step) const {
    const Vector moved = free.select(step, 0.0);
    return moved.dot(curvature * moved);
  }

  Vector gradient, diagonal, whole_gradient;
  Eigen::Array<bool, Eigen::Dynamic, 1> free;

 private:
  // A step with zeros for what is held, or zeros where it is not solved for.
  bool Finished(bool solved, Vector* step) const {
    if (!solved || !step->array().isFinite().all()) {
      step->setZero();
      return false;
    }
    *step = free.select(*step, 0.0);
    return true;
  }

  const Matrix* curvature_ = nullptr;  // S where it is in use
  Matrix jacobian_, triangle_, stacked_, matrix_;
  Vector target_, right_;
  Reflections factored_, damped_;
};

struct Proposal {
  Vector step;
  bool solved;
  double damping, length;
};

// λ is within these.
struct Limits {
  double low, high;
};

constexpr double kNoRadius = DBL_MAX / 16;  // stands for none

// TrustRegionDamping: the Gauss-Newton step where it fits the radius, else the step that fills it.
class TrustRegion {
 public:
  TrustRegion(Linearisation* model, const Vector& metric, double radius, Limits limits)
      : model_(model), metric_(metric), radius_(radius), limits_(limits) {}

  Proposal Propose(double guess) const {
    Proposal trial = Solve(limits_.low);
    if (radius_ >= kNoRadius) return First(trial, Solve(Clip(guess, limits_.low, limits_.high)));
    if (trial.solved && trial.length <= (1 + kTolerance) * radius_) return trial;
    double lower = limits_.low, upper = limits_.high, last_damping = 0, last_length = 0;
    trial = Solve(Clip(guess, limits_.low, limits_.high));
    for (int64_t count = 1; count < kMaxSolves && lower < upper && IsOutside(trial); ++count) {
      const bool is_long = !trial.solved || trial.length > radius_;
      (is_long ? lower : upper) = trial.damping;
      const double next = Next(lower, upper, last_damping, last_length, trial);
      last_damping = trial.damping, last_length = trial.length;
      trial = Solve(next);
    }
    return trial;
  }

 private:
  Proposal Solve(double damping) const {
    Proposal found{Vector(), false, damping, 0};
    const bool solved = model_->Solve(damping, metric_, &found.step);
    found.length = Length(found.step, metric_);
    found.solved = solved && std::isfinite(found.length);
    return found;
  }

  // The Gauss-Newton step, unless it is far longer than a damped one.
  static Proposal First(const Proposal& newton, const Proposal& damped) {
    return newton.solved && newton.length <= kReach * damped.length ? newton : damped;
  }

  bool IsOutside(const Proposal& trial) const {
    return !trial.solved || std::abs(trial.length - radius_) > kTolerance * radius_;
  }

  // A secant step on 1/length through the last two λ; the geometric mean of the bracket where that leaves it.
  double Next(double lower, double upper, double last_damping, double last_length, const Proposal& trial) const {
    const double inverse = 1 / trial.length, last_inverse = last_length == 0 ? 0 : 1 / last_length;
    const double slope = (inverse - last_inverse) / (trial.damping - last_damping);
    const double guess = trial.damping + (1 / radius_ - inverse) / slope;
    return std::isfinite(guess) && guess > lower && guess < upper ? guess : std::sqrt(lower) * std::sqrt(upper);
  }

  Linearisation* const model_;
  const Vector& metric_;
  const double radius_;
  const Limits limits_;
};

// Where a proposal leads, by which step, and what the model says of that.
struct Trial {
  Vector end, step;
  double predicted;
};

// Within bounds: every element clipped, or the whole step shortened, whichever the model favours.
Trial WithinBounds(const StepProblem& problem, const Linearisation& model, const Vector& x, const Vector& step) {
  const ConstVector lower(problem.lower, problem.p), upper(problem.upper, problem.p);
  const auto project = [&](const Vector& place) -> Vector { return place.cwiseMax(lower).cwiseMin(upper); };
  Vector room(problem.p), bound(problem.p);
  for (int64_t k = 0; k < problem.p; ++k) {
    bound[k] = step[k] > 0 ? upper[k] : lower[k];
    room[k] = step[k] == 0 ? kInfinity : (bound[k] - x[k]) / step[k];
  }
  const double first = Less(room.minCoeff(), 1);
  const Vector full = project(x + step);
  const Vector shortened = project((room.array() <= first).select(bound, x + first * step));
  const double gain = model.Reduction(full - x), other = model.Reduction(shortened - x);
  const Vector& end = gain >= other ? full : shortened;
  return {end, end - x, Larger(gain, other)};
}

// Whether J, row by row, and what follows from it are finite.
bool AllFinite(const Residuals& found, int64_t p) {
  return std::isfinite(found.cost) && Rows(found.jacobian, found.m, p).allFinite();
}

// What happened in a step. One that was only `looked` at was proposed, and not tried.
struct Report {
  int32_t status = kRejected, attempts = 0;
  bool accepted = false, looked = false;
  double cost_before = 0, cost = 0, reduction = 0, predicted = 0, promised = 0, ratio = 0, held = 0, step_length = 0;
  double damping = 0, gradient_norm = 0, cosine = 0, length = 0;
};

class Minimisation {
 public:
  Minimisation(const StepProblem& problem, const StepRules& rules, ResidualFunction* function, double* x,
               double* scaling, StepNumbers* numbers, StepCounts* counts)
      : problem_(problem), rules_(rules), function_(function), x_(x, problem.p), scaling_(scaling, problem.p),
        numbers_(*numbers), counts_(*counts), curvature_(problem.curvature, problem.p) {}

  bool Run(double* rows) {
    const int64_t first = counts_.steps;
    if (IsOver()) return true;
    if (!function_->At(x_.data(), &here_)) return false;
    function_->Keep();
    while (!IsOver()) {
      const bool running = counts_.status == kRunning;
      Report report;
      if (!Step(running, &report)) return false;
      const int64_t row = counts_.steps - first;
      Advance(running, report);
      if (counts_.steps > first + row && row < problem_.record) Write(report, rows + row * kRecorded);
    }
    return true;
  }

 private:
  bool IsOver() const {
    if (counts_.status == kRunning) return counts_.steps >= problem_.until && !doubtful_;
    return !(counts_.moved != 0 && problem_.finish);
  }

  // Take a step, or where there is a reason to stop a mere linearisation. False where the function failed.
  bool Step(bool running, Report* report) {
    const Vector x = x_;
    model_.At(problem_, here_, x);
    const Vector grown = Vector(scaling_).cwiseMax(model_.diagonal);
    const Vector metric = (grown.array() > 0).select(grown, 1.0);
    const double curvature = (model_.diagonal.array() / metric.array()).maxCoeff(), length = Length(x, metric);
    const double relative = curvature > 0 ? curvature : 1;
    const Limits limits{Larger(rules_.lowest * relative, DBL_MIN), Less(rules_.highest * relative, DBL_MAX)};
    const bool finite = std::isfinite(here_.cost) && std::isfinite(curvature) &&
                        model_.gradient.array().isFinite().all() && x.array().isFinite().all();
    const bool stationary = (model_.gradient.array() == 0).all() || (model_.diagonal.array() == 0).all();
    const double before = here_.cost;
    report->cost = before;
    double radius = numbers_.radius, guess = numbers_.damping;
    if (radius == 0 && guess == 0) {
      radius = length > 0 ? rules_.factor * length : kNoRadius;
      guess = Clip(kFirstGuess * curvature, limits.low, limits.high);
    }
    report->gradient_norm = model_.gradient.cwiseAbs().maxCoeff();
    report->length = Length(x, model_.diagonal);
    for (int64_t k = 0; k < problem_.p; ++k) {
      const double product = std::sqrt(model_.diagonal[k]) * std::sqrt(2 * std::abs(before));
      const double cosine = product == 0 ? 0 : std::abs(model_.gradient[k] / product);
      report->cosine = Larger(report->cosine, cosine);
    }
    const bool usable = finite && !stationary;
    if (usable) counts_.better = UseCurvature(metric, limits.low);
    while (usable && running && !report->accepted && !report->looked && report->attempts < rules_.max_attempts &&
           !(report->attempts > 0 && report->damping >= limits.high)) {
      if (!Attempt(x, metric, limits, report, &radius, &guess)) return false;
    }
    report->status = report->accepted ? kRunning : report->damping >= limits.high ? kStalled : kRejected;
    if (stationary) report->status = kGradientTolerance;
    if (!finite) report->status = kNotFinite;
    report->accepted = report->status == kRunning;
    report->cost_before = report->accepted ? report->cost + report->reduction : report->cost;
    if (usable) {
      if (problem_.curvature != nullptr) LearnFrom(x, *report);
      numbers_.radius = radius, numbers_.damping = guess;
      for (int64_t k = 0; k < problem_.p; ++k) scaling_[k] = model_.free[k] ? metric[k] : scaling_[k];
    }
    return true;
  }

  // Whether S is in use, once it knows of the last step: where it predicts better, and residuals stay large.
  bool UseCurvature(const Vector& metric, double lowest) {
    if (problem_.curvature == nullptr) return false;
    const bool sound = curvature_.Learn(Rows(here_.jacobian, here_.m, problem_.p), model_.whole_gradient, metric);
    if (!sound || counts_.better == 0) return false;
    Vector newton;
    const bool solved = model_.Solve(lowest, metric, &newton);
    if (!solved || !(model_.Reduction(newton) <= (1 - kStays) * here_.cost)) return false;
    model_.Use(curvature_.matrix());
    return true;
  }

  // Remember a step from x, if it was kept, and which model predicted it better.
  void LearnFrom(const Vector& x, const Report& report) {
    if (!report.accepted) return;
    const Vector step = x_ - x;
    const double missed = report.reduction - model_.ReductionWithout(step);
    const double plain = std::abs(missed);
    const double curved = std::abs(missed + model_.CurvatureAlong(curvature_.matrix(), step) / 2);
    counts_.better = model_.uses_curvature() ? kMargin * plain >= curved : kMargin * curved < plain;
    curvature_.Remember(step, model_.whole_gradient, product_);
  }

  // Propose, predict, evaluate, judge; x moves where the step is kept.
  bool Attempt(const Vector& x, const Vector& metric, Limits limits, Report* report, double* radius, double* guess) {
    const Proposal proposal = TrustRegion(&model_, metric, *radius, limits).Propose(*guess);
    const double promise = model_.Reduction(proposal.step);
    report->predicted = promise;
    if (report->attempts == 0) report->promised = promise;
    report->held = proposal.damping * proposal.length * proposal.length;
    report->step_length = Length(proposal.step, model_.diagonal);
    report->damping = proposal.damping;
    if (report->attempts == 0 && doubtful_) {
      report->looked = !MayStep() || StandingOf(*report, here_.cost) != kRunning;
      if (report->looked) return true;
    }
    const Trial trial = problem_.lower == nullptr ? Trial{x + proposal.step, proposal.step, promise}
                                                  : WithinBounds(problem_, model_, x, proposal.step);
    Residuals there;
    if (!function_->At(trial.end.data(), &there)) return false;
    // A step to where J is not finite is rejected; the twin finds that out in the next step, and takes it back.
    const double slope = model_.gradient.dot(trial.step), difference = here_.cost - there.cost;
    const double reduction = std::isfinite(difference) && AllFinite(there, problem_.p) ? difference : -kInfinity;
    const bool sound =
        proposal.solved && trial.predicted > 0 && std::isfinite(trial.predicted) && reduction > -kInfinity;
    report->ratio = sound ? reduction / trial.predicted : -kInfinity;
    report->accepted = report->ratio > rules_.min_gain;
    report->cost = report->accepted ? there.cost : here_.cost;
    report->reduction = reduction;
    ++report->attempts;

    const bool good = report->ratio >= kGood || proposal.damping <= limits.low, poor = report->ratio <= kPoor;
    const double shrink =
        reduction >= 0 ? kMostShrink : Larger(kMostShrink * slope / (slope + reduction), kLeastShrink);
    const double length = proposal.solved ? proposal.length : *radius;
    const double last = Less(*radius, kReach * length);
    const double next = poor ? shrink * last : good ? 2 * length : last;
    *radius = Clip(next, DBL_MIN, DBL_MAX);
    *guess = Clip(proposal.damping * (poor ? 1 / shrink : good ? kMostShrink : 1), limits.low, limits.high);
    if (report->accepted) {
      x_ = trial.end;
      if (problem_.curvature != nullptr) product_ = GramTimes(Rows(here_.jacobian, here_.m, problem_.p), x_ - x);
      function_->Keep();
      here_ = there;
    } else {
      model_.UseNone();
    }
    return true;
  }

  // status_after of converge.py.
  int32_t StatusAfter(const Report& report, double first_cost) const {
    const double before = report.cost_before, small = rules_.cost_tolerance * before;
    const double alone = report.cosine * report.cosine * std::abs(before);
    const bool settled = report.held <= report.predicted / 2 || std::abs(report.ratio - 1) > kAsPromised;
    bool flat = settled && std::abs(report.reduction) <= small && report.predicted <= small && report.ratio <= 2;
    if (!report.accepted) flat = report.promised <= small && report.promised >= 0 && report.attempts > 0;
    flat = flat && alone <= 2 * small;
    const double little = rules_.step_tolerance * std::max(std::abs(before), rules_.step_tolerance * first_cost);
    const bool rounding = std::sqrt(2 * std::abs(before)) <= kRoundings * DBL_EPSILON * report.length;
    const bool promises_little = (report.predicted <= little && alone <= 2 * little) || rounding;
    const bool is_short =
        report.accepted && settled && promises_little && report.step_length <= rules_.step_tolerance * report.length;
    const bool stuck = report.status == kRejected || report.status == kStalled;
    if (rules_.cost_tolerance > 0) flat = flat || (stuck && rounding);
    if (report.status == kNotFinite) return kNotFinite;
    const bool promising = report.attempts > 0 && report.promised > rules_.gradient_tolerance * before;
    if (report.cosine <= rules_.gradient_tolerance && (stuck || !promising)) return kGradientTolerance;
    if (flat) return kCostTolerance;
    if (is_short) return kStepTolerance;
    return stuck ? kStalled : kRunning;
  }

  // standing_of of converge.py.
  int32_t StandingOf(const Report& report, double cost) const {
    const double alone = report.cosine * report.cosine * std::abs(cost), promised = std::abs(report.promised);
    const bool rounding = std::sqrt(2 * std::abs(cost)) <= kRoundings * DBL_EPSILON * report.length;
    const auto gains_little = [&](double tolerance, double whole) {
      return promised <= tolerance * whole && alone <= 2 * tolerance * std::abs(cost);
    };
    const double orthogonal = rules_.gradient_tolerance;
    if (report.cosine <= orthogonal && promised <= orthogonal * std::abs(cost)) return kGradientTolerance;
    if (rules_.cost_tolerance > 0 && (gains_little(rules_.cost_tolerance, std::abs(cost)) || rounding))
      return kCostTolerance;
    const bool is_short = report.step_length <= rules_.step_tolerance * report.length;
    const double whole = std::max(std::abs(cost), rules_.step_tolerance * numbers_.first_cost);
    return is_short && (gains_little(rules_.step_tolerance, whole) || rounding) ? kStepTolerance : kRunning;
  }

  bool MayStep() const { return counts_.steps < std::min(problem_.until, problem_.max_steps); }

  void Advance(bool running, const Report& report) {
    if (counts_.steps == 0) numbers_.first_cost = report.cost_before;
    counts_.moved = report.accepted;
    counts_.evaluations += report.attempts;
    ++counts_.jacobians;
    numbers_.cost = report.cost;
    numbers_.gradient_norm = report.gradient_norm;
    if (!running) return;
    int32_t status = report.looked ? StandingOf(report, report.cost) : StatusAfter(report, numbers_.first_cost);
    if (!report.looked && !(doubtful_ && report.attempts == 0)) ++counts_.steps;
    doubtful_ = report.accepted && HasConverged(status);
    if (doubtful_) status = kRunning;
    const bool used_up = status == kRunning && !doubtful_ && counts_.steps >= problem_.max_steps;
    counts_.status = used_up ? int32_t{kMaxSteps} : status;
    numbers_.last_damping = report.damping;
  }

  static bool HasConverged(int32_t status) {
    return status == kGradientTolerance || status == kCostTolerance || status == kStepTolerance;
  }

  static void Write(const Report& report, double* row) {
    const double values[kRecorded] = {report.cost,
                                      report.reduction,
                                      report.ratio,
                                      report.damping,
                                      report.gradient_norm,
                                      static_cast<double>(report.attempts),
                                      static_cast<double>(report.accepted)};
    for (int64_t k = 0; k < kRecorded; ++k) row[k] = values[k];
  }

  const StepProblem& problem_;
  const StepRules& rules_;
  ResidualFunction* const function_;
  Eigen::Map<Vector> x_, scaling_;
  StepNumbers& numbers_;
  StepCounts& counts_;
  ResidualCurvature curvature_;
  Residuals here_;
  Linearisation model_;
  Vector product_;         // JᵀJ times the last step that was kept
  bool doubtful_ = false;  // whether the last step met a tolerance, and it is to be seen if its end does
};

}  // namespace

bool LeastSquaresSteps(const StepProblem& problem, const StepRules& rules, ResidualFunction* function, double* x,
                       double* scaling, StepNumbers* numbers, StepCounts* counts, double* rows) {
  return Minimisation(problem, rules, function, x, scaling, numbers, counts).Run(rows);
}

}  // namespace tfjac::TFJAC_ISA
