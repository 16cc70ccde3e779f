"""One Levenberg–Marquardt step: linearise, solve, predict, evaluate, judge, keep or restore.

F = ½‖r‖² + ½ (w−w₀)ᵀΛ(w−w₀), g = ∇F, step p:

    (JᵀJ + λD + Λ) p = −g
    predicted = −(gᵀp + ½ pᵀ(JᵀJ + Λ)p)
    ρ = (F(w) − F(w + p)) / predicted

ρ above `min_gain` keeps w + p; otherwise w is put back, bit for bit, the damping grows, and the same JᵀJ is solved
again. What is not finite, or could not be solved, counts as ρ = −∞.
Reference: K. Madsen, H. B. Nielsen, O. Tingleff, "Methods for non-linear least squares problems", 2nd ed., 2004, ch. 3.
"""

import tensorflow as tf

from tfjac.optimizers.damping import Proposal, Verdict
from tfjac.optimizers.records import Point, Report, State, Trial
from tfjac.optimizers.statuses import Status


def take_step(problem, state, method):
    """Take one step from the current values of the problem's variables.

    Args:
        problem: a `Problem`, traced in the current graph.
        state: a `State`.
        method: a `Method`.

    Returns:
        `(State, Report)`. The variables hold the new values if the step was accepted, else the same bits as before.
        From a point that is not finite, where the gradient is zero, or where no residual has weight, no step is tried,
        and the state stays as it was.
    """
    linearisation = problem.linearise()
    choice = method.solver.choose(linearisation)

    def step(solver):
        return _step(problem, linearisation, solver, state, method)

    if choice.wide is choice.tall:
        return step(choice.tall)
    is_wide = linearisation.num_rows < linearisation.num_parameters
    return tf.cond(is_wide, lambda: step(choice.wide), lambda: step(choice.tall))


def _step(problem, linearisation, solver, state, method):
    system = solver.prepare(linearisation)
    point = _point(problem, linearisation, system, state, method)
    solve = _solve(system, point.scaling)

    def undecided(trial):
        hopeless = (trial.attempts > 0) & (trial.damping >= point.highest)
        return point.usable & ~trial.accepted & ~hopeless & (trial.attempts < method.max_attempts)

    def attempt(trial):
        return (_attempt(trial, problem, system, solve, point, method),)

    damping = method.damping.resume(state.damping, point.curvature, point.length)
    (last,) = tf.while_loop(undecided, attempt, (Trial.none_yet(problem.cost, damping),))
    new_state = State(last.state, point.scaling)
    new_state = tf.nest.map_structure(lambda new, old: tf.where(point.usable, new, old), new_state, state)
    return new_state, _report(last, problem, system, point, method.solver.names.index(solver.name))


def _point(problem, linearisation, system, state, method):
    values = problem.values()
    scaling = system.simplify(method.scaling.update(state.scaling, system.diagonal))
    curvature = tf.reduce_max(system.diagonal / scaling)
    return Point(
        values=values,
        scaling=scaling,
        curvature=curvature,
        length=_norm(problem.columns.flatten(values), scaling),
        columns=system.diagonal + linearisation.prior.precision,
        finite=_all_finite(problem.cost, system.gradient, curvature),
        stationary=tf.reduce_all(tf.equal(system.gradient, 0)) | _without_data(linearisation, system),
        highest=method.damping.bounds(curvature)[1],
    )


def _without_data(linearisation, system):
    """Return whether there are residuals, but without weight, or none in this batch.

    A regulariser alone would then take all weights to its own minimum, in one step.
    """
    return tf.reduce_all(tf.equal(system.diagonal, 0)) if linearisation.has_residuals else tf.constant(False)


def _attempt(trial, problem, system, solve, point, method):
    """Solve, predict, evaluate, judge, keep or restore."""
    proposal = method.damping.propose(trial.state, solve, point.curvature)
    slope = tf.tensordot(system.gradient, proposal.step, 1)
    predicted = -(slope + system.quadratic(proposal.step) / 2)
    problem.move(point.values, proposal.step)
    cost = problem.evaluate()
    verdict = judge(problem.cost - cost, predicted, slope, proposal.solved, method.min_gain)
    problem.restore_unless(verdict.accepted, point.values)
    return Trial(
        attempts=trial.attempts + 1,
        accepted=verdict.accepted,
        cost=tf.where(verdict.accepted, cost, problem.cost),
        reduction=verdict.reduction,
        predicted=predicted,
        promised=tf.where(tf.equal(trial.attempts, 0), predicted, trial.promised),
        ratio=verdict.ratio,
        held=proposal.damping * tf.square(proposal.length),
        step_length=_norm(proposal.step, point.columns),
        damping=proposal.damping,
        state=method.damping.update(trial.state, proposal, verdict, point.curvature),
    )


def judge(reduction, predicted, slope, solved, min_gain):
    """Compare the actual with the predicted reduction; anything not finite is as bad as can be."""
    infinity = tf.constant(float("inf"), reduction.dtype)
    reduction = tf.where(tf.math.is_finite(reduction), reduction, -infinity)
    sound = solved & (predicted > 0) & tf.math.is_finite(predicted) & (reduction > -infinity)
    ratio = tf.where(sound, reduction / predicted, -infinity)
    return Verdict(accepted=ratio > min_gain, ratio=ratio, slope=slope, reduction=reduction)


def _solve(system, scaling):
    """Return `solve(λ) -> Proposal` for one linearisation and one D, to be called any number of times."""
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


def _report(last, problem, system, point, solver):
    products = tf.sqrt(point.columns) * tf.sqrt(2 * problem.cost)
    gradient = tf.abs(system.gradient)
    return Report(
        cost=last.cost,
        reduction=last.reduction,
        predicted=last.predicted,
        promised=last.promised,
        ratio=last.ratio,
        held=last.held,
        damping=last.damping,
        gradient_norm=tf.reduce_max(gradient),
        cosine=tf.reduce_max(tf.math.divide_no_nan(gradient, products)),
        step_length=last.step_length,
        length=_norm(problem.columns.flatten(point.values), point.columns),
        attempts=last.attempts,
        status=_status(last, point),
        solver=tf.constant(solver),
    )


def _status(last, point):
    rejected = tf.where(last.damping >= point.highest, int(Status.STALLED), int(Status.REJECTED))
    status = tf.where(last.accepted, int(Status.RUNNING), rejected)
    status = tf.where(point.stationary, int(Status.GRADIENT_TOLERANCE), status)
    return tf.where(point.finite, status, int(Status.NOT_FINITE))
