"""How far a minimisation has come, and what follows a step: it goes on from where that led, or takes the step back."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.linear import arrays
from tfjac.steps.conditions import Conditions
from tfjac.steps.converge import (
    Stretch,
    Tolerances,
    first_cost_by,
    outcome_after,
    status_after,
)
from tfjac.steps.nonmonotone import Window
from tfjac.steps.records import Outcome, Report, State
from tfjac.steps.statuses import Status
from tfjac.steps.step import Step
from tfjac.types import Tensor


class Invariants(NamedTuple):
    """What stays the same in all steps of one minimisation.

    Attributes:
        drawn: list of tensors, what `residuals.draw` returned.
        unit: scalar, what residuals are measured in, so that their squares are within the range of the dtype; so is
            what an `Outcome` says of the cost and the gradient.
        number: scalar int64, how many residuals there are.
        conditions: `Conditions`.
    """

    drawn: list
    unit: tf.Tensor
    number: tf.Tensor
    conditions: Conditions


class Allowance(NamedTuple):
    """How far steps may go; scalars.

    Attributes:
        until: int32, how many steps there may be for now.
        max_steps: int32, after how many steps to stop for good.
        finish: bool, whether to linearise once more at the end, for the gradient there, if there is one.
    """

    until: tf.Tensor
    max_steps: tf.Tensor
    finish: tf.Tensor

    @classmethod
    def whole(cls, max_steps: Tensor) -> "Allowance":
        """Return that of a minimisation from its start to its end."""
        return cls(max_steps, max_steps, arrays.constant(True, max_steps, tf.bool))


class Back(NamedTuple):
    """Where to go back to if the last step led to where J is not finite, although the cost is.

    Attributes:
        known: scalar bool, whether there was such a step.
        cost: scalar, F there.
        values: list of tensors, what the variables held there.
        state: the `State` to go on with, more damped.
        window: the `Window` there, or an empty tuple.
    """

    known: tf.Tensor
    cost: tf.Tensor
    values: list
    state: State
    window: Window | tuple[()]


class Progress(NamedTuple):
    """How far a minimisation has come: from here, it goes on as if it had never stopped.

    Attributes:
        outcome: an `Outcome` without `x`.
        state: a `State`.
        first_cost: scalar, see `first_cost_by`.
        stretch: a `Stretch`.
        stands: scalar bool, whether the last step was kept that started where a tolerance is met: see `standing_of`.
        moved: scalar bool, whether the gradient in `outcome` is that of another point than that where it would end now.
        window: a `Window`; an empty tuple where the cost never rises.
        back: a `Back`.
        shares: `[p]`, `shares_of` where it was linearised last.
    """

    outcome: Outcome
    state: State
    first_cost: tf.Tensor
    stretch: Stretch
    stands: tf.Tensor
    moved: tf.Tensor
    window: Window | tuple[()]
    back: Back
    shares: tf.Tensor

    @property
    def running(self) -> Tensor:
        """Whether there is no reason to stop yet."""
        return arrays.equal(self.outcome.status, int(Status.RUNNING))

    @classmethod
    def begun(cls, status: Tensor, values: list, state: State, window: Window | tuple[()]) -> "Progress":
        """Return the progress before the first step.

        Args:
            status: scalar int32, RUNNING, or why there is nothing to do.
            values: list of tensors, what the variables hold.
            state: the first `State`.
            window: the first `Window`, or an empty tuple.
        """
        zero, none = arrays.constant(0, state.scaling), arrays.zeros_like(status)
        outcome = Outcome((), zero, zero, status, none, none, none, zero)
        no, moved = arrays.constant(False, zero, tf.bool), arrays.equal(status, int(Status.RUNNING))
        back, shares = Back(no, zero, values, state, window), arrays.zeros_like(state.scaling)
        return cls(outcome, state, zero + np.nan, Stretch.begun(zero), no, moved, window, back, shares)


class Tried(NamedTuple):
    """A step, and where it led.

    Attributes:
        step: the `Step`.
        values: list of tensors, what the variables held before.
        position: `[p]`, where they are now; None where there is no window.
    """

    step: Step
    values: list
    position: tf.Tensor | None


def gone_on(progress: Progress, tried: Tried, limits: Tolerances, max_steps: Tensor) -> Progress:
    """Return the `Progress` after a step that is not taken back."""
    step, running, window = tried.step, progress.running, progress.window
    report, moved, first_cost = step.report, step.report.accepted, first_cost_by(progress.first_cost, step.report)
    status, stepped = status_after(report, step.standing, limits), report.attempts > 0
    stands = moved & arrays.not_equal(step.standing, int(Status.RUNNING))
    if window:
        left = running & window.is_left(report) & (stands | arrays.not_equal(status, int(Status.RUNNING)))
        status, stands = arrays.where(left, int(Status.RUNNING), status), stands & ~left
    ended = arrays.equal(status, int(Status.RUNNING)) & ~stepped & (progress.outcome.steps >= max_steps)
    status = arrays.where(ended, int(Status.MAX_STEPS), status)
    outcome = outcome_after(progress.outcome, running, report, status, stepped)
    stretch = progress.stretch.after(report, limits, arrays.cast(stepped, tf.int32))
    back = Back(moved, report.cost_before, tried.values, step.refused, window)
    if window:
        window = window.after(report, tried.position, left)
        moved |= running & (window.lowest < report.cost)  # at its best point, it differs by rounding at most
    return Progress(outcome, step.state, first_cost, stretch, stands, moved, window, back, step.shares)


def taken_back(progress: Progress, report: Report) -> tuple[Progress, Report]:
    """Return the `Progress` where the last step is taken back, as if it had been rejected, and the `Report`."""
    back = progress.back
    report = report._replace(
        cost=back.cost,
        reduction=back.cost - report.cost,
        ratio=arrays.full_like(report.ratio, -np.inf),
        damping=progress.outcome.damping,
        gradient_norm=progress.outcome.gradient_norm,
        status=arrays.full_like(report.status, int(Status.REJECTED)),
    )
    running = arrays.full_like(report.status, int(Status.RUNNING))
    outcome = outcome_after(progress.outcome, progress.running, report, running, arrays.ones_like(back.known))
    no = arrays.zeros_like(back.known)
    after = progress._replace(outcome=outcome, state=back.state, stands=no, moved=no, window=back.window)
    after = after._replace(back=back._replace(known=no))
    return after, report
