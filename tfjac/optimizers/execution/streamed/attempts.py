"""One attempt at a time: a step is proposed from normal equations, and judged when both costs are known, later."""

from typing import NamedTuple

import tensorflow as tf

from tfjac.optimizers.damping import Proposal
from tfjac.optimizers.damping.scaling import scaled_norm
from tfjac.optimizers.loop.attempt import judge, next_trial, proposing, report_of
from tfjac.optimizers.loop.records import Attempt, State
from tfjac.optimizers.loop.step import point_at


class Start(NamedTuple):
    """Where a step starts.

    Attributes:
        equations: `Equations` there.
        values: list of the variables' values.
        position: `[p]`, the same flattened.
        cost: F there.
    """

    equations: tuple
    values: list
    position: tf.Tensor
    cost: tf.Tensor

    def system_and_point(self, state, method):
        """Return the `System` and the `Point`."""
        system, prior = self.equations.system(self.position.dtype)
        return system, point_at(self.values, self.position, self.cost, system, prior, True, state, method)


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


def propose(start, state, method, rejected, promised):
    """Solve for a step.

    Args:
        start: `Start`.
        state: `State`; method: `Method`.
        rejected, promised: as in `AwaitedStep`.

    Returns:
        `AwaitedStep`, its `State`, whether there is a step to take, and the `Report` if there is none.
    """
    system, point = start.system_and_point(state, method)
    damping = method.damping.resume(state.damping, point.curvature, point.length)
    solve = proposing(system.solver(point.scaling), point.scaling)
    proposal = method.damping.propose(damping, solve, point.curvature)
    solved = tf.cast(proposal.solved, start.cost.dtype)
    none = tf.zeros_like(start.cost)
    report = report_of(
        Attempt.none_yet(start.cost, state.damping), point, start.cost, start.position, system.gradient, 0, none
    )
    pending = AwaitedStep(proposal.step, proposal.damping, solved, rejected, promised)
    return pending, State(damping, point.scaling), point.usable, report


def judged(start, pending, state, method, cost, reduction):
    """Judge a step, F being known where it leads to.

    Args:
        start: `Start`, where it starts.
        pending: `AwaitedStep`.
        state: the `State` that it was proposed with; method: `Method`.
        cost: F where it leads to.
        reduction: by how much that is less than where it starts.

    Returns:
        The `State` after it, its `Report`, and what the model promised for the first attempt from there.
    """
    system, point = start.system_and_point(state, method)
    length = scaled_norm(pending.step, point.scaling)
    proposal = Proposal(pending.step, pending.solved > 0, pending.damping, length)
    slope = tf.tensordot(system.gradient, pending.step, 1)
    predicted = -(slope + system.quadratic(pending.step) / 2)
    verdict = judge(reduction, predicted, slope, proposal.solved, method.min_gain)
    before = Attempt.none_yet(start.cost, state.damping)
    before = before._replace(attempts=tf.cast(pending.rejected, tf.int32), promised=pending.promised)
    after = tf.where(verdict.accepted, cost, start.cost)
    trial = next_trial(before, proposal, verdict, verdict.ratio, predicted, after, point, method.damping)
    report = report_of(trial, point, start.cost, start.position, system.gradient, 0, tf.zeros_like(cost))
    return State(trial.state, point.scaling), report._replace(attempts=tf.constant(1)), trial.promised
