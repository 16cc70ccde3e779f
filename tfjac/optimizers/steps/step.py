"""One Levenberg–Marquardt step: linearise, solve, predict, evaluate, judge, keep or restore.

F = ½‖r‖² + ½ (w−w₀)ᵀΛ(w−w₀), g = ∇F, step p:

    (JᵀJ + λD + Λ) p = −g
    predicted = −(gᵀp + ½ pᵀ(JᵀJ + Λ)p)
    ρ = (F(w) − F(w + p)) / predicted

ρ above `min_gain` keeps w + p; otherwise w is put back, bit for bit, the damping grows, and the same JᵀJ is solved
again. What is not finite, or could not be solved, counts as ρ = −∞. Within bounds the system is that of the free
parameters, p is shortened to stay inside, and ρ judges the step as it was taken, while what p promised says whether
there is anything left to gain; see `bounds`.
Reference: K. Madsen, H. B. Nielsen, O. Tingleff, "Methods for non-linear least squares problems", 2nd ed., 2004, ch. 3.
"""

from functools import partial

import tensorflow as tf

from tfjac.optimizers.linearisation import FreeLinearisation
from tfjac.optimizers.solvers.in_plane import PlaneSystem
from tfjac.optimizers.solvers.sizes import ProblemSizes
from tfjac.optimizers.solvers.widened import prepared
from tfjac.optimizers.steps.judging import all_finite, all_zero, judge, lenient, next_trial, proposing, report_of
from tfjac.optimizers.steps.records import Point, State, Trial, chosen
from tfjac.optimizers.steps.scaling import scaled_norm


def take_step(problem, state, method, box=None, equality=None, leeway=None):
    """Take one step from the current values of the problem's variables.

    Args:
        problem: a `Problem`, traced in the current graph.
        state: a `State`.
        method: a `Method`.
        box: a `Box` that the variables are in and stay in, or None.
        equality: an `Equality` that the variables fulfil and go on to, or None.
        leeway: a `Leeway`, or None where the cost must not rise.

    Returns:
        `(State, Report)`. The variables hold the new values if the step was accepted, else the same bits as before.
        From a point that is not finite, where the gradient is zero, or where no residual has weight, no step is tried,
        and the state stays as it was.
    """
    linearisation = problem.linearise()
    if box is not None:
        position = problem.position(problem.values())
        linearisation = FreeLinearisation(linearisation, box.free(position, linearisation.gradient()))
    problem.sizes = ProblemSizes.of(linearisation, method.gram_dtype, getattr(method.scaling, "is_one_number", False))
    if equality is not None:
        problem.sizes = problem.sizes.without_tables()
    solvers, index = method.solver.choose(problem.sizes)
    steps = [partial(_step, problem, linearisation, solver, state, method, box, equality, leeway) for solver in solvers]
    if len(steps) == 1:
        return steps[0]()
    return tf.switch_case(index(tf.cast(linearisation.num_rows, tf.float64)), steps)


def _step(problem, linearisation, solver, state, method, box, equality, leeway):
    if equality is None or not equality.normals.shape[0]:
        system = prepared(solver, linearisation, method.gram_dtype)
    else:
        system = PlaneSystem(solver, linearisation, equality.normals, method.gram_dtype)
    values = problem.values()
    where = values, problem.position(values), problem.cost
    point = point_at(*where, system, linearisation.prior, linearisation.has_residuals, state, method)
    path = _Path(problem, system, point, box, equality)
    solve = system.solver(point.scaling)
    bend = _bend(method.acceleration, problem, solve, point.scaling)

    def undecided(trial):
        hopeless = (trial.attempts > 0) & (trial.damping >= point.highest)
        return point.usable & ~trial.accepted & ~hopeless & (trial.attempts < method.max_attempts)

    def attempt(trial):
        return (_attempt(trial, problem, path, proposing(solve, point.scaling), bend, point, method, leeway),)

    damping = method.damping.resume(state.damping, point.curvature, point.length)
    (last,) = tf.while_loop(undecided, attempt, (Trial.none_yet(problem.cost, damping),))
    scaling = point.scaling if box is None else tf.where(linearisation.free, point.scaling, state.scaling)
    new_state = State(last.state, scaling)
    new_state = chosen(point.usable, new_state, state)
    none = tf.zeros_like(last.cost)
    effective = tf.cond(last.accepted, system.effective_parameters, lambda: none) if method.evidence else none
    position, solver = where[1], method.solver.names.index(solver.name)
    return new_state, report_of(last, point, problem.cost, position, system.gradient, solver, effective)


def point_at(values, position, cost, system, prior, has_residuals, state, method):
    """Return the `Point` that a step starts from.

    Args:
        values: list of the variables' values.
        position: `[p]`, the same flattened.
        cost: F there.
        system: the `System` there.
        prior: the `Prior` there.
        has_residuals: whether there is anything but a prior, a Python bool.
        state, method: as for `take_step`.
    """
    columns = system.diagonal + prior.precision
    data = columns if prior.is_data else system.diagonal
    scaling = system.simplify(method.scaling.update(state.scaling, data))
    curvature = tf.reduce_max(data / scaling)
    # A regulariser alone, of a batch without residuals, would take all weights to its own minimum, in one step.
    without_data = all_zero(data) if has_residuals or prior.is_data else tf.constant(False)
    return Point(
        values=values,
        scaling=scaling,
        curvature=curvature,
        length=scaled_norm(position, scaling),
        columns=columns,
        finite=all_finite(cost, curvature, system.gradient, position),
        stationary=all_zero(system.gradient) | without_data,
        highest=method.damping.bounds(curvature)[1],
    )


def _attempt(trial, problem, path, propose, bend, point, method, leeway):
    """Solve, predict, evaluate, judge, keep or restore."""
    proposal = method.damping.propose(trial.state, propose, point.curvature)
    promise = path.predicted(proposal.step)
    step, predicted = path.take(proposal.step, promise, None if bend is None else bend(proposal))
    cost = problem.evaluate()
    slope = tf.tensordot(path.gradient, step, 1)
    plain = judge(problem.cost - cost, predicted, slope, proposal.solved, method.min_gain)
    verdict = plain if leeway is None else lenient(plain, predicted, leeway, method.min_gain)
    problem.restore_unless(verdict.accepted, point.values)
    cost = tf.where(verdict.accepted, cost, problem.cost)
    return next_trial(trial, proposal, verdict, plain.ratio, promise, cost, point, method.damping)


class _Path:
    """Where steps lead to from a point, and what the model predicts for them.

    Args:
        problem, system, point, box, equality: as elsewhere here.
    """

    def __init__(self, problem, system, point, box, equality):
        self._problem, self._system, self._point = problem, system, point
        self._box, self._equality = box, equality
        self.gradient = system.gradient

    def predicted(self, step):
        """Return by how much the model says that `step` lowers the cost."""
        slope = tf.tensordot(self.gradient, step, 1)
        return -(slope + self._system.quadratic(step) / 2)

    def take(self, step, promise, bend=None):
        """Move the variables by `step`, of which the model predicts `promise`, or by what bounds leave of it.

        What rounding makes of equations between the parameters is undone. They move by `bend` `[p]` as well, if there
        is one, and if neither with nor without it bounds are met.

        Returns:
            The step taken, but for `bend`, and what the model predicts for it.
        """
        curved = step if bend is None else step + bend
        if self._box is None and self._equality is None:
            self._problem.move(self._point.values, curved)
            return step, promise
        start, position = self._point.values, self._problem.position(self._point.values)
        if self._equality is not None:
            self._problem.move_to(start, self._equality.project(position + curved))
            return step, promise
        full, short = self._box.project(position + step), self._box.truncate(position, step)
        predicted = [self.predicted(end - position) for end in (full, short)]
        end = tf.where(predicted[0] >= predicted[1], full, short)
        if bend is None:
            self._problem.move_to(start, end)
        else:
            inside = self._box.contains(position + step) & self._box.contains(position + curved)
            self._problem.move_to(start, tf.where(inside, position + curved, end))
        return end - position, tf.maximum(*predicted)


def _bend(acceleration, problem, solve, scaling):
    """Return the function from a `Proposal` to what is added to its step; None without acceleration."""
    if acceleration is None:
        return None
    second = problem.second_derivative()
    return lambda proposal: acceleration.bend(proposal, solve, second, scaling)
