"""What a step is given, what it hands on, and what it reports: records of tensors, without behaviour."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.linear import arrays
from tfjac.steps.statuses import Status
from tfjac.types import Tensor


class State(NamedTuple):
    """What one step hands to the next; zeros before the first step.

    Attributes:
        damping: the damping's scalars.
        scaling: `[p]`, D.
        secant: a `Secant`, or an empty tuple where the curvature of residuals is not estimated.
    """

    damping: tuple
    scaling: tf.Tensor
    secant: Any = ()


class Leeway(NamedTuple):
    """By how much a step may raise the cost; scalars.

    Attributes:
        rise: how far the cost is below an earlier one, that of reference.
        promised: what the models promised since then.
    """

    rise: tf.Tensor
    promised: tf.Tensor


class Report(NamedTuple):
    """What happened in a step; scalars, of the variables' dtype where not said otherwise.

    Attributes:
        cost: F at the variables as the step left them.
        reduction: by how much F was lowered; for a rejected step, what its last attempt would have gained (may be −∞).
        predicted: the reduction that the linear model promised for the last attempt.
        promised: the same for the first attempt, the least damped one.
        ratio: ρ of the last attempt.
        held: λ‖D^½ p‖² of the last attempt, the part of what it promised that is due to damping; the rest is ½‖Jp‖².
        damping: λ of the last attempt.
        gradient_norm: max |g|, before the step.
        cosine: the largest |cosine| of the angle between r and a column of J, before the step: max |gⱼ| / (‖Jⱼ‖ √2|F|).
            Its square is what one parameter alone could lower F by, to first order, as a part of |F|: so it is for
            other convex losses, too, although their F is no ½‖r‖², and may be negative.
        step_length: ‖diag(JᵀJ + Λ)^½ p‖ of the last attempt: by how much it moves the residuals, column by column.
        length: ‖diag(JᵀJ + Λ)^½ w‖ before the step; tangents of manifolds are zero in w.
        magnitude: the same, with how large the points are in place of tangents: ε times it is what rounding of the
            variables makes of r.
        attempts: int32, how many times a step was solved for and evaluated.
        status: int32, a `Status`: RUNNING (accepted), REJECTED, STALLED, NOT_FINITE, or GRADIENT_TOLERANCE where the
            gradient is exactly zero, or no residual has weight, so that there is no step to take.
        solver: int32, which of `solver.names` solved for it.
        effective: γ = tr(JᵀJ (JᵀJ + Λ)⁻¹) before the step, the effective number of parameters: of an accepted step with
            Bayesian regularisation, else zero.
    """

    cost: tf.Tensor
    reduction: tf.Tensor
    predicted: tf.Tensor
    promised: tf.Tensor
    ratio: tf.Tensor
    held: tf.Tensor
    damping: tf.Tensor
    gradient_norm: tf.Tensor
    cosine: tf.Tensor
    step_length: tf.Tensor
    length: tf.Tensor
    magnitude: tf.Tensor
    attempts: tf.Tensor
    status: tf.Tensor
    solver: tf.Tensor
    effective: tf.Tensor

    @property
    def accepted(self) -> Tensor:
        """Scalar bool: whether the variables moved."""
        return arrays.equal(self.status, int(Status.RUNNING))

    @property
    def cost_before(self) -> Tensor:
        """F before the step."""
        return arrays.where(self.accepted, self.cost + self.reduction, self.cost)


class Outcome(NamedTuple):
    """What `least_squares` returns inside a `tf.function`: the fields of `LeastSquaresResult`, as tensors.

    It can be returned from the function as it is; `Status(int(outcome.status))` has the name and the message then.
    With `batch_dims=1` all but x are vectors, an element for each fit.

    Attributes:
        x: the values found, in the nest of the variables; the variables hold them too.
        cost: scalar, F = ½‖r‖² there.
        gradient_norm: scalar, max |∂F/∂x| there.
        status: int32, a `Status`: why it stopped.
        steps: int32, number of steps, accepted or not.
        evaluations: int32, number of evaluations of the residuals at trial points.
        jacobians: int32, number of linearisations.
        damping: scalar, λ of the last step.
    """

    x: Any
    cost: tf.Tensor
    gradient_norm: tf.Tensor
    status: tf.Tensor
    steps: tf.Tensor
    evaluations: tf.Tensor
    jacobians: tf.Tensor
    damping: tf.Tensor

    def in_units(self, unit: Tensor) -> "Outcome":
        """Return what it is of residuals that were measured in a unit; of a cost that is out of range, NOT_FINITE."""
        with arrays.quiet():
            square = arrays.square(unit)
            cost, gradient_norm = self.cost * square, self.gradient_norm * square
        lost = arrays.is_finite(self.cost) & ~arrays.is_finite(cost) & ~self.success
        status = arrays.where(lost, int(Status.NOT_FINITE), self.status)
        return self._replace(cost=cost, gradient_norm=gradient_norm, status=status)

    @property
    def success(self) -> Tensor:
        """Bool like `status`: whether a tolerance was met."""
        return has_converged(self.status)


def has_converged(status: Tensor) -> Tensor:
    """Return whether a tolerance was met, a bool tensor like `status`."""
    if isinstance(status, np.generic):
        return np.bool_(int(status) in _CONVERGED)
    return tf.reduce_any([tf.equal(status, each) for each in _CONVERGED], axis=0)


_CONVERGED = [int(each) for each in Status if each.converged]


class Point(NamedTuple):
    """Where a step starts.

    Attributes:
        scaling: `[p]`, D of the scaling.
        metric: `[p]`, D that steps are measured with: that, or I.
        curvature: scalar, κ = max diag(D⁻¹ JᵀJ).
        radius: scalar, ‖D^½ w‖.
        columns: `[p]`, diag(JᵀJ + Λ).
        gradient_norm, cosine, length, magnitude: what a `Report` says of it.
        finite: scalar bool, whether the cost, the gradient and the curvature are finite.
        stationary: scalar bool, whether the gradient is exactly zero, or all of J.
        highest: scalar, the largest λ allowed.
    """

    scaling: tf.Tensor
    metric: tf.Tensor
    curvature: tf.Tensor
    radius: tf.Tensor
    columns: tf.Tensor
    gradient_norm: tf.Tensor
    cosine: tf.Tensor
    length: tf.Tensor
    magnitude: tf.Tensor
    finite: tf.Tensor
    stationary: tf.Tensor
    highest: tf.Tensor

    @property
    def usable(self) -> Tensor:
        """Whether there is a step to take from here."""
        return self.finite & ~self.stationary


class Attempt(NamedTuple):
    """One attempt within a step, and what the damping learned from it; scalars.

    Attributes:
        attempts, cost, reduction, predicted, promised, ratio, held, step_length, damping: what the `Report` of the step
            says of it, if it is the last one.
        accepted: bool.
        remeasured: bool, whether it was rejected, and the damping goes on with another D, from the next step.
        standing: int32, the `Status` of the point where the step starts: see `standing_of`.
        state: tuple, the damping's state after it.
        refused: the same where the attempt was kept, and is taken back later.
    """

    attempts: tf.Tensor
    accepted: tf.Tensor
    cost: tf.Tensor
    reduction: tf.Tensor
    predicted: tf.Tensor
    promised: tf.Tensor
    ratio: tf.Tensor
    held: tf.Tensor
    step_length: tf.Tensor
    damping: tf.Tensor
    remeasured: tf.Tensor
    standing: tf.Tensor
    state: tuple
    refused: tuple

    @classmethod
    def none_yet(cls, cost: Tensor, state: tuple) -> "Attempt":
        """Return what stands before the first attempt."""
        none = arrays.zeros_like(cost)
        nothing, no, zero = (none,) * 7, arrays.cast(none, tf.bool), arrays.cast(none, tf.int32)
        return cls._make([zero, no, cost, *nothing, no, zero, state, state])

    def reported(self) -> dict[str, Tensor]:
        """Return what the `Report` of a step says of its last attempt, by name."""
        return {name: value for name, value in self._asdict().items() if name in Report._fields}


def row_of(report: Report) -> list[float]:
    """Return what is recorded of a `Report`, in the order of the fields of `results.history.History`."""
    known = report.cost, report.reduction, report.ratio, report.damping, report.gradient_norm
    return [*map(float, known), float(report.attempts), float(report.accepted)]
