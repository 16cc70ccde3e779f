"""Minimisations traced once and run any number of times, in a graph or watched from outside."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import as_tf_variable, call_flat, unrecorded
from tfjac.optimizers.columns import Columns
from tfjac.optimizers.conditions.conditions import Conditions
from tfjac.optimizers.fitting.implicit import differentiable, without_derivatives
from tfjac.optimizers.loop.minimise import Minimisation
from tfjac.optimizers.loop.options import Settings
from tfjac.optimizers.loop.progress import Allowance, Invariants, Progress
from tfjac.optimizers.loop.records import LONGEST_RECORD, Outcome
from tfjac.optimizers.loop.vanished import is_doubtful, sees_vanished
from tfjac.optimizers.results.frozen import FrozenModel, FrozenPoint
from tfjac.optimizers.results.history import History
from tfjac.optimizers.results.least_squares_result import LeastSquaresResult
from tfjac.optimizers.solvers.hints import WIDEST, hints_of
from tfjac.optimizers.solvers.plan import Plan, plan_of
from tfjac.optimizers.solvers.problem_sizes import LARGE, ProblemSizes
from tfjac.optimizers.statuses import Status
from tfjac.optimizers.tracing.traced_residuals import TracedResiduals
from tfjac.optimizers.variables import nested_names
from tfjac.types import Array, Function, Nest, Tensor, Variable


class TracedMinimisation:
    """A minimisation, traced, of residuals with data left open.

    Args:
        residuals: `TracedResiduals`.
        variables: list of variables. They are not kept alive.
        settings: `Settings`.
    """

    def __init__(self, residuals: TracedResiduals, variables: list[Variable], settings: Settings) -> None:
        if settings.jit_compile:
            residuals.check_compiles()
        minimisation = Minimisation(residuals, variables, settings, tf.executing_eagerly())
        self._pace = None
        self._vanished: Any = None
        self.residuals, self._settings, self._frozen = residuals, settings, FrozenModel(residuals, settings.losses)
        self._compiled = {"jit_compile": settings.jit_compile, "autograph": False}
        if not tf.executing_eagerly():
            self._whole = tf.function(minimisation.whole, **self._compiled)
            return
        start = tf.function(minimisation.start, **self._compiled)
        with unrecorded():
            self._start = start.get_concrete_function(residuals.specs, settings.conditions)
            self._advance, self._sizes = self._traced_advance(minimisation)
        if minimisation.evaluation is not None:
            self._frozen.reuse(minimisation.evaluation.function)

    def _traced_advance(self, minimisation: Minimisation) -> tuple[Any, ProblemSizes]:
        """Return the traced function of `advance`, and the `ProblemSizes`."""
        sizes = []

        def advance(
            data: list[Tensor], invariants: Invariants, progress: Progress, allowance: Allowance
        ) -> tuple[Progress, Tensor]:
            progress, rows, found = minimisation.advance(data, invariants, progress, allowance, record=True)
            sizes.append(found)
            return progress, rows

        returned = tf.nest.map_structure(
            lambda each: tf.TensorSpec(each.shape, each.dtype), self._start.structured_outputs
        )
        number, flag = tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.bool)
        function = tf.function(advance, **self._compiled)
        concrete = function.get_concrete_function(self.residuals.specs, *returned, Allowance(number, number, flag))
        return concrete, sizes[-1]

    def plan(self, variables: list[Variable]) -> Plan:
        """Return the `Plan` of its steps, given the list of the variables."""
        return plan_of(self._settings.method.solver, self._sizes, hints=self._hints(variables))

    def _hints(self, variables: list[Variable]) -> tuple[str, ...]:
        """Return what keeps J from being sparse, sentences: its graph is read once more, and thrown away."""
        if self._sizes is None or self._sizes.parameters <= LARGE or self._sizes.reads_few(WIDEST):
            return ()
        hints: list[str] = []

        def read(data: list[Tensor]) -> None:
            tensors = self.residuals.place(data, self.residuals.draw(data))
            hints.extend(hints_of(tensors, variables))

        tf.function(read, autograph=False).get_concrete_function(self.residuals.specs)
        return tuple(hints)

    def in_graph(
        self, data: list[Tensor], variables: Nest[Variable], conditions: Conditions, max_steps: int
    ) -> Outcome:
        """Return the `Outcome` of a minimisation that is part of the graph being traced, with derivatives.

        Args:
            data: list of tensors like `residuals.specs`.
            variables: nest of the variables.
            conditions: `Conditions`.
            max_steps: integer.
        """
        flat = tf.nest.flatten(variables)
        with unrecorded():
            outcome, invariants = self._whole(data, conditions, tf.constant(max_steps))
        if any(self._settings.manifolds):
            found = outcome.in_units(invariants.unit)
            found = without_derivatives(found, "on manifolds", [*data, *self.residuals.read_traced()])
        else:
            found = differentiable(outcome, self.residuals, flat, data, invariants, self._settings)
        return found._replace(x=tf.nest.pack_sequence_as(variables, found.x))

    def __call__(
        self, data: list[Tensor], variables: Nest[Variable], conditions: Conditions, max_steps: int, supervisor: Any
    ) -> LeastSquaresResult:
        """Minimise, and leave the variables at the best point found, or as they were if the residuals raise.

        Args:
            data: list of tensors like `residuals.specs`.
            variables: nest of the variables.
            conditions: `Conditions`.
            max_steps: integer.
            supervisor: a `Supervisor`.

        Returns:
            A `LeastSquaresResult`.
        """
        run = Run(self._start, self._advance, data, variables, conditions, max_steps)
        run.pace = self._pace
        supervisor.watch(run)
        self._pace, vanished = run.pace, self._vanished_columns(run)
        read, drawn = self.residuals.read(), run.invariants.drawn
        frozen = FrozenPoint(self._frozen, data, drawn, read)
        result = LeastSquaresResult.of(run, frozen, self._settings.manifolds, vanished)
        supervisor.tell(result)
        return result

    def _vanished_columns(self, run: "Run") -> Array | None:
        """Return which columns of J have vanished at a minimum, `[p]`, bool, where a `Run` has stalled; else None.

        A run that has ended where the gradient is zero, but at no minimum, gets another status.
        """
        doubtful, rows = run.doubtful, self.residuals.num_rows
        is_asked = doubtful or (run.stalled and sees_vanished(rows, Columns(run.flat).total))
        if self._settings.conditions.equality or not is_asked:
            return None
        if self._vanished is None:
            minimisation = Minimisation(self.residuals, run.flat, self._settings, alone=True)
            given = tf.nest.map_structure(tf.type_spec_from_value, [run.invariants, run.first])
            function = tf.function(minimisation.vanished, **self._compiled)
            with unrecorded():
                self._vanished = function.get_concrete_function(self.residuals.specs, *given)
        found, falls = run.undone_if_it_raises(self._vanished, run.data, run.invariants, run.first)
        if doubtful and bool(falls):
            run.stop(Status.NOT_A_MINIMUM)
        return found.numpy() if run.stalled and found.numpy().any() else None


class Run:
    """One minimisation under way.

    Args:
        start, advance: functions traced from those of `Minimisation`.
        data: list of tensors.
        variables: nest of the variables.
        conditions: `Conditions`.
        max_steps: integer.

    Attributes:
        data: as given.
        flat: list of the variables.
        first: list of tensors, what they held before the first step.
        invariants, progress: see `Minimisation`.
        rows: list of what was written down of each step.
        pace: seconds that a step takes, as far as known.
    """

    def __init__(
        self,
        start: Function,
        advance: Function,
        data: list[Tensor],
        variables: Nest[Variable],
        conditions: Conditions,
        max_steps: int,
    ) -> None:
        self.variables, self.conditions, self.data = variables, conditions, data
        self.flat = [as_tf_variable(variable) for variable in tf.nest.flatten(variables)]
        self.first = [variable.read_value() for variable in self.flat]
        self._advance, self._max_steps = advance, tf.constant(max_steps)
        self.rows: list[Array] = []
        self.pace: float | None = None
        self._expected: float | None = None
        self.invariants, self.progress = self.undone_if_it_raises(start, data, conditions)
        if not max_steps and self.running:
            self._set_status(Status.MAX_STEPS)

    @property
    def steps(self) -> int:
        """How many steps were taken."""
        return int(self.progress.outcome.steps)

    @property
    def running(self) -> bool:
        """Whether there is no reason to stop yet."""
        return int(self.progress.outcome.status) == Status.RUNNING

    @property
    def stalled(self) -> bool:
        """Whether no step lowered the cost."""
        return int(self.progress.outcome.status) == Status.STALLED

    @property
    def doubtful(self) -> bool:
        """Whether the gradient is zero where it ended, but that may be no minimum; see `is_doubtful`."""
        if int(self.progress.outcome.status) != Status.GRADIENT_TOLERANCE:
            return False
        start, end = map(Columns(self.flat).flatten, [self.first, self.flat])
        return bool(is_doubtful(self.progress.outcome, start, end, self.conditions.box))

    @property
    def x(self) -> Any:
        """The values of the variables, NumPy, in their nest."""
        return tf.nest.pack_sequence_as(self.variables, [np.array(variable.numpy()) for variable in self.flat])

    @property
    def start(self) -> Array:
        """What the variables held before the first step, `[p]`, NumPy, float64."""
        return np.concatenate([np.ravel(value.numpy()) for value in self.first]).astype(np.float64)

    @property
    def names(self) -> Any:
        """What the variables are called."""
        return nested_names(self.variables)

    @property
    def history(self) -> History:
        """The `History` of the steps so far."""
        rows = self.rows or [np.zeros([0, 7], self.invariants.unit.dtype.as_numpy_dtype)]
        return History.of(np.concatenate(rows), float(self.invariants.unit))

    def advance(self, count: int, finish: bool = True) -> None:
        """Take at most `count` more steps, and where they end the minimisation, `finish` it."""
        before = self.steps
        until = tf.constant(before + min(count, LONGEST_RECORD))
        given = self.data, self.invariants, self.progress, Allowance(until, self._max_steps, tf.constant(finish))
        self.progress, rows = self.undone_if_it_raises(self._advance, *given)
        self.rows.append(rows.numpy()[: self.steps - before])
        self._check_resumed()

    def finish(self) -> None:
        """Take the cost and the gradient at the end, where that is still to be done."""
        if not self.running and bool(self.progress.moved):
            self.advance(0)

    def stop(self, status: Status) -> None:
        """End the minimisation for a reason of its own, a `Status`."""
        self._set_status(status)

    def go_to_best(self) -> None:
        """Assign the best point to the variables, if a step may have led to a worse one."""
        if self.progress.window:
            self._assign(Columns(self.flat).split(self.progress.window.best))

    def resume(self, invariants: Invariants, progress: Progress, values: Sequence[Any], rows: Array) -> None:
        """Go on from where another run was; what it had ended for, but convergence, may be no reason any more."""
        self._assign(values)
        self.invariants, self.progress, self.rows = invariants, progress, [rows]
        window, expected = progress.window, float(progress.outcome.cost)
        if window and bool(window.returns):
            expected = float(window.lowest)
        self._expected = expected if self.steps else None
        ended = Status(int(progress.outcome.status))
        if ended in (Status.TIME_LIMIT, Status.INTERRUPTED, Status.STOPPED, Status.MAX_STEPS):
            self._set_status(Status.RUNNING if self.steps < int(self._max_steps) else Status.MAX_STEPS)
        if self.steps and not self.running:
            self._check_ended()
            self._assign(values)  # in a window, it has taken them to the best point

    def _check_ended(self) -> None:
        """Raise ValueError where the residuals have another cost than they ended with."""
        expected, self._expected = self._expected, None
        if self.progress.window:
            expected = float(self.progress.window.lowest)
        ended, now = self.progress._replace(moved=tf.constant(True)), tf.constant(self.steps)
        given = self.data, self.invariants, ended, Allowance(now, self._max_steps, tf.constant(True))
        linearised, _ = self.undone_if_it_raises(self._advance, *given)
        self._check_cost(float(linearised.outcome.cost), expected)

    def _check_resumed(self) -> None:
        """Raise ValueError where the first step after `resume` found another cost than the last one before left."""
        if self._expected is None or not len(self.rows[-1]):
            return
        cost, reduction, *_, attempts, accepted = self.rows[-1][0]
        expected, self._expected = self._expected, None
        taken_back = attempts == 0  # from there, so that this is where it started
        self._check_cost(cost + reduction * (accepted - taken_back), expected)

    def _check_cost(self, found: float, expected: float | None) -> None:
        """Raise ValueError for another cost than a checkpoint has, but for rounding of the residuals."""
        rounding = 1e3 * np.finfo(self.progress.first_cost.dtype.as_numpy_dtype).eps ** 2
        expected = np.nan if expected is None else expected
        same = abs(found - expected) <= 1e-6 * abs(expected) + rounding * float(self.progress.first_cost)
        if not same and np.isfinite([found, expected]).any():
            self._assign(self.first)
            raise ValueError(
                "The checkpoint is of other residuals: where it goes on, the cost is not what it was. Delete the file "
                f"to start again. Received: cost {found:.6g}, in the checkpoint {expected:.6g}"
            )

    def _set_status(self, status: Status) -> None:
        outcome = self.progress.outcome._replace(status=tf.constant(int(status)))
        self.progress = self.progress._replace(outcome=outcome)

    def undone_if_it_raises(self, function: Function, *given: Any) -> Any:
        """Return what a traced function returns; if it raises, the variables are as they were before all steps."""
        try:
            return call_flat(function, tf.nest.flatten(given))
        except BaseException:
            self._assign(self.first)
            raise

    def _assign(self, values: Sequence[Any]) -> None:
        for variable, value in zip(self.flat, values):
            variable.assign(value)
