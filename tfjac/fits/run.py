"""A minimisation under way, outside of graphs: its steps are taken one by one, and may be watched."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.drive.dense import DenseObjective
from tfjac.drive.driver import Driver
from tfjac.fits.results.history import History
from tfjac.graph import as_tf_variable
from tfjac.linear import arrays
from tfjac.linear.columns import Columns
from tfjac.objective.variables import nested_names
from tfjac.steps.conditions import Conditions
from tfjac.steps.converge import Tolerances
from tfjac.steps.progress import Allowance, Invariants, Progress
from tfjac.steps.records import Report, row_of
from tfjac.steps.statuses import Status
from tfjac.steps.vanished import Surroundings
from tfjac.types import Array, Nest, Tensor, Variable


class Run:
    """One minimisation under way.

    Args:
        carrier: who takes its steps, from where the variables are.
        conditions: `Conditions`, NumPy.

    Attributes:
        data, variables, conditions: as given.
        flat: list of the variables.
        first: list of tensors, what they held before the first step.
        invariants, progress: what `begin` was given, and the steps have made of it.
        rows: list of what was written down of each step.
    """

    invariants: Invariants
    progress: Progress

    def __init__(
        self,
        carrier: Any,
        limits: Tolerances,
        data: list[Tensor],
        variables: Nest[Variable],
        conditions: Conditions,
        max_steps: int,
    ) -> None:
        self.variables, self.conditions, self.data = variables, conditions, data
        self.flat = [as_tf_variable(variable) for variable in tf.nest.flatten(variables)]
        self.first = [variable.read_value() for variable in self.flat]
        self._carrier, self._limits, self._max_steps = carrier, limits, np.int32(max_steps)
        self.rows: list[list[float]] = []
        self._expected: float | None = None
        self._resumed = 0

    def begin(self, invariants: Invariants, progress: Progress) -> None:
        """Be before the first step."""
        self._carrier.place(invariants)
        self.invariants, self.progress = invariants, progress

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
        return self._history_of(self.rows)

    @property
    def last_step(self) -> list[Any]:
        """The numbers of the last step, in the order of `History`."""
        return [column.item() for column in self._history_of(self.rows[-1:])]

    def _history_of(self, rows: list[list[float]]) -> History:
        return History.of(np.asarray(rows, self.invariants.unit.dtype), float(self.invariants.unit))

    def advance(self, steps: int = 1, finish: bool = True) -> None:
        """Take one more step, or more until it is known that it led to a minimum; at the end, `finish` it."""
        until = np.int32(self.steps + steps)
        allowance = Allowance(until, self._max_steps, np.bool_(finish))
        self.progress = self._driven(self.progress, allowance)
        self._check_resumed()

    def _driven(self, progress: Progress, allowance: Allowance) -> Progress:
        """Return the `Progress` after more steps; if residuals raise, the variables are as they were at first."""
        before = self._carrier.values()
        try:
            with self.undone(), arrays.quiet():
                return Driver(self._carrier, self._limits, allowance, self._note).run(progress)
        except KeyboardInterrupt:
            self._carrier.write(before)
            raise

    def _note(self, report: Report) -> None:
        self.rows.append(row_of(report))

    def assign(self) -> None:
        """Assign to the variables where the steps have led."""
        self._carrier.assign()

    def finish(self) -> None:
        """Take the cost and the gradient at the end, where that is still to be done."""
        if not self.running and self.progress.moved:
            self.advance(0)

    def stop(self, status: Status) -> None:
        """End the minimisation for another reason, a `Status`."""
        outcome = self.progress.outcome._replace(status=np.int32(status))
        self.progress = self.progress._replace(outcome=outcome)

    def travelled(self) -> tuple[Array, Array]:
        """Return by how much each parameter has moved, and how large it has been, `[p]` each, of `DenseSteps`."""
        end = self._carrier.position()
        moved = np.abs(end - np.concatenate([np.ravel(value.numpy()) for value in self.first]))
        return moved, np.maximum(moved, np.abs(end))

    def surroundings(self) -> Surroundings:
        """Return the `Surroundings` of where the variables are, of `DenseSteps`."""
        return Surroundings(DenseObjective(self._carrier), self.conditions.box or None, None, *self.travelled())

    def go_to_best(self) -> None:
        """Assign the best point to the variables, if a step may have led to a worse one."""
        if self.progress.window:
            self._assign(np.split(self.progress.window.best, np.cumsum(Columns(self.flat).sizes)[:-1]))

    def resume(self, invariants: Invariants, progress: Progress, values: Sequence[Any], rows: Array) -> None:
        """Go on from where another run was; what it had ended for, but convergence, may be no reason any more."""
        self._carrier.place(invariants)
        self._assign(values)
        self.invariants, self.progress, self.rows = invariants, progress, rows.tolist()
        window, expected = progress.window, float(progress.outcome.cost)
        if window and bool(window.returns):
            expected = float(window.lowest)
        self._expected, self._resumed = expected if self.steps else None, len(self.rows)
        ended = Status(int(progress.outcome.status))
        if ended in (Status.TIME_LIMIT, Status.INTERRUPTED, Status.STOPPED, Status.MAX_STEPS):
            self.stop(Status.RUNNING if self.steps < self._max_steps else Status.MAX_STEPS)
        if self.steps and not self.running:
            self._check_ended()
            self._assign(values)  # in a window, it has taken them to the best point

    def _check_ended(self) -> None:
        """Raise ValueError where the residuals have another cost than they ended with."""
        expected, self._expected = self._expected, None
        if self.progress.window:
            expected = float(self.progress.window.lowest)
        ended = self.progress._replace(moved=np.True_)
        linearised = self._driven(ended, Allowance(np.int32(self.steps), self._max_steps, np.True_))
        self._check_cost(float(linearised.outcome.cost), expected)

    def _check_resumed(self) -> None:
        """Raise ValueError where the first step after `resume` found another cost than the last one before left."""
        if self._expected is None or len(self.rows) == self._resumed:
            return
        cost, reduction, *_, attempts, accepted = self.rows[self._resumed]
        expected, self._expected = self._expected, None
        taken_back = attempts == 0  # from there, so that this is where it started
        self._check_cost(cost + reduction * (accepted - taken_back), expected)

    def _check_cost(self, found: float, expected: float | None) -> None:
        """Raise ValueError for another cost than a checkpoint has, but for rounding of the residuals."""
        rounding = 1e3 * arrays.finfo(self.progress.first_cost).eps ** 2
        expected = np.nan if expected is None else expected
        same = abs(found - expected) <= 1e-6 * abs(expected) + rounding * float(self.progress.first_cost)
        if not same and np.isfinite([found, expected]).any():
            self._assign(self.first)
            raise ValueError(
                "The checkpoint is of other residuals: where it goes on, the cost is not what it was. Delete the file "
                f"to start again. Received: cost {found:.6g}, in the checkpoint {expected:.6g}"
            )

    @contextlib.contextmanager
    def undone(self) -> Iterator[None]:
        """Let the variables hold what they held before the first step, if what is done meanwhile raises."""
        try:
            yield
        except BaseException:
            self._assign(self.first)
            raise

    def _assign(self, values: Sequence[Any]) -> None:
        for variable, value in zip(self.flat, values):
            variable.assign(tf.reshape(value, variable.shape))
        self._carrier.read()
