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
from typing import Any, NamedTuple

import tensorflow as tf

from tfjac.graph import while_loop
from tfjac.optimizers.contracts import LinearModel, Objective
from tfjac.optimizers.linear_model import FreeLinearisation
from tfjac.optimizers.loop.attempt import is_decided, judged, looked_at, point_at, propose, report_of, within
from tfjac.optimizers.loop.method import Method
from tfjac.optimizers.loop.records import Attempt, Leeway, Report, State, chosen
from tfjac.optimizers.memory_budget import tell_of_left_out
from tfjac.optimizers.solvers import Solver, System
from tfjac.optimizers.solvers.plane_system import PlaneSystem
from tfjac.optimizers.solvers.precision import prepared
from tfjac.optimizers.solvers.problem_sizes import ProblemSizes


class Restrictions(NamedTuple):
    """What a step must observe; None for what does not apply.

    Attributes:
        box: a `Box` that the variables are in and stay in.
        equality: an `Equality` that the variables fulfil and go on to.
        leeway: a `Leeway`; without it the cost must not rise.
        leeway_is_usual: whether only solvers with a `usual_window` have it, as the user did not ask for one.
        looks: function from the `Report` of a step that is proposed to whether to leave it at that, a scalar bool; for
            a minimisation, where a step may also be taken back when the next one finds what J is there.
    """

    box: Any = None
    equality: Any = None
    leeway: Leeway | None = None
    leeway_is_usual: bool = False
    looks: Any = None

    def leeway_of(self, solver: Solver) -> Leeway | None:
        """Return the leeway of the steps of a `Solver`."""
        return None if self.leeway_is_usual and solver.usual_window == 1 else self.leeway


class Step(NamedTuple):
    """What taking a step taught.

    Attributes:
        state: the `State` for the next step.
        report: a `Report`.
        sizes: the `ProblemSizes` of the linear model.
        num_residuals: how many residuals there were, an integer or a scalar int32 tensor.
        looked: scalar bool, whether it was proposed and not tried: see `Restrictions`.
        refused: the `State` to go on with where the step, which was kept, is taken back.
    """

    state: State
    report: Report
    sizes: ProblemSizes
    num_residuals: Any
    looked: Any
    refused: State


def take_step(objective: Objective, state: State, method: Method, restrictions: Restrictions | None = None) -> Step:
    """Take one step from the current values of the objective's variables.

    Args:
        objective: an `Objective`, traced in the current graph.
        state: a `State`.
        method: a `Method`.
        restrictions: `Restrictions`, or None for none.

    Returns:
        A `Step`. The variables hold the new values if the step was accepted, else the same bits as before. From a point
        that is not finite, where the gradient is zero, or where no residual has weight, no step is tried, and the state
        stays as it was.
    """
    restrictions = restrictions or Restrictions()
    allowed = method.allowed()
    model: LinearModel = objective.linearise(allowed if method.gram_dtype is None else allowed.halved())
    if restrictions.box is not None:
        position = objective.position(objective.values())
        model = FreeLinearisation(model, restrictions.box.free(position, model.gradient()))
    sizes = ProblemSizes.of(model, method.gram_dtype, method.scaling.is_one_number, allowed.budget)
    sizes = sizes if restrictions.equality is None else sizes.without_tables()
    solvers, index = method.solver.choose(sizes)
    tell_of_left_out(method.solver.left_out(sizes), sizes.budget, solvers[0].name)
    steps = [partial(_step, objective, model, solver, state, method, restrictions) for solver in solvers]
    if len(steps) == 1:
        state, report, looked, refused = steps[0]()
    else:
        state, report, looked, refused = tf.switch_case(index(tf.cast(model.num_rows, tf.float64)), steps)
    return Step(state, report, sizes, model.num_rows, looked, refused)


def _step(objective: Objective, model: LinearModel, solver, state, method, restrictions):
    """Take the step with one solver, and return the fields of `Step` that are not sizes."""
    method = method._replace(damping=method.damping.starting_with(solver.first_damping))
    system = _system(solver, model, method, restrictions.equality)
    values = objective.values()
    position = objective.position(values)
    given = position, objective.cost, system.gradient, system.diagonal, state, method
    point = point_at(*given, prior=model.prior, has_residuals=model.has_residuals)
    solve = _in_free(system.solver(point.metric), model)
    bend_of = _bending(objective, model, solver, solve, values, position, point, method, restrictions.box)

    def tried(last, candidate):
        """Evaluate, judge, keep or restore."""
        bend = bend_of(candidate)
        candidate = _move(objective, values, position, candidate, system, bend, restrictions)
        cost = objective.evaluate()
        costs = objective.cost, cost, objective.cost - cost
        leeway, may_return = restrictions.leeway_of(solver), restrictions.looks is not None
        made = judged(last, candidate, system.gradient, point, costs, method, leeway, may_return)
        objective.restore_unless(made.accepted, values)
        return made

    def attempt(last):
        """Solve, predict, and where that is not enough, try."""
        candidate = propose(solve, system.gradient, system.reduction, last.state, point, method)
        if restrictions.looks is None:
            return (tried(last, candidate),)
        seen = looked_at(last, candidate, point)
        enough = tf.equal(last.attempts, 0) & restrictions.looks(told(seen))
        return (tf.cond(enough, lambda: seen, lambda: tried(last, candidate)),)

    index, magnitude = method.solver.names.index(solver.name), objective.magnitude(values)
    told = partial(report_of, point=point, cost=objective.cost, position=position, gradient=system.gradient)
    told = partial(told, solver=index, magnitude=magnitude)

    first = Attempt.none_yet(objective.cost, method.damping.resume(state.damping, point.curvature, point.length))
    (last,) = while_loop(lambda attempt: ~is_decided(attempt, point, method), attempt, (first,))
    return _end(last, point, told, model, system, state, method, restrictions)


def _bending(objective, model: LinearModel, solver, solve, values, position, point, method, box):
    """Return a function from a `Candidate` to what acceleration adds to its step, None if it adds nothing to any."""
    is_bent = method.acceleration is not None and method.acceleration.suits(solver, objective, model)

    def bent(candidate):
        change, linear = _change_along(candidate.step, objective, model, values, position, method, box)
        residual = tf.cast(model.residual, change.dtype)
        return method.acceleration.bend(candidate.proposal, solve, residual, change, linear, point.metric)

    def bend_of(candidate):
        if tf.is_tensor(is_bent):
            return tf.cond(is_bent, lambda: bent(candidate), lambda: tf.zeros_like(position))
        return bent(candidate) if is_bent else None

    return bend_of


def _end(last, point, told, model, system, state, method, restrictions):
    """Return what `_step` does, after the last `Attempt`."""
    scaling = point.scaling
    if restrictions.box is not None:
        scaling = tf.where(model.free, scaling, state.scaling)
    effective = None
    if method.evidence:
        effective = tf.cond(last.accepted, system.effective_parameters, lambda: tf.zeros_like(last.cost))
    after = chosen(point.usable, State(last.state, scaling), state)
    return after, told(last, effective=effective), last.looked, State(last.refused, scaling)


def _system(solver: Solver, model: LinearModel, method: Method, equality) -> System:
    """Return the `System` of a solver, in the plane of equations where there are any."""
    if equality is None or not equality.normals.shape[0]:
        return prepared(solver, model, method.gram_dtype)
    return PlaneSystem(solver, model, equality.normals, method.gram_dtype)


def _in_free(solve, model: LinearModel):
    """Return `solve` with exact zeros for parameters that are held: rounding would take them off their bounds."""

    def solve_in_free(damping, residual=None):
        step, solved = solve(damping, residual)
        return model.only_free(step), solved

    return solve_in_free


def _move(objective: Objective, values, position, candidate, system, bend, restrictions):
    """Move the variables by the step of a `Candidate`, or by what bounds leave of it, and return it as it was taken.

    What rounding makes of equations between the parameters is undone. They move by `bend` `[p]` as well, if there is
    one, and if neither with nor without it bounds are met.
    """
    curved = candidate.step if bend is None else candidate.step + bend
    if restrictions.equality is not None:
        objective.move_to(values, restrictions.equality.project(position + curved))
        return candidate
    if restrictions.box is None:
        objective.move(values, curved)
        return candidate
    box, step = restrictions.box, candidate.step
    end, candidate = within(box, position, candidate, system.reduction)
    if bend is not None:
        inside = box.contains(position + step) & box.contains(position + curved)
        end = tf.where(inside, position + curved, end)
    objective.move_to(values, end)
    return candidate


def _change_along(step, objective: Objective, model: LinearModel, values, position, method, box):
    """Return r(w + hv) − r(w) and Jv `[rows]` for a step v; within bounds, as no others are bent than steps inside."""
    part = method.acceleration.difference * step
    if box is None:
        objective.move(values, part)
    else:
        objective.move_to(values, box.project(position + part))
    return objective.change_of_rows(), model.jacobian.matvec(tf.cast(step, model.jacobian.dtype))
