"""One attempt: a step is proposed, what it gains is predicted, and it is judged when its cost is known.

`propose` comes before the cost is known, `judged` after. How the cost is found in between is for others: one problem
is evaluated at once, each of n fits next to the others, and a stream of batches a pass over the data later.

All of it is elementwise in what is a scalar for one problem: for n fits at once these are `[n]`, and vectors `[n, p]`.
"""

from typing import NamedTuple

import tensorflow as tf

from tfjac.optimizers.damping import Proposal, Verdict
from tfjac.optimizers.damping.scaling import scaled_norm
from tfjac.optimizers.loop.records import Attempt, Point, Report
from tfjac.optimizers.statuses import Status


class Candidate(NamedTuple):
    """A step that is to be tried.

    Attributes:
        proposal: the `Proposal` that the damping made.
        step: `[p]`, the step as it is taken: that of the proposal, or what bounds leave of it.
        promise: scalar, by how much the model says that the step of the proposal lowers the cost.
        predicted: scalar, the same for the step as it is taken.
    """

    proposal: Proposal
    step: tf.Tensor
    promise: tf.Tensor
    predicted: tf.Tensor


# ------------------------------------------------------------------ where attempts start


def point_at(position, cost, gradient, diagonal, state, method, *, prior=None, has_residuals=True):
    """Return the `Point` that the attempts of a step start from.

    Args:
        position: `[p]`, w.
        cost: scalar, F there.
        gradient, diagonal: `[p]`, g and diag(JᵀJ) there.
        state: a `State`; method: a `Method`.
        prior: the `Prior` there; None for none.
        has_residuals: whether there is anything but a prior, a Python bool.
    """
    columns = diagonal if prior is None else diagonal + prior.precision
    data = columns if prior is not None and prior.is_data else diagonal
    scaling = method.scaling.update(state.scaling, data)
    metric = method.damping.metric(state.damping, scaling)
    curvature = tf.reduce_max(data / metric, axis=-1)
    # A regulariser alone, of a batch without weight, would take all weights to its own minimum, in one step.
    counts = has_residuals or (prior is not None and prior.is_data)
    return Point(
        scaling=scaling,
        metric=metric,
        curvature=curvature,
        length=scaled_norm(position, metric),
        columns=columns,
        finite=_all_finite(cost, curvature, gradient, position),
        stationary=_all_zero(gradient) | (_all_zero(data) if counts else tf.zeros_like(cost, tf.bool)),
        highest=method.damping.bounds(curvature)[1],
    )


def _all_finite(cost, curvature, *vectors):
    known = [tf.reduce_all(tf.math.is_finite(vector), axis=-1) for vector in vectors]
    return tf.reduce_all([tf.math.is_finite(cost), tf.math.is_finite(curvature), *known], axis=0)


def _all_zero(vector):
    return tf.reduce_all(tf.equal(vector, 0), axis=-1)


# ------------------------------------------------------------------ before the cost is known


def propose(solve, gradient, reduction, damping_state, point, method):
    """Return the `Candidate` that the damping proposes, without bounds.

    Args:
        solve: function from λ to p and whether it could be solved, see `System.solver`.
        gradient: `[p]`, g where the step starts.
        reduction: function from a step to the reduction of the cost that the quadratic model predicts.
        damping_state: tuple, the damping's own.
        point: the `Point` where the step starts.
        method: a `Method`.
    """

    def proposal(damping):
        step, solved = solve(damping)
        length = scaled_norm(step, point.metric)
        slope = tf.reduce_sum(gradient * step, axis=-1)
        return Proposal(step, solved & tf.math.is_finite(length), damping, length, slope)

    chosen = method.damping.propose(damping_state, proposal, point.curvature)
    promise = reduction(chosen.step)
    return Candidate(chosen, chosen.step, promise, promise)


def within(box, position, candidate, reduction):
    """Return the place within bounds that a `Candidate` leads to, and the candidate with the step that does.

    Args:
        box: a `Box`.
        position: where the step starts.
        candidate, reduction: as of `propose`.
    """
    full, short = box.project(position + candidate.step), box.truncate(position, candidate.step)
    gains = reduction(full - position), reduction(short - position)
    end = tf.where((gains[0] >= gains[1])[..., None], full, short)
    return end, candidate._replace(step=end - position, predicted=tf.maximum(*gains))


# ------------------------------------------------------------------ once it is known


def looked_at(last, candidate, point):
    """Return the `Attempt` of a `Candidate` that is not tried; see `judged`."""
    return last._replace(
        predicted=candidate.promise,
        promised=candidate.promise,
        held=candidate.proposal.damping * tf.square(candidate.proposal.length),
        step_length=scaled_norm(candidate.proposal.step, point.columns),
        damping=candidate.proposal.damping,
        looked=tf.ones_like(last.looked),
    )


def judged(last, candidate, gradient, point, costs, method, leeway=None, may_return=False):
    """Return the `Attempt` that follows `last`, by what became of a candidate.

    Args:
        last: the `Attempt` before.
        candidate: a `Candidate`.
        gradient: `[p]`, g where it starts.
        point: the `Point` where it starts.
        costs: F there, F where the candidate leads to, and by how much that is less.
        method: a `Method`.
        leeway: a `Leeway`, or None where the cost must not rise.
        may_return: whether the step may be taken back later; so what `refused` is then.
    """
    (before, after, reduction), proposal = costs, candidate.proposal
    slope = tf.reduce_sum(gradient * candidate.step, axis=-1)
    alone = _verdict(before, reduction, candidate.predicted, slope, proposal.solved, method.min_gain)
    verdict = alone if leeway is None else _lenient(alone, candidate.predicted, leeway, method.min_gain)
    state = refused = method.damping.update(last.state, proposal, verdict, point.curvature)
    if may_return:
        refusal = _refusal(verdict)
        refused = method.damping.update(last.state, proposal, refusal, point.curvature)
    return Attempt(
        attempts=last.attempts + 1,
        accepted=verdict.accepted,
        cost=tf.where(verdict.accepted, after, before),
        reduction=verdict.reduction,
        predicted=candidate.promise,
        promised=tf.where(tf.equal(last.attempts, 0), candidate.promise, last.promised),
        ratio=alone.ratio,
        held=proposal.damping * tf.square(proposal.length),
        step_length=scaled_norm(proposal.step, point.columns),
        damping=proposal.damping,
        remeasured=~verdict.accepted & method.damping.remeasures(last.state, state),
        looked=last.looked,
        state=state,
        refused=refused,
    )


def _verdict(cost, reduction, predicted, slope, solved, min_gain):
    """Compare the actual with the predicted reduction; anything not finite is as bad as can be."""
    infinity = tf.constant(float("inf"), reduction.dtype)
    reduction = tf.where(tf.math.is_finite(reduction), reduction, -infinity)
    sound = solved & (predicted > 0) & tf.math.is_finite(predicted) & (reduction > -infinity)
    ratio = tf.where(sound, reduction / predicted, -infinity)
    return Verdict(accepted=ratio > min_gain, ratio=ratio, slope=slope, reduction=reduction, cost=cost)


def _refusal(verdict):
    """Return the verdict on a step to where nothing is finite."""
    worst = tf.fill(tf.shape(verdict.ratio), tf.constant(float("-inf"), verdict.ratio.dtype))
    return verdict._replace(accepted=tf.zeros_like(verdict.accepted), ratio=worst, reduction=worst)


def _lenient(verdict, predicted, leeway, min_gain):
    """Return the verdict by the reduction since an earlier point, where that is the more favourable."""
    since = (verdict.reduction + leeway.rise) / (predicted + leeway.promised)
    ratio = tf.where(tf.math.is_finite(verdict.ratio), tf.maximum(verdict.ratio, since), verdict.ratio)
    return verdict._replace(accepted=ratio > min_gain, ratio=ratio)


# ------------------------------------------------------------------ the end of a step


def is_decided(attempt, point, method):
    """Return whether a step is over after an `Attempt`: accepted, nowhere to go, or tried often enough."""
    hopeless = (attempt.attempts > 0) & (attempt.damping >= point.highest)
    ended = attempt.accepted | attempt.remeasured | attempt.looked | (attempt.attempts >= method.max_attempts)
    return ~point.usable | ended | hopeless


def report_of(last, point, cost, position, gradient, solver=0, effective=None, magnitude=None):
    """Return the `Report` of a step.

    Args:
        last: its last `Attempt`.
        point: the `Point` where it started.
        cost: F there.
        position: `[p]`, w there.
        gradient: `[p]`, g there.
        solver: integer, which solver it was.
        effective: the effective number of parameters; zero where left out.
        magnitude: `[p]`, how large w is there; by default `position`.
    """
    products = tf.sqrt(point.columns) * tf.sqrt(2 * tf.abs(cost))[..., None]
    return Report(
        cost=last.cost,
        reduction=last.reduction,
        predicted=last.predicted,
        promised=last.promised,
        ratio=last.ratio,
        held=last.held,
        damping=last.damping,
        gradient_norm=largest(gradient),
        cosine=largest(tf.math.divide_no_nan(gradient, products)),
        step_length=last.step_length,
        length=scaled_norm(position, point.columns),
        magnitude=scaled_norm(position if magnitude is None else magnitude, point.columns),
        attempts=last.attempts,
        status=_status(last, point),
        solver=tf.fill(tf.shape(last.attempts), solver),
        effective=tf.zeros_like(cost) if effective is None else effective,
    )


def _status(last, point):
    rejected = tf.where(last.damping >= point.highest, int(Status.STALLED), int(Status.REJECTED))
    rejected = tf.where(last.remeasured, int(Status.REMEASURED), rejected)
    status = tf.where(last.accepted, int(Status.RUNNING), rejected)
    status = tf.where(point.stationary, int(Status.GRADIENT_TOLERANCE), status)
    return tf.where(point.finite, status, int(Status.NOT_FINITE))


def largest(vector):
    """Return the largest element of a vector `[p]` by size."""
    return tf.reduce_max(tf.abs(vector), axis=-1)
