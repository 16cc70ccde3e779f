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

FREE = 0.1
"""A step of whose promise damping makes no more than this part is nearly the one that the model would take."""

LONG = 20
"""So many steps without progress are convergence, although damping holds them back."""

LITTLE = 1e-6
"""Progress by less than this part of F is none, however small the tolerances are: each step is held to these alone."""

FALLEN = 16
"""A cost that was more than rounding at the start has fallen to a part of one in so many if it is rounding now."""


class Tolerances(NamedTuple):
    """The three tolerances of a point, by the step that is proposed there; zero switches a test off: see `standing_of`.

    Attributes:
        cost: `ftol`: it promises no more than ftol·F, or F is zero but for rounding.
        step: `xtol`: ‖C^½ p‖ ≤ xtol·‖C^½ |w|‖ with C = diag(JᵀJ) and |w| how large points on manifolds are, and it
            promises no more than xtol·F, or than xtol² times the first cost, a change of residuals by xtol of the first
            ones, or F is zero but for rounding.
        gradient: `gtol`: max |gⱼ| / (‖Jⱼ‖·‖r‖) ≤ gtol, the cosine of the angle between r and a column of J, and it
            promises no more than gtol·F.
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


def standing_of(
    report: Report,
    limits: Tolerances,
    first_cost: Tensor,
    is_long: Tensor | bool = np.False_,
) -> Tensor:
    """Return the `Status` (int32) of the point where a step starts: a tolerance that it meets, or RUNNING for none.

    It follows from what the first attempt promises, the least damped one, before it is tried. Where damping holds that
    one back, it promises little anywhere: so it must be nearly undamped, or F must not have fallen by a tolerance for
    many steps. No tolerance is met either where a single parameter, without damping,
    would gain more by the model: cosine²·F. An undamped step promises no less than that, so that this takes nothing
    from it.

    A short step is convergence only where it does not promise much. A parameter of which the residuals are independent
    but for rounding, as the bias before a batch normalisation is, runs away, and next to it all steps look short;
    measured by the first residuals, too, as the last ones may be zero but for rounding. Lengths are measured by J as it
    is: by Moré's D, all steps would be short for ever after a start where a parameter had far more influence.

    Each column of J may be orthogonal to r, and a sum of them far from it: that of all poses turns a chain as a whole.
    So the gradient says nothing as long as the first attempt promises more than gtol·F.

    Where F is zero but for rounding, so are all reductions of it, and neither of these says anything; see
    `_is_rounding`.

    Where residuals have a kink, or noise, the next point may have another J, and be far from a minimum. So a step is
    tried from a point that meets a tolerance, and where it is kept the next point must meet one, too.

    Args:
        report: the `Report` of a step that is proposed; of one that was taken, it says where that started.
        first_cost: scalar, see `first_cost_by`.
        is_long: scalar bool, see `Stretch`.
    """
    cost = arrays.absolute(report.cost_before)
    alone, promised = arrays.square(report.cosine), arrays.absolute(report.promised)
    first_cost = first_cost_by(first_cost, report)
    settled, rounding = is_long | (report.held <= FREE * report.predicted), _is_rounding(report, first_cost)

    def gains_little(tolerance: float, whole: Tensor) -> Tensor:
        return settled & (promised <= tolerance * whole) & (alone <= 2 * tolerance)

    flat = (gains_little(limits.cost, cost) | rounding) & (limits.cost > 0)
    short = report.step_length <= limits.step * report.magnitude
    short &= gains_little(limits.step, arrays.maximum(cost, limits.step * first_cost)) | rounding
    orthogonal = (report.cosine <= limits.gradient) & (promised <= limits.gradient * cost)
    status = arrays.where(short, int(Status.STEP_TOLERANCE), int(Status.RUNNING))
    status = arrays.where(flat, int(Status.COST_TOLERANCE), status)
    return arrays.where(orthogonal, int(Status.GRADIENT_TOLERANCE), status)


def status_after(report: Report, standing: Tensor, limits: Tolerances) -> Tensor:
    """Return the `Status` (int32) that a step gives rise to; RUNNING where there is no reason to stop.

    Where all attempts failed, a promise is judged as it is, however damped, and a gradient whatever was promised.

    Args:
        standing: the `standing_of` the point where it started.
    """
    stuck = arrays.equal(report.status, int(Status.REJECTED)) | arrays.equal(report.status, int(Status.STALLED))
    stuck &= report.attempts > 0
    meets = arrays.not_equal(standing, int(Status.RUNNING))

    def at_last() -> Tensor:
        little = report.promised <= limits.cost * arrays.absolute(report.cost_before)
        little &= arrays.square(report.cosine) <= 2 * limits.cost
        last = arrays.where(little, int(Status.COST_TOLERANCE), int(Status.STALLED))
        return arrays.where(report.cosine <= limits.gradient, int(Status.GRADIENT_TOLERANCE), last)

    status = arrays.choice_of(stuck & ~meets, at_last, lambda: arrays.zeros_like(standing))
    status = arrays.where(meets & ~report.accepted, standing, status)
    for untaken in (Status.NOT_FINITE, Status.GRADIENT_TOLERANCE, Status.ZERO_LEARNING_RATE):
        status = arrays.where(arrays.equal(report.status, int(untaken)), int(untaken), status)
    return status


def first_cost_by(known: Tensor, report: Report) -> Tensor:
    """Return what to judge all steps by: F at the start, or zero if that is rounding.

    Args:
        known: scalar, what it was before; NaN before the first step.
        report: the `Report` of a step.
    """

    def first() -> Tensor:
        return arrays.where(_is_within_rounding(report), arrays.zeros_like(report.cost_before), report.cost_before)

    return arrays.choice_of(arrays.is_finite(known), lambda: known, first)


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


def outcome_after(outcome: Outcome, running: Tensor, report: Report, status: Tensor, stepped: Tensor) -> Outcome:
    """Return the outcome after a step, or after a mere linearisation where it is not `running` any more.

    Args:
        outcome: the `Outcome` before.
        running: scalar bool, whether there was no reason to stop before.
        status: the `Status` that follows from it.
        stepped: scalar bool, whether a step was tried.
    """
    return Outcome(
        x=(),
        cost=report.cost,
        gradient_norm=report.gradient_norm,
        status=arrays.where(running, status, outcome.status),
        steps=outcome.steps + arrays.cast(running & stepped, tf.int32),
        evaluations=outcome.evaluations + report.attempts,
        jacobians=outcome.jacobians + 1,
        damping=arrays.where(running & stepped, report.damping, outcome.damping),
    )
