"""A whole minimisation: the start, and steps, until there is a reason to stop; in a graph, and what of it is traced."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.drive.driver import Carrier, Driver, Request
from tfjac.drive.options import Settings
from tfjac.drive.problem import Problem
from tfjac.graph import SMALL, call_flat, cond, lean_function
from tfjac.linear import arrays
from tfjac.linear.columns import Columns
from tfjac.linear.solvers.problem_sizes import ProblemSizes
from tfjac.objective.residuals import units_of
from tfjac.objective.tracing.traced_residuals import TracedResiduals
from tfjac.steps.beside import unseen
from tfjac.steps.conditions import Conditions
from tfjac.steps.nonmonotone import Window
from tfjac.steps.progress import Allowance, Invariants, Progress
from tfjac.steps.records import Outcome, State, has_converged
from tfjac.steps.residual_curvature import Secant
from tfjac.steps.statuses import Status
from tfjac.steps.step import End, Step, take_step
from tfjac.steps.vanished import Surroundings
from tfjac.steps.vanished import sees_vanished as are_seen
from tfjac.types import Tensor


class Drawn(NamedTuple):
    """What is known of the residuals at the start.

    Attributes:
        drawn: list of tensors, what `residuals.draw` returned.
        largest: scalar, the largest residual by size.
        number: scalar int64, how many residuals there are.
    """

    drawn: list
    largest: tf.Tensor
    number: tf.Tensor

    @classmethod
    def of(cls, residuals: TracedResiduals, data: list[Tensor], dtype: tf.DType) -> "Drawn":
        """Draw, in the current graph, and look at the residuals where the variables are."""
        drawn = residuals.draw(data)
        tensors = residuals.place(data, drawn)
        sizes = [tf.reduce_max(tf.abs(tf.cast(each, dtype))) for each in tensors]
        return cls(drawn, tf.reduce_max(tf.stack(sizes)), tf.add_n([tf.size(each, tf.int64) for each in tensors]))


def begun(carrier: Carrier, problem: Problem, known: Drawn, conditions: Conditions) -> tuple[Invariants, Progress]:
    """Return the `Invariants` and the `Progress` before the first step.

    Args:
        carrier: a `Carrier`; equations move the variables to the nearest point that fulfils them.
    """
    position, settings = carrier.position(), problem.settings
    status = arrays.where(known.number > 0, int(Status.RUNNING), int(Status.NO_RESIDUALS))
    if conditions.box:
        status = arrays.where(conditions.box.contains(position), status, int(Status.INFEASIBLE))
    if conditions.equality:
        possible = conditions.equality.has_solution
        position = carrier.go_to(arrays.where(possible, conditions.equality.project(position), position))
        status = arrays.where(possible, status, int(Status.INFEASIBLE))
    sizes = known.largest[None]
    if conditions.prior:
        sizes = arrays.concat([sizes, conditions.prior.residuals(position)])
    unit = units_of(sizes)
    state, window = _first_state(problem, unit), _first_window(settings, position)
    progress = Progress.begun(arrays.cast(status, tf.int32), carrier.values(), state, window)
    return Invariants(known.drawn, unit, known.number, conditions), progress


def _first_state(problem: Problem, like: Any) -> State:
    """Return the `State` before the first step, of arrays like the scalar `like`."""
    zero, scaling = arrays.constant(0, like), arrays.constant(np.zeros(problem.columns.total), like)
    secant = Secant.none_yet(scaling) if problem.estimates_curvature else ()
    return State(tuple(zero for _ in problem.settings.method.damping.state_names), scaling, secant)


def _first_window(settings: Settings, position: Any) -> Window | tuple[()]:
    size = settings.window or settings.method.solver.usual_window
    return Window.empty(size, position) if size > 1 else ()


class _StepsOnVariables(Carrier):
    """Steps that leave the variables where they lead, each by itself."""

    is_small = True

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def values(self) -> list:
        return self._problem.values()

    def write(self, values: list) -> list:
        return self._problem.write(values)

    def position(self) -> Any:
        return self._problem.position()

    def go_to(self, position: Any) -> Any:
        return self._problem.go_to(position)


class GraphSteps(_StepsOnVariables):
    """Steps as ops of the graph that is traced, from where the variables are.

    Args:
        data: list of tensors like `residuals.specs`.
        invariants: the `Invariants`, but before they are known.
        is_small: as of `tfjac.graph.while_loop`.
    """

    def __init__(
        self, problem: Problem, data: list[Tensor], invariants: Invariants | None = None, is_small: bool = False
    ) -> None:
        super().__init__(problem)
        self._data, self._invariants, self.is_small = data, invariants, is_small

    def take(self, request: Request) -> Step:
        assert self._invariants is not None
        objective, restrictions = self._problem.objective(self._data, self._invariants)
        settings = self._problem.settings
        restrictions = request.restrictions(settings, objective.cost, restrictions)
        return take_step(objective, request.state, settings.method, restrictions)


class StepFunction:
    """One step, traced once.

    Args:
        options: of `lean_function`.

    Attributes:
        sizes: the `ProblemSizes`.
    """

    def __init__(self, problem: Problem, **options: Any) -> None:
        found: list[Step] = []

        def step(data: list[Tensor], invariants: Invariants, request: Request) -> End:
            found.append(GraphSteps(problem, data, invariants).take(request))
            one = found[-1]
            return End(one.state, one.report, one.standing, one.refused, one.shares)

        like, flag = np.zeros([], problem.dtype.as_numpy_dtype)[()], tf.TensorSpec([], tf.bool)
        scalar, number = tf.TensorSpec([], problem.dtype), tf.TensorSpec([], tf.int64)
        invariants = Invariants(problem.residuals.drawn_specs, scalar, number, problem.settings.conditions)
        position = np.zeros(Columns(problem.variables).total, problem.dtype.as_numpy_dtype)
        first = _first_state(problem, like), _first_window(problem.settings, position)
        state, window = tf.nest.map_structure(_spec_of, first)
        specs = invariants, Request(state, scalar, flag, window, flag, flag, flag)
        self._function = lean_function(step, **options).get_concrete_function(problem.residuals.specs, *specs)
        self._dtypes = [spec.dtype for spec in tf.nest.flatten(specs)]
        self.sizes: ProblemSizes = found[-1].sizes

    def __call__(self, data: list[Tensor], *given: Any) -> Step:
        """Return the `Step` of data, `Invariants` and a `Request`; NumPy but for `num_residuals`."""
        tensors = [tf.convert_to_tensor(each, dtype) for each, dtype in zip(tf.nest.flatten(given), self._dtypes)]
        end = tf.nest.map_structure(lambda each: each.numpy(), call_flat(self._function, [*data, *tensors]))
        return Step(end.state, end.report, self.sizes, -1, end.standing, end.refused, end.shares)


def _spec_of(array: Any) -> tf.TensorSpec:
    return tf.TensorSpec(np.shape(array), np.asarray(array).dtype)


class CalledSteps(_StepsOnVariables):
    """Steps as calls of a `StepFunction`, from where the variables are.

    Args:
        problem: its `Problem`.
        data: list of tensors like `residuals.specs`.
    """

    def __init__(self, function: StepFunction, problem: Problem, data: list[Tensor]) -> None:
        super().__init__(problem)
        self._function, self._data = function, data

    def place(self, invariants: Invariants) -> None:
        """Take steps with these `Invariants` from now on."""
        self._invariants = invariants

    def read(self) -> None:
        """Do nothing: the variables are where the steps are."""

    def position(self) -> Any:
        """Return all elements of the variables, NumPy."""
        return self._problem.position().numpy()

    def assign(self) -> None:
        """Do nothing: the variables are where the steps are."""

    def take(self, request: Request) -> Step:
        return self._function(self._data, self._invariants, request)


class Minimisation:
    """Functions to be traced that move variables to a minimum.

    Args:
        alone: whether the graphs that they are traced in hold nothing else.
    """

    def __init__(self, problem: Problem, alone: bool = False) -> None:
        self._problem, self._settings, self._residuals = problem, problem.settings, problem.residuals
        numbers = _num_numbers(Columns(problem.variables).total, problem.residuals)
        self._is_small = alone and not problem.settings.jit_compile and numbers <= SMALL

    def whole(self, data: list[Tensor], conditions: Conditions, max_steps: Tensor) -> tuple[Outcome, Invariants]:
        first, problem = self._problem.values(), self._problem
        known = Drawn.of(self._residuals, data, problem.dtype)
        invariants, progress = begun(GraphSteps(problem, data), problem, known, conditions)
        steps = GraphSteps(problem, data, invariants, self._is_small)
        progress = Driver(steps, self._settings.limits, Allowance.whole(max_steps)).run(progress)
        outcome = progress.outcome._replace(status=self._status(data, invariants, first, progress))
        return outcome._replace(x=self._problem.values()), invariants

    def _status(self, data: list[Tensor], invariants: Invariants, first: list[Tensor], progress: Progress) -> Tensor:
        """Return the status at the end, after a look at the minima, maxima and saddles that J does not see."""
        status, sees = progress.outcome.status, sees_vanished(self._problem)
        stalled = tf.equal(status, int(Status.STALLED)) & sees
        around = *self._problem.travelled(first), self._problem.box(invariants)
        doubtful = has_converged(status) & tf.reduce_any(unseen(progress.shares, *around))

        def looked_at() -> tuple[Tensor, Tensor]:
            around = self._surroundings(data, invariants, first)
            vanished = around.vanished(self._settings.limits) if sees else tf.constant(False)
            return stalled & tf.reduce_any(vanished), doubtful & around.falls()

        no = tf.constant(False)
        is_minimum, is_none = cond(stalled | doubtful, looked_at, lambda: (no, no))
        status = tf.where(is_minimum, int(Status.GRADIENT_TOLERANCE), status)
        return tf.where(is_none, int(Status.NOT_A_MINIMUM), status)

    def vanished(self, data: list[Tensor], invariants: Invariants, first: list[Tensor]) -> Tensor:
        """Return which columns of J have vanished at a minimum, `[p]`, bool; for where no step lowers the cost.

        Args:
            data: list of tensors like `residuals.specs`.
            invariants: what `begun` returned.
            first: list of tensors, what the variables held before the first step.
        """
        return self._surroundings(data, invariants, first).vanished(self._settings.limits)

    def falls(self, data: list[Tensor], invariants: Invariants, first: list[Tensor]) -> Tensor:
        """Return whether F falls beside where the variables are, a scalar bool; for where a tolerance was met."""
        return self._surroundings(data, invariants, first).falls()

    def _surroundings(self, data: list[Tensor], invariants: Invariants, first: list[Tensor]) -> Surroundings:
        objective, restrictions = self._problem.objective(data, invariants)
        return Surroundings(objective, restrictions.box, restrictions.equality, *self._problem.travelled(first))


def sees_vanished(problem: Problem) -> bool:
    """Return whether columns of J that have vanished are looked for."""
    columns = problem.columns.total
    return not problem.settings.conditions.equality and are_seen(problem.residuals.num_rows, columns)


def _num_numbers(columns: int, residuals: TracedResiduals) -> float:
    """Return about how many numbers a step is made of: JᵀJ, J, and what residuals are computed by, per column.

    Row by row, where examples mix, it is once per row: of these, 16 times as many still are far from 200 MB.
    """
    rows = residuals.num_rows
    return columns**2 + columns * rows + (1 + max(columns, rows / 16)) * residuals.num_numbers
