"""One attempt of every fit: solve, predict, evaluate, judge, keep or restore, each by its own damping.

It is the step of `loop.step`, taken apart: there, a step linearises once and tries again until an attempt is kept;
here, all fits make one attempt at a time, each in the step that it has come to, and are linearised wherever they try.
What a fit does depends on no other. A fit that has just begun is linearised where it is, and ends there if that is
outside of its bounds: none ends before.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.drive.many_fits.fit_objective import Linearised
from tfjac.linear import arrays
from tfjac.ops import damped_solve
from tfjac.steps.attempt import (
    Candidate,
    is_decided,
    judged,
    largest,
    point_at,
    propose,
    proposed,
    report_of,
    within,
)
from tfjac.steps.beside import shares_of
from tfjac.steps.conditions import Box
from tfjac.steps.converge import (
    Stretch,
    Tolerances,
    first_cost_by,
    outcome_after,
    standing_of,
    status_after,
)
from tfjac.steps.method import Method
from tfjac.steps.records import Attempt, Outcome, Point, State
from tfjac.steps.statuses import Status
from tfjac.types import Function, Tensor


class Fits(NamedTuple):
    """Fits under way, tensors with a row for each.

    Attributes:
        index: `[n]`, int32: which of all fits it is.
        fresh: `[n]`, bool: whether it has not been linearised yet.
        values: `[n, p]`, its parameters.
        data: list of tensors, the data that are its own.
        box: a `Box`; an empty tuple where there are no bounds.
        unit: `[n]`, what its residuals are measured in.
        here: `Linearised` at `values`.
        state: a `State`.
        last: the last `Attempt` in the step that it is at.
        outcome: an `Outcome` without `x`, so far.
        first_cost: `[n]`, see `first_cost_by`.
        stretch: a `Stretch`, of each fit.
        stands: `[n]`, bool: whether its last step was kept that started where a tolerance is met.
    """

    index: tf.Tensor
    fresh: tf.Tensor
    values: tf.Tensor
    data: list
    box: Any
    unit: tf.Tensor
    here: Linearised
    state: State
    last: Attempt
    outcome: Outcome
    first_cost: tf.Tensor
    stretch: Stretch
    stands: tf.Tensor

    @property
    def running(self) -> Tensor:
        """Whether there is no reason to stop yet, `[n]`."""
        return tf.equal(self.outcome.status, int(Status.RUNNING))

    @classmethod
    def begun(
        cls,
        index: Tensor,
        values: Tensor,
        data: list[Tensor],
        box: Box | tuple[()],
        state_names: tuple[str, ...],
        exist: Tensor,
    ) -> "Fits":
        """Return fits that begin.

        Args:
            index, values, data, box: as above.
            state_names: names of the scalars of the damping's state.
            exist: `[n]`, bool: False for a place that no fit is left for.
        """
        here, none, count = Linearised.nowhere(values), tf.zeros_like(values[:, 0]), tf.zeros_like(index)
        status = tf.where(exist, int(Status.RUNNING), int(Status.NO_RESIDUALS))
        state = State(tuple(none for _ in state_names), tf.zeros_like(values))
        outcome = Outcome((), none, none, status, count, count, count, none)
        last = Attempt.none_yet(none, state.damping)
        return cls(
            index,
            tf.ones_like(exist),
            values,
            data,
            box,
            none + 1,
            here,
            state,
            last,
            outcome,
            none + np.nan,
            Stretch.begun(none),
            tf.zeros_like(exist),
        )

    @property
    def gradient_norm(self) -> Tensor:
        """Max |g| over the parameters that are free, `[n]`."""
        return largest(_free(self)[0].gradient)

    @property
    def shares(self) -> Tensor:
        """`shares_of` each, `[n, p]`."""
        here, columns = self.here, tf.linalg.diag_part(self.here.gram)
        free = self.box.free(self.values, here.gradient) if self.box else None
        return shares_of(columns, here.cost, here.gradient, free)


def attempt(fits: Fits, linearise: Function, method: Method, limits: Tolerances, max_steps: Tensor) -> Fits:
    """Return the fits after one more attempt of each that is running.

    Args:
        linearise: function from `values`, `data`, `unit` and `fresh` to a `Linearised` and the unit.
        max_steps: scalar int32.
    """
    here, free = _free(fits)
    point = point_at(fits.values, here.cost, here.gradient, tf.linalg.diag_part(here.gram), fits.state, method)
    damping = method.damping.resume(fits.state.damping, point.curvature, point.radius)
    end, candidate = _proposed(fits, here, point, damping, method)
    there, unit = linearise(arrays.choice(fits.fresh, fits.values, end), fits.data, fits.unit, fits.fresh)
    costs = here.cost, there.cost, _gain(here, there)
    going, begun = fits.running & ~fits.fresh, fits.last._replace(state=damping)

    first = tf.equal(begun.attempts, 0) & going & point.usable
    seen = proposed(begun, candidate, point)
    report = report_of(seen, point, here.cost)
    standing = standing_of(report, limits, fits.first_cost, fits.stretch.is_long)
    seen = seen._replace(standing=tf.where(first, standing, seen.standing))
    stands = tf.not_equal(seen.standing, int(Status.RUNNING))
    is_last = first & ((fits.stands & stands) | (fits.outcome.steps >= max_steps))
    tried = going & point.usable & ~is_last

    made = judged(seen, candidate, here.gradient, point, costs, method)
    last = arrays.choice(tried, made, seen)
    report, first_cost = report_of(last, point, here.cost), first_cost_by(fits.first_cost, report)
    status = status_after(report, last.standing, limits)
    status = tf.where(is_last & tf.equal(status, int(Status.RUNNING)), int(Status.MAX_STEPS), status)
    ended, stepped = going & (is_last | is_decided(last, point, method)), report.attempts > 0
    kept = tried & last.accepted
    scaling = point.scaling if free is None else tf.where(free, point.scaling, fits.state.scaling)
    scaling = arrays.choice(tried & ended, scaling, fits.state.scaling)  # D stays while a step is tried again
    state = State(arrays.choice(tried, last.state, fits.state.damping), scaling)
    now = arrays.choice(kept | fits.fresh, there, fits.here)
    outcome = arrays.choice(ended, outcome_after(fits.outcome, ended, report, status, stepped), fits.outcome)
    if fits.box:
        outside = fits.running & fits.fresh & ~fits.box.contains(fits.values)
        outcome = outcome._replace(status=tf.where(outside, int(Status.INFEASIBLE), outcome.status))
    return fits._replace(
        fresh=tf.zeros_like(fits.fresh),
        values=arrays.choice(kept, end, fits.values),
        unit=unit,
        here=now,
        state=state,
        last=arrays.choice(ended | fits.fresh, Attempt.none_yet(now.cost, state.damping), last),
        first_cost=tf.where(going, first_cost, fits.first_cost),
        stretch=arrays.choice(ended, fits.stretch.after(report, limits, tf.cast(stepped, tf.int32)), fits.stretch),
        outcome=outcome,
        stands=tf.where(ended, kept & stands, fits.stands),
    )


def _gain(here: Linearised, there: Linearised) -> Tensor:
    """Return by how much F is lower `there`; −∞ for a step to where F is finite, but its derivatives are not."""
    finite = tf.reduce_all(tf.math.is_finite(there.gram), axis=[-2, -1])
    finite &= tf.reduce_all(tf.math.is_finite(there.gradient), axis=-1)
    gain = here.cost - there.cost
    return tf.where(finite, gain, tf.fill(tf.shape(gain), tf.constant(float("-inf"), gain.dtype)))


def _free(fits: Fits) -> tuple[Linearised, Tensor | None]:
    """Return the `Linearised` without the parameters that bounds hold, and which are free, `[n, p]`; None for all."""
    if not fits.box:
        return fits.here, None
    free = fits.box.free(fits.values, fits.here.gradient)
    mask = tf.cast(free, fits.values.dtype)
    gram = fits.here.gram * mask[:, None] * mask[:, :, None]
    return fits.here._replace(gram=gram, gradient=fits.here.gradient * mask), free


def _proposed(fits: Fits, here: Linearised, point: Point, damping: Any, method: Method) -> tuple[Tensor, Candidate]:
    """Return where the steps of fits lead, within the bounds, and the `Candidate` of each."""

    def solve(damping: Any) -> tuple[Tensor, Tensor]:
        return damped_solve(here.gram, -here.gradient, point.metric, damping)

    candidate = propose(solve, here.gradient, here.reduction, damping, point, method)
    if not fits.box:
        return fits.values + candidate.step, candidate
    return within(fits.box, fits.values, candidate, here.reduction)
