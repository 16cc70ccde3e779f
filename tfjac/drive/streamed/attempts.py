"""Attempts whose cost is known later: a step is proposed from normal equations, and judged one pass over data on."""

from typing import NamedTuple

import tensorflow as tf

from tfjac.drive.streamed.sums import Equations
from tfjac.linear import arrays
from tfjac.linear.solvers.base import System
from tfjac.steps import attempt
from tfjac.steps.damping import Proposal
from tfjac.steps.damping.scaling import scaled_norm
from tfjac.steps.method import Method
from tfjac.steps.records import Attempt, Point, Report, State
from tfjac.types import Tensor


class Start(NamedTuple):
    """Where a step starts.

    Attributes:
        equations: `Equations` there.
        position: `[p]`, w there.
        cost: F there.
    """

    equations: Equations
    position: tf.Tensor
    cost: tf.Tensor

    def system_and_point(self, state: State, method: Method) -> tuple[System, Point]:
        system, prior = self.equations.system(self.position.dtype)
        given = self.position, self.cost, system.gradient, system.diagonal, state, method
        return system, attempt.point_at(*given, prior=prior)


class AwaitedStep(NamedTuple):
    """What is to be known of a step until it is judged; scalars, but for the step.

    Attributes:
        step: `[p]`.
        damping: λ it was solved with.
        solved: one where it could be solved for, else zero.
        rejected: how many attempts from the same point were rejected before.
        promised: what the model promised for the first of them.
    """

    step: tf.Tensor
    damping: tf.Tensor
    solved: tf.Tensor
    rejected: tf.Tensor
    promised: tf.Tensor


def propose(
    start: "Start", state: State, method: Method, rejected: Tensor, promised: Tensor
) -> "tuple[AwaitedStep, State, Tensor, Report]":
    """Solve for a step.

    The state keeps the D of before the point where the step starts, until a step is accepted: D is found from it again
    when the step is judged, and when the point is tried from again, and must be the same then.

    Args:
        start: `Start`.
        state: `State`; method: `Method`.
        rejected, promised: as in `AwaitedStep`.

    Returns:
        `AwaitedStep`, its `State`, whether there is a step to take, and the `Report` of what is proposed, if there is.
    """
    system, point = start.system_and_point(state, method)
    damping = method.damping.resume(state.damping, point.curvature, point.radius)
    solve = system.solver(point.metric)
    candidate = attempt.propose(solve, system.gradient, system.reduction, damping, point, method)
    proposal, none = candidate.proposal, Attempt.none_yet(start.cost, state.damping)
    seen = arrays.choice(point.usable, attempt.proposed(none, candidate, point), none)
    report = attempt.report_of(seen, point, start.cost)
    awaited = AwaitedStep(
        proposal.step, proposal.damping, tf.cast(proposal.solved, start.cost.dtype), rejected, promised
    )
    return awaited, State(damping, state.scaling), point.usable, report


def judged(
    start: "Start", awaited: "AwaitedStep", state: State, method: Method, cost: Tensor, reduction: Tensor
) -> tuple[State, Report, Tensor]:
    """Judge a step, F being known where it leads to.

    Args:
        start: `Start`, where it starts.
        awaited: `AwaitedStep`.
        state: the `State` that it was proposed with; method: `Method`.
        cost: F where it leads to.
        reduction: by how much that is less than where it starts.

    Returns:
        The `State` after it, its `Report`, and what the model promised for the first attempt from there.
    """
    system, point = start.system_and_point(state, method)
    length = scaled_norm(awaited.step, point.metric)
    slope = tf.reduce_sum(system.gradient * awaited.step)
    proposal = Proposal(awaited.step, awaited.solved > 0, awaited.damping, length, slope)
    promise = system.reduction(awaited.step)
    candidate = attempt.Candidate(proposal, awaited.step, promise, promise)
    before = Attempt.none_yet(start.cost, state.damping)
    before = before._replace(attempts=tf.cast(awaited.rejected, tf.int32), promised=awaited.promised)
    before = attempt.proposed(before, candidate, point)
    made = attempt.judged(before, candidate, system.gradient, point, (start.cost, cost, reduction), method)
    report = attempt.report_of(made, point, start.cost)
    scaling = tf.where(made.accepted, point.scaling, state.scaling)
    return State(made.state, scaling), report._replace(attempts=tf.constant(1)), made.promised
