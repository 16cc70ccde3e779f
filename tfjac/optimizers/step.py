"""One Levenberg–Marquardt step: linearise, solve, predict, evaluate, judge, keep or restore.

F = ½‖r‖² + ½ (w−w₀)ᵀΛ(w−w₀), g = ∇F, step p:

    (JᵀJ + λD + Λ) p = −g
    predicted = −(gᵀp + ½ pᵀ(JᵀJ + Λ)p)
    ρ = (F(w) − F(w + p)) / predicted

ρ above ``min_gain`` keeps w + p; otherwise w is put back, bit for bit, the damping grows, and the same JᵀJ is solved
again. What is not finite, or could not be solved, counts as ρ = −∞.
Reference: K. Madsen, H. B. Nielsen, O. Tingleff, "Methods for non-linear least squares problems", 2nd ed., 2004, ch. 3.
"""

from typing import NamedTuple

import tensorflow as tf

from .damping import Damping, Proposal, Verdict
from .scaling import Scaling
from .solvers import Solver
from .statuses import Status


class Method(NamedTuple):
    """The parts that a step is made of, and its two numbers."""

    damping: Damping
    scaling: Scaling
    solver: Solver
    max_attempts: int
    min_gain: float


class State(NamedTuple):
    """What one step hands to the next: the damping's scalars, and D ``[p]`` (zeros before the first step)."""

    damping: tuple
    scaling: tf.Tensor


class Report(NamedTuple):
    """What happened in a step; scalars, of the variables' dtype where not said otherwise.

    Attributes:
      cost: F at the variables as the step left them.
      reduction: by how much F was lowered; for a rejected step, what its last attempt would have gained (may be −∞).
      predicted: the reduction that the linear model promised for the last attempt.
      promised: the same for the first attempt, the least damped one.
      ratio: ρ of the last attempt.
      damping: λ of the last attempt.
      gradient_norm: max |g|.
      cosine: the largest |cosine| of the angle between r and a column of J: max |gⱼ| / (‖Jⱼ‖ √2F).
      step_length: ‖D^½ p‖ of the last attempt.
      length: ‖D^½ w‖ before the step.
      attempts: int32, how many times a step was solved for and evaluated.
      status: int32, a ``Status``: RUNNING (accepted), REJECTED, STALLED or NOT_FINITE.
    """

    cost: tf.Tensor
    reduction: tf.Tensor
    predicted: tf.Tensor
    promised: tf.Tensor
    ratio: tf.Tensor
    damping: tf.Tensor
    gradient_norm: tf.Tensor
    cosine: tf.Tensor
    step_length: tf.Tensor
    length: tf.Tensor
    attempts: tf.Tensor
    status: tf.Tensor

    @property
    def accepted(self):
        """Scalar bool: whether the variables moved."""
        return tf.equal(self.status, int(Status.RUNNING))


class Trial(NamedTuple):
    """The loop variables of the attempts within one step."""

    attempts: tf.Tensor
    accepted: tf.Tensor
    cost: tf.Tensor
    reduction: tf.Tensor
    predicted: tf.Tensor
    promised: tf.Tensor
    ratio: tf.Tensor
    step_length: tf.Tensor
    damping: tf.Tensor
    state: tuple


def take_step(objective, state, method):
    """Take one step from the current values of the objective's variables.

    Args:
      objective: an ``Objective``, traced in the current graph.
      state: a ``State``.
      method: a ``Method``.

    Returns:
      ``(State, Report)``. The variables hold the new values if the step was accepted, else the same bits as before.
    """
    return method.solver.run(objective, lambda system: _step(objective, system, state, method))


def _step(objective, system, state, method):
    start = objective.values()
    scaling = system.simplify(method.scaling.update(state.scaling, system.diagonal))
    curvature = tf.reduce_max(system.diagonal / scaling)
    length = _norm(objective.flatten(start), scaling)
    usable = _all_finite(objective.cost, system.gradient, curvature)
    solve = _solver(system, scaling)

    def attempt(trial):
        proposal = method.damping.propose(trial.state, solve, curvature)
        slope = tf.tensordot(system.gradient, proposal.step, 1)
        predicted = -(slope + system.quadratic(proposal.step) / 2)
        objective.move(start, proposal.step)
        cost = objective.evaluate()
        verdict = judge(objective.cost - cost, predicted, slope, proposal.solved, method.min_gain)
        objective.restore_unless(verdict.accepted, start)
        return Trial(
            attempts=trial.attempts + 1,
            accepted=verdict.accepted,
            cost=tf.where(verdict.accepted, cost, objective.cost),
            reduction=verdict.reduction,
            predicted=predicted,
            promised=tf.where(tf.equal(trial.attempts, 0), predicted, trial.promised),
            ratio=verdict.ratio,
            step_length=proposal.length,
            damping=proposal.damping,
            state=method.damping.update(trial.state, proposal, verdict, curvature),
        )

    first = _no_trial_yet(objective.cost, method.damping.resume(state.damping, curvature, length))
    high = method.damping.bounds(curvature)[1]

    def undecided(trial):
        hopeless = (trial.attempts > 0) & (trial.damping >= high)
        return usable & ~trial.accepted & ~hopeless & (trial.attempts < method.max_attempts)

    (last,) = tf.while_loop(undecided, lambda trial: (attempt(trial),), (first,))
    new_state = State(_choose(usable, last.state, state.damping), tf.where(usable, scaling, state.scaling))
    return new_state, _report(last, objective, system, length, _status(usable, last, high))


def judge(reduction, predicted, slope, solved, min_gain):
    """Compare the actual with the predicted reduction; anything not finite is as bad as can be."""
    infinity = tf.constant(float("inf"), reduction.dtype)
    reduction = tf.where(tf.math.is_finite(reduction), reduction, -infinity)
    sound = solved & (predicted > 0) & tf.math.is_finite(predicted) & (reduction > -infinity)
    ratio = tf.where(sound, reduction / predicted, -infinity)
    return Verdict(accepted=ratio > min_gain, ratio=ratio, slope=slope, reduction=reduction)


def _solver(system, scaling):
    """Return ``solve(λ) -> Proposal`` for one linearisation and one D."""
    solve = system.solver(scaling)

    def proposal(damping):
        step, solved = solve(damping)
        length = _norm(step, scaling)
        return Proposal(step, solved & tf.math.is_finite(length), damping, length)

    return proposal


def _norm(vector, scaling):
    return tf.sqrt(tf.reduce_sum(scaling * tf.square(vector)))


def _all_finite(*tensors):
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(tensor)) for tensor in tensors])


def _choose(condition, new, old):
    return tuple(tf.where(condition, a, b) for a, b in zip(new, old))


def _no_trial_yet(cost, damping_state):
    zero = tf.zeros_like(cost)
    return Trial(tf.constant(0), tf.constant(False), cost, *[zero] * 6, damping_state)


def _status(usable, last, high):
    rejected = tf.where(last.damping >= high, int(Status.STALLED), int(Status.REJECTED))
    return tf.where(usable, tf.where(last.accepted, int(Status.RUNNING), rejected), int(Status.NOT_FINITE))


def _report(last, objective, system, length, status):
    columns = tf.sqrt(system.diagonal + objective.prior.precision) * tf.sqrt(2 * objective.cost)
    gradient = tf.abs(system.gradient)
    return Report(
        cost=last.cost,
        reduction=last.reduction,
        predicted=last.predicted,
        promised=last.promised,
        ratio=last.ratio,
        damping=last.damping,
        gradient_norm=tf.reduce_max(gradient),
        cosine=tf.reduce_max(tf.math.divide_no_nan(gradient, columns)),
        step_length=last.step_length,
        length=length,
        attempts=last.attempts,
        status=status,
    )
