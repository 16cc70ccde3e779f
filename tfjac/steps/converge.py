"""When to stop: the three tests of MINPACK, scale-free, with the formulas written out."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.arguments import positive
from tfjac.linear import arrays
from tfjac.steps.records import Outcome, Report
from tfjac.steps.statuses import Status
from tfjac.types import Tensor

ROUNDINGS = 16
"""Rounding errors of the parameters that those of residuals may be as large as: sums of many terms have larger ones."""

AS_PROMISED = 0.25
"""A step whose ρ is this close to 1 did as it promised."""

FREE = 0.1
"""A step of whose promise damping makes no more than this part is nearly the one that the model would take."""

LONG = 20
"""So many steps without progress are convergence, although damping holds them back."""

LITTLE = 1e-6
"""Progress by less than this part of F is none, however small the tolerances are: each step is held to these alone."""

FALLEN = 16
"""A cost that was more than rounding at the start has fallen to a part of one in so many if it is rounding now."""


class Tolerances(NamedTuple):
    """The three tolerances; zero switches a test off. What an accepted step met, its end must meet: see `standing_of`.

    Attributes:
        cost: `ftol`: |F − F₊| ≤ ftol·F, predicted ≤ ftol·F, and ρ ≤ 2; where every attempt was rejected, if the first
            of them, the least damped, promised no more than ftol·F, or if F is zero but for rounding.
        step: `xtol`: ‖C^½ p‖ ≤ xtol·‖C^½ |w|‖ with C = diag(JᵀJ) and |w| how large points on manifolds are, for an
            accepted step that promised no more than xtol·F, or than xtol² times the first cost, a change of residuals
            by xtol of the first ones, or where F is zero but for rounding.
        gradient: `gtol`: max |gⱼ| / (‖Jⱼ‖·‖r‖) ≤ gtol, the cosine of the angle between r and a column of J, and no step
            that can be taken promises more than gtol·F.
    """

    cost: float
    step: float
    gradient: float


class Stretch(NamedTuple):
    """The last steps, in which F has not fallen by a tolerance; elementwise for many fits.

    Where residuals stay large, the model is wrong, and damping holds steps back for long. Each then gains little, and
    tens of them gain per cents. So progress is looked at over several steps.

    Attributes:
        cost: F where it began.
        steps: int32, how many steps it has.
    """

    cost: tf.Tensor
    steps: tf.Tensor

    @classmethod
    def begun(cls, cost: Tensor) -> "Stretch":
        """Return that before the first step, of scalars like `cost`."""
        return cls(arrays.zeros_like(cost), arrays.zeros_like(cost, tf.int32))

    @property
    def is_long(self) -> Tensor:
        """Whether F has not fallen by a tolerance for `LONG` steps."""
        return self.steps >= LONG

    def after(self, report: Report, limits: Tolerances, steps: Tensor | int = 1) -> "Stretch":
        """Return that after a `Report`; `steps`: how many steps there were since the one before."""
        cost = arrays.where(self.steps > 0, self.cost, report.cost_before)
        fallen = cost - report.cost > max(limits.cost, limits.step, LITTLE) * arrays.absolute(cost)
        return Stretch(arrays.where(fallen, report.cost, cost), arrays.where(fallen, 0, self.steps + steps))


def tolerances(ftol: float | None, xtol: float | None, gtol: float | None, dtype: tf.DType) -> Tolerances:
    """Check the tolerances and fill in √ε of the dtype, MINPACK's recommendation, for those that are None."""
    default = float(np.sqrt(np.finfo(dtype.as_numpy_dtype).eps))
    given = {"ftol": ftol, "xtol": xtol, "gtol": gtol}
    for name, value in given.items():
        if value is not None and value != 0:
            positive(name, value, below=1)
    return Tolerances(*(default if value is None else float(value) for value in given.values()))


def status_after(report: Report, limits: Tolerances, first_cost: Tensor, is_long: Tensor | bool = np.True_) -> Tensor:
    """Return the `Status` (int32) that a step gives rise to; RUNNING where there is no reason to stop.

    A short step is convergence only where it does not promise much either. A parameter of which the residuals are
    independent but for rounding, as the bias before a batch normalisation is, runs away, and next to it all steps look
    short; measured by the first residuals, too, as the last ones may be zero but for rounding. Lengths are measured by
    J as it is: by Moré's D, all steps would be short for ever after a start where a parameter had far more influence.
    And where the damping holds steps back that do as they promise, they will be longer soon: no sign of a minimum
    either. If they do not, they stay short, and may gain per cents together: so F must not have fallen by a tolerance
    for many steps.

    A rejected step can be convergence as well: near a minimum the reduction drowns in the rounding of the cost. But
    that a step made tiny by damping gains nothing is no sign of a minimum, so it is the first attempt that counts
    there. That one may be tiny as well, after steps that were rejected, or where κ leaves the range of the dtype. So no
    tolerance is met where a single parameter, without damping, would gain more by the model: cosine²·F. An undamped
    step promises no less than that, so that this takes nothing from it.

    Each column of J may be orthogonal to r, and a sum of them far from it: that of all poses turns a chain as a whole.
    So the gradient says nothing as long as the first attempt promises more than gtol·F, unless all attempts failed.

    Where F is zero but for rounding, so are all reductions of it, and neither of these says anything. There a step that
    is short or was rejected is convergence; see `_is_rounding`.

    Args:
        report: a `Report`.
        limits: `Tolerances`.
        first_cost: scalar, `first_cost_of` the first step.
        is_long: scalar bool, see `Stretch`.
    """
    small, alone = limits.cost * report.cost_before, arrays.square(report.cosine) * arrays.absolute(report.cost_before)
    settled = (report.held <= report.predicted / 2) | (arrays.absolute(report.ratio - 1) > AS_PROMISED)
    settled &= (report.held <= FREE * report.predicted) | is_long
    flat = settled & (arrays.absolute(report.reduction) <= small) & (report.predicted <= small) & (report.ratio <= 2)
    flat = arrays.where(
        report.accepted, flat, (report.promised <= small) & (report.promised >= 0) & (report.attempts > 0)
    )
    flat &= alone <= 2 * small
    short = report.accepted & settled & (report.step_length <= limits.step * report.magnitude)
    little = limits.step * arrays.maximum(arrays.absolute(report.cost_before), limits.step * first_cost)
    rounding = _is_rounding(report, first_cost)
    short &= ((report.predicted <= little) & (alone <= 2 * little)) | rounding
    stuck = arrays.equal(report.status, int(Status.REJECTED)) | arrays.equal(report.status, int(Status.STALLED))
    status = arrays.where(stuck, int(Status.STALLED), int(Status.RUNNING))
    if limits.cost > 0:
        flat |= stuck & rounding
    status = arrays.where(short, int(Status.STEP_TOLERANCE), status)
    status = arrays.where(flat, int(Status.COST_TOLERANCE), status)
    promising = (report.attempts > 0) & (report.promised > limits.gradient * report.cost_before)
    orthogonal = (report.cosine <= limits.gradient) & (stuck | ~promising)
    status = arrays.where(orthogonal, int(Status.GRADIENT_TOLERANCE), status)
    for untaken in (Status.NOT_FINITE, Status.ZERO_LEARNING_RATE):
        status = arrays.where(arrays.equal(report.status, int(untaken)), int(untaken), status)
    return status


def standing_of(report: Report, limits: Tolerances, first_cost: Tensor) -> Tensor:
    """Return the `Status` (int32) that a point has by itself: a tolerance that it meets, or RUNNING for none.

    What a step did says where it started from. Where residuals have a kink, or noise, the point that it led to may have
    another J, and be far from a minimum. So each tolerance that a step met must be met again from there, by the step
    that is promised next. Of a minimum that is smooth that one promises less than the one before.

    Args:
        report: the `Report` of a step that is proposed, and not tried.
        limits: `Tolerances`.
        first_cost: scalar, `first_cost_of` the first step.
    """
    cost, alone = (
        arrays.absolute(report.cost_before),
        arrays.square(report.cosine) * arrays.absolute(report.cost_before),
    )
    promised, rounding = arrays.absolute(report.promised), _is_rounding(report, first_cost)

    def gains_little(tolerance: float, whole: Tensor) -> Tensor:
        return (promised <= tolerance * whole) & (alone <= 2 * tolerance * cost)

    flat = (gains_little(limits.cost, cost) | rounding) & (limits.cost > 0)
    short = report.step_length <= limits.step * report.magnitude
    short &= gains_little(limits.step, arrays.maximum(cost, limits.step * first_cost)) | rounding
    orthogonal = (report.cosine <= limits.gradient) & (promised <= limits.gradient * cost)
    status = arrays.where(short, int(Status.STEP_TOLERANCE), int(Status.RUNNING))
    status = arrays.where(flat, int(Status.COST_TOLERANCE), status)
    return arrays.where(orthogonal, int(Status.GRADIENT_TOLERANCE), status)


def first_cost_of(report: Report) -> Tensor:
    """Return what to judge all steps by, for the `Report` of the first: F at the start, or zero if that is rounding."""
    return arrays.where(_is_within_rounding(report), arrays.zeros_like(report.cost_before), report.cost_before)


def _is_rounding(report: Report, first_cost: Tensor) -> Tensor:
    """Return whether F is zero but for rounding: F is within it, and at the start was too, or was 16 times as large.

    A parameter of which the residuals are independent but for rounding runs away: then it is the rounding that has
    grown up to F, which is as large as it was.
    """
    cost, first = arrays.absolute(report.cost_before), arrays.absolute(first_cost)
    return _is_within_rounding(report) & (arrays.equal(first, 0) | (FALLEN * cost <= arrays.cast(first, cost.dtype)))


def _is_within_rounding(report: Report) -> Tensor:
    """Return whether ‖r‖ ≤ 16·ε·‖C^½ |w|‖, C = diag(JᵀJ), |w| how large w is.

    ε‖C^½ |w|‖ is by how much r changes where each parameter changes by its own rounding, and about as large as rounding
    within r.
    """
    rounding = ROUNDINGS * arrays.finfo(report.cost).eps * report.magnitude
    return arrays.sqrt(2 * arrays.absolute(report.cost_before)) <= rounding


def outcome_after(
    outcome: Outcome,
    running: Tensor,
    report: Report,
    status: Tensor,
    max_steps: Tensor,
    stepped: Tensor | bool = np.True_,
    doubtful: Tensor | bool = np.False_,
) -> Outcome:
    """Return the outcome after a step, or after a mere linearisation where it is not `running` any more.

    Args:
        outcome: the `Outcome` before.
        running: scalar bool, whether there was no reason to stop before.
        report: a `Report`.
        status: the `Status` that follows from it.
        max_steps: scalar int32.
        stepped: scalar bool, whether a step was tried, where it was running.
        doubtful: scalar bool, whether it is still to be seen if the point that the step led to is a minimum.
    """
    steps = outcome.steps + arrays.cast(running & stepped, tf.int32)
    ended = arrays.equal(status, int(Status.RUNNING)) & (steps >= max_steps) & ~doubtful
    status = arrays.where(ended, int(Status.MAX_STEPS), status)
    return Outcome(
        x=(),
        cost=report.cost,
        gradient_norm=report.gradient_norm,
        status=arrays.where(running, status, outcome.status),
        steps=steps,
        evaluations=outcome.evaluations + report.attempts,
        jacobians=outcome.jacobians + 1,
        damping=arrays.where(running, report.damping, outcome.damping),
    )
