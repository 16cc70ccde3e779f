"""Steps on windows of batches: each pass over a window judges the step that is under way, and prepares the next.

Between batches the variables hold the best point found. With every batch the step under way is tried: F is taken where
the variables are and where the step leads to, on the same examples, and linearised there. When the window is full, the
sums over it say what becomes of the step:

    accepted: the variables move, and what was summed up is the linearisation at the new point;
    rejected: the linearisation that the step came from is solved again, with more damping.

Either gives the next step. So a step takes one pass over the data, whatever becomes of it; the first pass, in which the
step is zero, only linearises. A step is judged on other examples than those it was computed from, where windows differ,
but always by the costs of both points on the same ones.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import tensorflow as tf

from tfjac.drive.streamed.attempts import AwaitedStep, Start, judged, propose
from tfjac.drive.streamed.batch_weight import BatchWeight, weight_of_batch
from tfjac.drive.streamed.sums import Costs, Equations, Sums
from tfjac.graph import replay
from tfjac.linear import arrays
from tfjac.linear.columns import Columns
from tfjac.linear.solvers.base import zeros_unless
from tfjac.linear.solvers.problem_sizes import ProblemSizes
from tfjac.objective.objective import LocalObjective
from tfjac.objective.residuals import inlined, objective_of_loss
from tfjac.steps.method import Method
from tfjac.steps.records import Report, State
from tfjac.steps.statuses import Status
from tfjac.types import Tensor, Variable


class KeptState(Protocol):
    """Where the optimizer keeps the `State` for the next step, and what a step reports."""

    def read(self) -> State:
        """Return the `State`, in the graph being traced."""

    def write_state(self, state: State) -> None:
        """Assign it."""

    def write_report(self, report: Report) -> Any:
        """Assign a `Report`, and count it."""


class Windows:
    """Accumulates what the batches of a window give, and takes a step at the end of each.

    Args:
        add: function from a name, a shape and a dtype to a new variable of the optimizer.
        columns: `Columns` of the variables that are trained.
        dtype: of these.
        method: a `Method`, whose solver is Cholesky's.
        state: the `StateVariables` of the optimizer.
        length: how many batches a window has.

    Attributes:
        sums: the `Sums` of the window so far.
    """

    what = "sums of JᵀJ"

    def __init__(
        self, add: Callable, columns: Columns, dtype: tf.DType, method: Method, state: KeptState, length: int
    ) -> None:
        self._columns, self._dtype, self._method, self._state = columns, dtype, method, state
        wide = tf.as_dtype(method.gram_dtype or dtype)
        self.sums = Sums(add, columns.total, wide)
        self._kept = Equations.variables(add, "kept", columns.total, wide)
        self._step, self._proposed = add("step_under_way", (columns.total,), dtype), add("proposed", (4,), dtype)
        self._position = add("start_of_step", (columns.total,), dtype)
        self._under_way = add("step_is_under_way", (), "int64")
        self._length = add("batches_per_window", (), "int64")
        self.set_length(length)

    def set_length(self, length: int) -> None:
        """Say how many batches a window has, outside of any graph being traced."""
        with tf.init_scope():
            self._length.assign(length)

    @property
    def length(self) -> int:
        """How many batches a window has, an int."""
        return int(self._length.numpy())

    def forget(self) -> None:
        """Forget the batches of the window so far, outside of any graph being traced; the step under way stays."""
        with tf.init_scope():
            self.sums.clear()

    def take(self, loss: Tensor, variables: Sequence[Variable], verify: bool | None) -> tuple:
        """Add a batch to the window, in the graph being traced, and take a step where that is full.

        Args:
            loss: scalar tensor, the loss of the batch where the variables are.
            variables: list of the variables that are trained.
            verify: whether to verify, see `verification_wanted`.

        Returns:
            The number of steps that were judged, zero or one, int64, and the `ProblemSizes`.
        """
        loss, _ = inlined(loss, variables)
        share = weight_of_batch(loss, variables)
        here = LocalObjective(tf.reduce_sum(loss), [], None, variables)
        values = here.values()
        position = self._columns.flatten(values)
        self._begin_again_where_moved(position)
        here.move(values, self._step.value.value())
        (again,) = replay([loss], reread=variables)
        there = objective_of_loss(again, variables, verify=verify)
        linearisation = there.linearise()
        costs = Costs(*(tf.cast(objective.cost, tf.float64) for objective in (here, there)))
        batches = self.sums.add(Equations.of(linearisation, self._kept.gram.dtype), costs, share)
        accepted, steps = tf.cond(
            batches >= self._length.value.value(),
            lambda: self._close(position, share),
            lambda: (tf.constant(False), tf.constant(0, tf.int64)),
        )
        there.restore_unless(accepted, values)
        return steps, ProblemSizes.of(linearisation, self._method.gram_dtype)

    def _begin_again_where_moved(self, position: Tensor) -> None:
        """Drop what is known where other code has assigned to the variables: it is about another point."""

        def begin_again() -> bool:
            self.sums.clear()
            self._step.value.assign(tf.zeros_like(position))
            self._under_way.value.assign(0)
            self._position.value.assign(position)
            return True

        moved = tf.reduce_any(tf.not_equal(position, self._position.value.value()))
        tf.cond(moved, begin_again, lambda: False)

    # -------------------------------------------------------------- the end of a window

    def _close(self, position: Tensor, share: BatchWeight) -> tuple[Tensor, Tensor]:
        """Judge the step under way, keep what came of it, and propose the next one.

        A window that says nothing, without examples or with none that weighs anything, is as if it had not been.

        Returns:
            Whether the step was accepted, scalar bool, and the number of steps reported, int64.
        """
        found, costs = self.sums.totals(share)
        self.sums.clear()
        under_way, awaited = tf.equal(self._under_way.value.value(), 1), self._awaited()
        cost, after, gain = (tf.cast(each, self._dtype) for each in (*costs, costs.here - costs.there))
        start = Start(self._kept.read(), position, cost)
        state, report, promised = judged(start, awaited, self._state.read(), self._method, after, gain)
        heard = _says_anything(found, costs)
        known, begins = under_way & heard & tf.math.is_finite(costs.here), heard & ~under_way
        accepted = known & report.accepted
        hopeless = known & tf.equal(report.status, int(Status.STALLED))
        again = tf.where(known & ~accepted, awaited.rejected + 1, tf.zeros_like(cost))

        state = arrays.choice(known, state, self._state.read())
        tf.cond(accepted | begins, lambda: _done(self._kept.assign(found)), lambda: False)
        position = tf.where(accepted, position + awaited.step, position)
        start = Start(self._kept.read(), position, tf.where(accepted, after, cost))
        self._position.value.assign(position)
        following, proposed_with, usable, otherwise = propose(start, state, self._method, again, promised)
        note = lambda: self._note(following, usable & ~hopeless)  # noqa: E731
        tf.cond(known | begins, lambda: _done(note()), lambda: False)
        told = heard & (known | ~usable)
        report = arrays.choice(known, report, otherwise)
        tf.cond(told, lambda: _done(self._state.write_report(report)), lambda: False)
        self._state.write_state(arrays.choice(heard & usable, proposed_with, state))
        return accepted, tf.cast(told, tf.int64)

    def _awaited(self) -> AwaitedStep:
        """Return the step under way, a `AwaitedStep`."""
        return AwaitedStep(self._step.value.value(), *tf.unstack(self._proposed.value.value()))

    def _note(self, awaited: AwaitedStep, worth_trying: Tensor) -> None:
        """Keep a step, zeros where it is not worth trying, so that the next window only linearises."""
        step, *numbers = awaited
        self._step.value.assign(zeros_unless(worth_trying, step))
        self._proposed.value.assign(tf.stack(numbers))
        self._under_way.value.assign(tf.cast(worth_trying, tf.int64))


def _says_anything(found: Equations, costs: Costs) -> Tensor:
    """Return whether `Equations` and `Costs` are those of any examples: without, they are all zero."""
    numbers = (tf.linalg.diag_part(found.gram), found.gradient, found.precision, tf.stack(costs))
    return tf.reduce_any(tf.stack([tf.reduce_any(tf.not_equal(each, 0)) for each in numbers]))


def _done(_: Any) -> bool:
    """Return what a branch with effects alone returns."""
    return True
