"""A whole minimisation as functions of a graph: the start, and steps, until there is a reason to stop."""

import tensorflow as tf

from tfjac.graph import SMALL
from tfjac.optimizers.columns import Columns
from tfjac.optimizers.conditions.conditions import Conditions
from tfjac.optimizers.conditions.equality import Equality
from tfjac.optimizers.loop.driver import Driver
from tfjac.optimizers.loop.native_steps import Evaluation, suits, take_native_steps
from tfjac.optimizers.loop.nonmonotone import Window
from tfjac.optimizers.loop.options import Settings
from tfjac.optimizers.loop.problem import Problem
from tfjac.optimizers.loop.progress import Allowance, Invariants, Progress
from tfjac.optimizers.loop.records import LONGEST_RECORD, Outcome, State
from tfjac.optimizers.loop.residual_curvature import Secant
from tfjac.optimizers.loop.vanished import is_doubtful, vanished_of_one
from tfjac.optimizers.objective.residuals import unit_of
from tfjac.optimizers.solvers.problem_sizes import ProblemSizes
from tfjac.optimizers.statuses import Status
from tfjac.optimizers.tracing.traced_residuals import TracedResiduals
from tfjac.types import Tensor, Variable


class Minimisation:
    """Functions to be traced that move variables to a minimum.

    Args:
        residuals: `TracedResiduals`.
        variables: list of variables.
        settings: `Settings`.
        alone: whether the graphs that they are traced in hold nothing else.

    Attributes:
        evaluation: the `Evaluation` that steps call, once they are traced; None where they call none.
    """

    def __init__(
        self, residuals: TracedResiduals, variables: list[Variable], settings: Settings, alone: bool = False
    ) -> None:
        self._residuals, self._settings = residuals, settings
        self._problem = Problem(residuals, variables, settings)
        self.evaluation: Evaluation | None = None
        self._takes_native_steps = alone and suits(residuals, variables, settings)
        numbers = _num_numbers(Columns(variables).total, residuals)
        self._is_small = alone and not settings.jit_compile and numbers <= SMALL

    def start(self, data: list[Tensor], conditions: Conditions) -> tuple[Invariants, Progress]:
        """Return the `Invariants` and the `Progress` before the first step.

        Args:
            data: list of tensors like `residuals.specs`.
            conditions: `Conditions`.
        """
        drawn = self._residuals.draw(data)
        tensors = self._residuals.place(data, drawn)
        number = tf.add_n([tf.size(tensor, tf.int64) for tensor in tensors])
        position = self._problem.position()
        status = tf.where(number > 0, int(Status.RUNNING), int(Status.NO_RESIDUALS))
        if conditions.box:
            status = tf.where(conditions.box.contains(position), status, int(Status.INFEASIBLE))
        if conditions.equality:
            position = self._project(conditions.equality, position)
            status = tf.where(conditions.equality.has_solution, status, int(Status.INFEASIBLE))
        pulls = [conditions.prior.residuals(position)] if conditions.prior else []
        unit = unit_of([*tensors, *pulls], self._problem.dtype)
        return Invariants(drawn, unit, number, conditions), self._progress(status, position)

    def _progress(self, status: Tensor, position: Tensor) -> Progress:
        """Return the first `Progress`, from `position`."""
        method, dtype = self._settings.method, self._problem.dtype
        zero, scaling = tf.zeros([], dtype), tf.zeros([self._problem.columns.total], dtype)
        secant = Secant.none_yet(scaling) if self._problem.estimates_curvature else ()
        state = State(tuple(zero for _ in method.damping.state_names), scaling, secant)
        size = self._settings.window or method.solver.usual_window
        window = Window.empty(size, position) if size > 1 else ()
        goes_back = not self._takes_native_steps
        return Progress.begun(status, self._problem.values(), state, window, goes_back=goes_back)

    def _project(self, equality: Equality, position: Tensor) -> Tensor:
        """Move the variables to the nearest point that fulfils the equations, where there is one, and return it."""
        return self._problem.go_to(tf.where(equality.has_solution, equality.project(position), position))

    def advance(
        self,
        data: list[Tensor],
        invariants: Invariants,
        progress: Progress,
        allowance: Allowance,
        record: bool = False,
    ) -> tuple[Progress, Tensor, ProblemSizes]:
        """Take steps.

        Args:
            data: list of tensors like `residuals.specs`.
            invariants, progress: what `start`, or `advance`, returned.
            allowance: an `Allowance`.
            record: whether to write down each step, a Python bool; at most `LONGEST_RECORD` of them then.

        Returns:
            The `Progress`, what was written down, `[LONGEST_RECORD, 7]`, and the `ProblemSizes` of a step.
        """
        if self._takes_native_steps:
            self.evaluation = self.evaluation or Evaluation(self._problem, data, invariants)
            given = self._problem, data, invariants, progress, allowance, LONGEST_RECORD * record
            return take_native_steps(self.evaluation, *given)
        return Driver(self._problem, data, invariants, allowance).run(progress, record, self._is_small)

    def whole(self, data: list[Tensor], conditions: Conditions, max_steps: Tensor) -> tuple[Outcome, Invariants]:
        """Return the `Outcome` of all steps, with `x`, and the `Invariants`."""
        first = self._problem.values()
        invariants, progress = self.start(data, conditions)
        ended, outcome = progress.running & (max_steps < 1), progress.outcome
        status = tf.where(ended, int(Status.MAX_STEPS), outcome.status)
        progress = progress._replace(outcome=outcome._replace(status=status))
        progress, *_ = self.advance(data, invariants, progress, Allowance.whole(max_steps))
        outcome = progress.outcome
        if not self._settings.conditions.equality:
            outcome = outcome._replace(status=self._looked_at(data, invariants, first, outcome))
        return outcome._replace(x=self._problem.values()), invariants

    def _looked_at(self, data: list[Tensor], invariants: Invariants, first: list[Tensor], outcome: Outcome) -> Tensor:
        """Return the status of an `Outcome`, after a look at the minima, maxima and saddles that J does not see."""
        stalled = tf.equal(outcome.status, int(Status.STALLED))
        start, end = map(self._problem.columns.flatten, [first, self._problem.values()])
        doubtful = is_doubtful(outcome, start, end, invariants.conditions.box)

        def looked_at() -> tuple[Tensor, Tensor]:
            vanished, falls = self.vanished(data, invariants, first)
            return stalled & tf.reduce_any(vanished), doubtful & falls

        no = tf.constant(False)
        is_minimum, is_none = tf.cond(stalled | doubtful, looked_at, lambda: (no, no))
        status = tf.where(is_minimum, int(Status.GRADIENT_TOLERANCE), outcome.status)
        return tf.where(is_none, int(Status.NOT_A_MINIMUM), status)

    def vanished(self, data: list[Tensor], invariants: Invariants, first: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Return which columns of J have vanished at a minimum, `[p]`, bool, and whether F falls nearby.

        The first is for where no step lowers the cost, the second for where the gradient is zero; see `falls_beside`.

        Args:
            data: list of tensors like `residuals.specs`.
            invariants: what `start` returned.
            first: list of tensors, what the variables held before the first step.
        """
        objective, restrictions = self._problem.objective(data, invariants)
        return vanished_of_one(objective, restrictions.box, first, self._settings.limits, self._residuals.num_rows)


def _num_numbers(columns: int, residuals: TracedResiduals) -> float:
    """Return about how many numbers a step is made of: JᵀJ, J, and what residuals are computed by, per column.

    Row by row, where examples mix, it is once per row: of these, 16 times as many still are far from 200 MB.
    """
    rows = residuals.num_rows
    return columns**2 + columns * rows + (1 + max(columns, rows / 16)) * residuals.num_numbers
