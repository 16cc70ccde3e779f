"""What becomes of a proposed step: the gain ratio, the verdict, and what is told of it.

All of it is elementwise in what is a scalar for one problem: for n fits at once these are `[n]`, and vectors `[n, p]`.
"""

import tensorflow as tf

from tfjac.optimizers.damping import Proposal, Verdict
from tfjac.optimizers.damping.scaling import scaled_norm
from tfjac.optimizers.loop.records import Attempt, Report
from tfjac.optimizers.statuses import Status


def proposing(solve, scaling):
    """Return `propose(λ) -> Proposal` for one linearisation and one D, to be called any number of times."""

    def proposal(damping):
        step, solved = solve(damping)
        length = scaled_norm(step, scaling)
        return Proposal(step, solved & tf.math.is_finite(length), damping, length)

    return proposal


def judge(reduction, predicted, slope, solved, min_gain):
    """Compare the actual with the predicted reduction; anything not finite is as bad as can be."""
    infinity = tf.constant(float("inf"), reduction.dtype)
    reduction = tf.where(tf.math.is_finite(reduction), reduction, -infinity)
    sound = solved & (predicted > 0) & tf.math.is_finite(predicted) & (reduction > -infinity)
    ratio = tf.where(sound, reduction / predicted, -infinity)
    return Verdict(accepted=ratio > min_gain, ratio=ratio, slope=slope, reduction=reduction)


def lenient(verdict, predicted, leeway, min_gain):
    """Return the verdict by the reduction since an earlier point, where that is the more favourable."""
    since = (verdict.reduction + leeway.rise) / (predicted + leeway.promised)
    ratio = tf.where(tf.math.is_finite(verdict.ratio), tf.maximum(verdict.ratio, since), verdict.ratio)
    return verdict._replace(accepted=ratio > min_gain, ratio=ratio)


def next_trial(trial, proposal, verdict, ratio, promise, cost, point, damping):
    """Return the `Attempt` that follows `trial`, by the verdict on one more proposal.

    Args:
        trial: the `Attempt` before.
        proposal: a `Proposal`.
        verdict: its `Verdict`.
        ratio: ρ of the step alone.
        promise: what the model predicts for the step as it was proposed.
        cost: F where the variables are now.
        point: the `Point` where the step starts.
        damping: a `Damping`.
    """
    return Attempt(
        attempts=trial.attempts + 1,
        accepted=verdict.accepted,
        cost=cost,
        reduction=verdict.reduction,
        predicted=promise,
        promised=tf.where(tf.equal(trial.attempts, 0), promise, trial.promised),
        ratio=ratio,
        held=proposal.damping * tf.square(proposal.length),
        step_length=scaled_norm(proposal.step, point.columns),
        damping=proposal.damping,
        state=damping.update(trial.state, proposal, verdict, point.curvature),
    )


def report_of(last, point, cost, position, gradient, solver, effective):
    """Return the `Report` of a step.

    Args:
        last: the `Attempt` of its last attempt.
        point: the `Point` where it started.
        cost: F there.
        position: `[p]`, w there.
        gradient: `[p]`, g there.
        solver: integer, which solver it was.
        effective: the effective number of parameters.
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
        attempts=last.attempts,
        status=_status(last, point),
        solver=tf.fill(tf.shape(last.attempts), solver),
        effective=effective,
    )


def _status(last, point):
    rejected = tf.where(last.damping >= point.highest, int(Status.STALLED), int(Status.REJECTED))
    status = tf.where(last.accepted, int(Status.RUNNING), rejected)
    status = tf.where(point.stationary, int(Status.GRADIENT_TOLERANCE), status)
    return tf.where(point.finite, status, int(Status.NOT_FINITE))


def all_finite(cost, curvature, *vectors):
    """Return whether two scalars and vectors `[p]` are finite."""
    known = [tf.reduce_all(tf.math.is_finite(vector), axis=-1) for vector in vectors]
    return tf.reduce_all([tf.math.is_finite(cost), tf.math.is_finite(curvature), *known], axis=0)


def all_zero(vector):
    """Return whether a vector `[p]` is zero."""
    return tf.reduce_all(tf.equal(vector, 0), axis=-1)


def largest(vector):
    """Return the largest element of a vector `[p]` by size."""
    return tf.reduce_max(tf.abs(vector), axis=-1)
