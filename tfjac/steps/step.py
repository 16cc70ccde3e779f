"""One Levenberg–Marquardt step: linearise, solve, predict, evaluate, judge, keep or restore.

F = ½‖r‖² + ½ (w−w₀)ᵀΛ(w−w₀), g = ∇F, step p:

    (JᵀJ + λD + Λ) p = −g
    predicted = −(gᵀp + ½ pᵀ(JᵀJ + Λ)p)
    ρ = (F(w) − F(w + p)) / predicted

ρ above `min_gain` keeps w + p; otherwise w is put back, bit for bit, the damping grows, and the same JᵀJ is solved
again. What is not finite, or could not be solved, counts as ρ = −∞. Within bounds the system is that of the free
parameters, p is shortened to stay inside, and ρ judges the step as it was taken, while what p promised says whether
there is anything left to gain; see `bounds`. Where residuals stay large, JᵀJ may have their own curvature added to it;
see `residual_curvature`.
Reference: K. Madsen, H. B. Nielsen, O. Tingleff, "Methods for non-linear least squares problems", 2nd ed., 2004, ch. 3.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.graph import SMALL, numbers_in_all
from tfjac.linear import arrays
from tfjac.linear.contracts import Allowed, LinearModel
from tfjac.linear.model import FreeLinearisation
from tfjac.linear.solvers import Solver, System
from tfjac.linear.solvers.plane_system import PlaneSystem
from tfjac.linear.solvers.precision import prepared
from tfjac.linear.solvers.problem_sizes import ProblemSizes
from tfjac.memory_budget import tell_of_left_out
from tfjac.steps.acceleration import GeodesicAcceleration
from tfjac.steps.attempt import (
    Candidate,
    is_over,
    judged,
    largest,
    point_at,
    propose,
    proposed,
    report_of,
    within,
)
from tfjac.steps.beside import shares_of
from tfjac.steps.conditions import Box, Equality
from tfjac.steps.damping.scaling import scaled_norm
from tfjac.steps.method import Method
from tfjac.steps.objective import Objective
from tfjac.steps.records import Attempt, Leeway, Report, State
from tfjac.steps.residual_curvature import Curved, Secant
from tfjac.steps.statuses import Status
from tfjac.types import Function, Tensor


class Restrictions(NamedTuple):
    """What a step must observe; None for what does not apply.

    Attributes:
        box: a `Box` that the variables are in and stay in.
        equality: an `Equality` that the variables fulfil and go on to.
        leeway: a `Leeway`; without it the cost must not rise.
        leeway_is_usual: whether only solvers with a `usual_window` have it, as the user did not ask for one.
        begins: scalar bool, whether a step is proposed, or the point only linearised.
        judges: function from the `Report` of a step that is proposed to the `Status` of the point where it starts,
            int32; for a minimisation, where a step may also be taken back when the next one finds what J is there.
        ends: scalar bool, whether a point that meets a tolerance by that is the end, without a trial.
        tries: scalar bool, whether a step may be tried.
    """

    box: Box | None = None
    equality: Equality | None = None
    leeway: Leeway | None = None
    leeway_is_usual: bool = False
    begins: Tensor | None = None
    judges: Callable[[Report], Tensor] | None = None
    ends: Tensor = np.False_
    tries: Tensor = np.True_

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
        standing: int32, the `Status` of the point where it started: see `Restrictions`.
        refused: the `State` to go on with where the step, which was kept, is taken back.
        shares: `[p]`, `shares_of` where it started; for a minimisation.
    """

    state: State
    report: Report
    sizes: ProblemSizes
    num_residuals: int | Tensor
    standing: Tensor
    refused: State
    shares: Tensor | tuple[()] = ()


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
    start = Start.of(objective, state, method, allowed, restrictions.box)
    sizes = ProblemSizes.of(start.model, method.gram_dtype, method.scaling.is_one_number, allowed.budget)
    sizes = sizes if restrictions.equality is None else sizes.without_tables()
    solvers, index = method.solver.choose(sizes)
    tell_of_left_out(method.solver.left_out(sizes), sizes.budget, solvers[0].name)
    ways = [partial(_taken, solver, start, method, restrictions) for solver in solvers]
    num_rows = start.model.num_rows
    one = ways[0]() if len(ways) == 1 else tf.switch_case(index(tf.cast(num_rows, tf.float64)), ways)
    return Step(one.state, one.report, sizes, num_rows, one.standing, one.refused, one.shares)


class Start(NamedTuple):
    """Where a step starts.

    Attributes:
        objective: an `Objective`.
        model: its `LinearModel` in the parameters that are free.
        whole: the same in all parameters.
        free: `[p]`, bool, which are free; None for all.
        slope: `[p]`, the gradient in all parameters, where not all are free.
        state: the `State` that the step before handed on.
    """

    objective: Objective
    model: LinearModel
    whole: LinearModel
    free: Tensor | None
    slope: Tensor | None
    state: State

    @classmethod
    def of(cls, objective: Objective, state: State, method: Method, allowed: Allowed, box: Box | None) -> "Start":
        """Return the start of a step from where the variables are."""
        model: LinearModel = objective.linearise(allowed if method.gram_dtype is None else allowed.halved())
        if box is None:
            return cls(objective, model, model, None, None, state)
        slope = model.gradient()
        free = box.free(objective.position(objective.values()), slope)
        return cls(objective, FreeLinearisation(model, free), model, free, slope, state)


class End(NamedTuple):
    """The fields of a `Step` that are tensors, whichever solver it was taken with."""

    state: State
    report: Report
    standing: Tensor
    refused: State
    shares: Tensor | tuple[()]


def _taken(solver: Solver, start: Start, method: Method, restrictions: Restrictions) -> End:
    return Stepper(solver, start, method, restrictions).take()


class Stepper:
    """Takes one step with one solver: proposes, moves and judges until that is decided, and finishes.

    Args:
        solver: a `Solver`.
        start: a `Start`.
        method: a `Method`.
        restrictions: `Restrictions`.
    """

    def __init__(self, solver: Solver, start: Start, method: Method, restrictions: Restrictions) -> None:
        self._index, self._start, self._restrictions = method.solver.names.index(solver.name), start, restrictions
        self._objective, self._model, self._leeway = start.objective, start.model, restrictions.leeway_of(solver)
        self._method = method._replace(damping=method.damping.starting_with(solver.first_damping))
        self._system = _system(solver, start.model, method, restrictions.equality)
        self._values = self._objective.values()
        self._position = self._objective.position(self._values)
        given = self._position, self._objective.cost, self._system.gradient, self._system.diagonal
        prior, has_residuals = self._model.prior, self._model.has_residuals
        point = point_at(*given, start.state, self._method, prior=prior, has_residuals=has_residuals)
        self._point = point._replace(
            gradient_norm=largest(self._objective.slope(self._system.gradient)),
            magnitude=scaled_norm(self._objective.magnitude(self._values), point.columns),
        )
        self._curved = self._with_curvature()
        self._solve = _in_free(self._system.solver(self._point.metric), self._model)
        self._bends = method.acceleration and method.acceleration.suits(solver, self._objective, self._model)
        self._acceleration = method.acceleration if tf.is_tensor(self._bends) or self._bends else None

    def _with_curvature(self) -> Curved | None:
        """Return what the curvature of residuals makes of the system, where it is estimated."""
        start, point = self._start, self._point
        if not start.state.secant or self._system.matrix is None:
            return None
        lowest = self._method.damping.bounds(point.curvature)[0]
        given = start.whole, start.model, start.state.secant, point, self._objective.cost, lowest
        return Curved(self._system, *given)

    def take(self) -> End:
        """Attempt a step until it is decided, with more damping each time."""
        point, damping = self._point, self._method.damping
        state = damping.resume(self._start.state.damping, point.curvature, point.radius)
        first = Attempt.none_yet(self._objective.cost, state)

        def attempt(_: Tensor, last: Attempt) -> tuple[Tensor, Attempt]:
            made = self._attempt(last)
            tried = made.attempts > last.attempts
            return tried & ~is_over(made, point, self._method), made

        asked = self._restrictions.begins
        begins = point.usable if asked is None else point.usable & asked
        if self._method.max_attempts == 1 and asked is None:
            return self._finish(arrays.choice(begins, self._attempt(first), first))
        small = not tf.executing_eagerly() and numbers_in_all(tf.compat.v1.get_default_graph()) <= SMALL
        _, last = arrays.loop(lambda goes_on, _: goes_on, attempt, (begins, first), small=small)
        return self._finish(last)

    def _attempt(self, last: Attempt) -> Attempt:
        """Return the `Attempt` that follows `last`: propose, and if that is not enough, try."""
        system, solve = self._system_of(last)
        given = system.gradient, system.reduction, last.state, self._point, self._method
        candidate, (*_, judges, ends, tries) = propose(solve, *given), self._restrictions
        seen = proposed(last, candidate, self._point)
        if judges is None:
            return self._try(seen, candidate, system)
        is_first = arrays.equal(last.attempts, 0)
        standing = arrays.choice_of(is_first, lambda: judges(self._report(seen)), lambda: last.standing)
        seen = seen._replace(standing=standing)
        enough = is_first & (~tries | (ends & arrays.not_equal(standing, int(Status.RUNNING))))
        return arrays.branch(enough, lambda: seen, lambda: self._try(seen, candidate, system))

    def _system_of(self, last: Attempt) -> tuple[System, Function]:
        """Return the `System` of the attempt after `last`, and what solves it."""
        if self._curved is None:
            return self._system, self._solve
        system = self._curved.system(last.attempts)
        return system, _in_free(system.solver(self._point.metric), self._model)

    def _try(self, seen: Attempt, candidate: Candidate, system: System) -> Attempt:
        return self._judge(seen, self._move(candidate, system))

    def _move(self, candidate: Candidate, system: System) -> Candidate:
        """Move the variables by the step of a `Candidate`, or by what bounds leave of it, and return it as it is taken.

        What rounding makes of equations between the parameters is undone. If steps are bent, they move along the curve,
        unless that leads out of bounds.
        """
        (box, equality, *_), step = self._restrictions, candidate.step
        bend = self._bend(candidate)
        curved = step if bend is None else step + bend
        if equality is not None:
            self._objective.move_to(self._values, equality.project(self._position + curved))
            return candidate
        if box is None:
            self._objective.move(self._values, curved)
            return candidate
        end, candidate = within(box, self._position, candidate, system.reduction)
        if bend is not None:
            inside = box.contains(self._position + step) & box.contains(self._position + curved)
            end = arrays.where(inside, self._position + curved, end)
        self._objective.move_to(self._values, end)
        return candidate

    def _bend(self, candidate: Candidate) -> Tensor | None:
        """Return what acceleration adds to the step of a `Candidate`, `[p]`; None if it adds nothing to any."""
        if self._acceleration is None:
            return None
        curve = partial(self._curve, self._acceleration, candidate)
        if tf.is_tensor(self._bends):
            return arrays.branch(self._bends, curve, lambda: arrays.zeros_like(self._position))
        return curve()

    def _curve(self, acceleration: GeodesicAcceleration, candidate: Candidate) -> Tensor:
        """Return ½a `[p]` of the step v of a `Candidate`, see `GeodesicAcceleration`."""
        jacobian, step = self._model.jacobian, candidate.step
        change = self._change_at(acceleration.difference * step)
        linear = jacobian.matvec(arrays.cast(step, jacobian.dtype))
        residual = arrays.cast(self._model.residual, change.dtype)
        return acceleration.bend(candidate.proposal, self._solve, residual, change, linear, self._point.metric)

    def _change_at(self, step: Tensor) -> Tensor:
        """Return r(w + step) − r(w), `[rows]`; within bounds, as no others are bent than steps inside."""
        box = self._restrictions.box
        if box is None:
            self._objective.move(self._values, step)
        else:
            self._objective.move_to(self._values, box.project(self._position + step))
        return self._objective.change_of_rows()

    def _judge(self, seen: Attempt, candidate: Candidate) -> Attempt:
        """Evaluate where the variables are, judge, and keep it or put them back."""
        before, after = self._objective.cost, self._objective.evaluate()
        costs, may_return = (before, after, before - after), self._restrictions.judges is not None
        given = seen, candidate, self._system.gradient, self._point, costs
        made = judged(*given, self._method, self._leeway, may_return)
        self._objective.restore_unless(made.accepted & self._point.usable, self._values)
        return made

    def _finish(self, last: Attempt) -> End:
        """Return what is known after the `last` attempt."""
        before, scaling, effective = self._start.state, self._point.scaling, None
        if self._start.free is not None:
            scaling = arrays.where(self._start.free, scaling, before.scaling)
        if self._method.evidence:
            effective = arrays.branch(
                last.accepted, self._system.effective_parameters, lambda: arrays.zeros_like(last.cost)
            )
        kept, refused = self._secants(last)
        after = arrays.choice(self._point.usable, State(last.state, scaling, kept), before)
        shares: Tensor | tuple[()] = ()
        if self._restrictions.judges is not None:
            shares = shares_of(self._point.columns, self._objective.cost, self._start.slope, self._start.free)
        return End(after, self._report(last, effective), last.standing, State(last.refused, scaling, refused), shares)

    def _secants(self, last: Attempt) -> tuple[Secant | tuple[()], Secant | tuple[()]]:
        """Return the `Secant` after the `last` attempt, and where that is taken back."""
        if self._curved is None:
            return (self._start.state.secant,) * 2
        moved = self._objective.position(self._objective.values()) - self._position
        return self._curved.after(moved, last.reduction, last.attempts), self._curved.refused()

    def _report(self, last: Attempt, effective: Tensor | None = None) -> Report:
        return report_of(last, self._point, self._objective.cost, self._index, effective)


def _system(solver: Solver, model: LinearModel, method: Method, equality: Equality | None) -> System:
    """Return the `System` of a solver, in the plane of equations where there are any."""
    if equality is None or not equality.normals.shape[0]:
        return prepared(solver, model, method.gram_dtype)
    return PlaneSystem(solver, model, equality.normals, method.gram_dtype)


def _in_free(solve: Function, model: LinearModel) -> Function:
    """Return `solve` with exact zeros for parameters that are held: rounding would take them off their bounds."""

    def solve_in_free(damping: Tensor, residual: Tensor | None = None) -> tuple[Tensor, Tensor]:
        step, solved = solve(damping, residual)
        return model.only_free(step), solved

    return solve_in_free
