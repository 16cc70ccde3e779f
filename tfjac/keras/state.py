"""What a `LevenbergMarquardt` optimizer keeps from step to step, in variables of its own, which Keras saves."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.drive.bayesian import Precisions
from tfjac.drive.streamed.memory import is_same_loss
from tfjac.graph import as_tf_variable, compiled_by_xla
from tfjac.linear.columns import Columns
from tfjac.steps.method import Method
from tfjac.steps.records import Report, State
from tfjac.steps.statuses import Status
from tfjac.types import Tensor, Variable


class Seen(NamedTuple):
    """What is worth a warning, counted since the optimizer was built.

    Attributes:
        not_finite: steps that could not start, as the loss or its gradient was not finite.
        finite_loss: those of them whose loss was finite.
        narrow: steps on fewer residuals than there are parameters, and others than those of the step before.
        resized: steps compiled by XLA, on another number of residuals than any of those before had.
    """

    not_finite: int
    finite_loss: int
    narrow: int
    resized: int


REPEATED = 3
"""After so many steps on the same data these are all there are."""


_COUNTS = ("attempts", "status", "solver")
_NUMBERS = tuple(name for name in Report._fields if name not in _COUNTS)


class StateVariables:
    """Damping, scaling, counters, what the last step reported, and precisions: zeros before the first step.

    Counters are of int64: TensorFlow keeps variables of int32 on the CPU, out of reach of what XLA compiles for a GPU.

    Args:
        optimizer: a Keras optimizer, which the variables belong to.
        variables: list of the variables that are trained.

    Attributes:
        unit: the variable that keeps the unit of weights that residuals are linear in; None where D has none.
    """

    def __init__(self, optimizer: Any, variables: Sequence[Variable], method: Method) -> None:
        self._tell, self._taken = optimizer.pitfalls.tell, optimizer.iterations
        dtype = as_tf_variable(variables[0]).dtype.name
        self._size = Columns(variables).total

        def add(name: str, shape: Any = (), dtype: Any = dtype) -> Any:
            return optimizer.add_variable(shape, "zeros", dtype, "only_first_replica", name=name)

        self._damping_names = method.damping.state_names
        self._damping = [add(name) for name in self._damping_names]
        self._scaling = add("scaling", (self._size,)) if method.scaling.remembers else None
        self.unit = add("unit_of_outputs") if method.scaling.in_units and not method.evidence else None
        self._report, self._counts = add("report", (len(_NUMBERS),)), add("last_counts", (len(_COUNTS),), "int64")
        self._accepted, self._attempts = add("accepted_steps", (), "int64"), add("attempts", (), "int64")
        self._seen, self._first_cost = add("seen", (len(Seen._fields),), "int64"), add("first_cost")
        self._most_residuals, self._least_residuals = (
            add(f"{each}_residuals", (), "int64") for each in ("most", "least")
        )
        self._repeated = add("steps_on_same_batch", (), "int64")
        names = ("weight_precision", "noise_precision", "effective_parameters") if method.evidence else ()
        self._precisions = [add(name) for name in names]

    def read(self) -> State:
        """Return the `State` for the next step, of the graph being traced."""
        damping = tuple(variable.value.value() for variable in self._damping)
        if self._scaling is not None:
            return State(damping, self._scaling.value.value())
        return State(damping, tf.zeros([self._size], damping[0].dtype))

    def read_precisions(self) -> Precisions:
        """Return the `Precisions` for the next step, of the graph being traced."""
        return Precisions(*[variable.value.value() for variable in self._precisions])

    def write_state(self, state: State) -> None:
        """Assign the `State` for the next step, in the graph being traced."""
        for variable, value in zip(self._damping, state.damping):
            variable.value.assign(value)
        if self._scaling is not None:
            self._scaling.value.assign(state.scaling)

    def write_report(self, report: Report, num_residuals: Any = None, is_alone: bool = True) -> None:
        """Assign what a step reports, and count it, in the graph being traced.

        Args:
            num_residuals: how many residuals the step was taken on; None where the loss does not tell batches apart, as
                with dropout.
            is_alone: whether a batch is fitted alone, as nothing is remembered of its predecessors.
        """
        not_finite, is_finite = tf.equal(report.status, int(Status.NOT_FINITE)), tf.math.is_finite(report.cost_before)
        again = self._same_data(report, num_residuals)
        seen = [
            not_finite,
            not_finite & is_finite,
            self._narrow(report, again, num_residuals if is_alone else None),
            self._resized(num_residuals),
        ]
        self._count(seen, again)
        first = self._first_cost.value.value()
        self._first_cost.value.assign(tf.where(tf.equal(first, 0) & is_finite, report.cost_before, first))
        numbers = tf.stack([getattr(report, name) for name in _NUMBERS])
        numbers = tf.where(tf.math.is_nan(numbers), tf.constant(np.inf, numbers.dtype), numbers)
        counts = tf.cast(tf.stack([getattr(report, name) for name in _COUNTS]), tf.int64)
        rejected = tf.equal(report.status, int(Status.REJECTED)) | tf.equal(report.status, int(Status.STALLED))
        untried = rejected & tf.equal(report.attempts, 0)  # of a batch that is remembered alone nothing is told
        for kept, values in ((self._report, numbers), (self._counts, counts)):
            kept.value.assign(tf.where(untried, kept.value.value(), values))
        self._accepted.value.assign_add(tf.cast(report.accepted, tf.int64))
        self._attempts.value.assign_add(tf.cast(report.attempts, tf.int64))

    def _count(self, seen: list[Tensor], again: Tensor) -> None:
        """Add to what is `seen`, and have it told where there is something for the first time.

        XLA compiles no calls of Python: there it is told by callbacks, and at the end of `fit`.
        """
        before, row = self._seen.value.value(), self._repeated.value.value()
        now, repeated = before + tf.cast(tf.stack(seen), tf.int64), tf.where(again, row + 1, 0)
        self._seen.value.assign(now)
        self._repeated.value.assign(repeated)
        if not compiled_by_xla(tf.compat.v1.get_default_graph()):
            is_new = tf.reduce_any((before < 1) & (now > 0)) | tf.equal(repeated, REPEATED)
            steps = self._taken.value.value() + 1
            tf.cond(is_new, lambda: self._tell(now, self._size, repeated, steps), lambda: False)

    def _same_data(self, report: Report, num_residuals: Any) -> Tensor:
        """Return whether a step is on the data of the step before: the loss is where that left it."""
        if num_residuals is None:
            return tf.constant(False)
        before = self._report.value.value()[_NUMBERS.index("cost")]
        return is_same_loss(report.cost_before, before)

    def _narrow(self, report: Report, again: Tensor, num_residuals: Any) -> Tensor:
        """Return whether a step has fewer residuals than there are parameters, and others than the step before."""
        if num_residuals is None:
            return tf.constant(False)
        known = self._counts.value.value()[_COUNTS.index("attempts")] > 0
        elsewhere = tf.math.is_finite(report.cost_before) & ~again
        return known & elsewhere & (tf.cast(num_residuals, tf.int64) < self._size)

    def _resized(self, num_residuals: Any) -> Tensor:
        """Return whether XLA compiled this step for a number of residuals that is not between those seen before."""
        if num_residuals is None or not compiled_by_xla(tf.compat.v1.get_default_graph()):
            return tf.constant(False)
        number = tf.cast(num_residuals, tf.int64)
        most, least = (each.value.value() for each in (self._most_residuals, self._least_residuals))
        first = tf.equal(most, 0)
        self._most_residuals.value.assign(tf.maximum(most, number))
        self._least_residuals.value.assign(tf.where(first, number, tf.minimum(least, number)))
        return ~first & ((number > most) | (number < least))

    def write_precisions(self, precisions: Precisions) -> None:
        """Assign new `Precisions`, in the graph being traced."""
        for variable, value in zip(self._precisions, precisions):
            variable.value.assign(value)

    # -------------------------------------------------------------- what users read

    @property
    def damping(self) -> float:
        """λ for the next step, a float."""
        return float(self._damping[self._damping_names.index("damping")].numpy())

    @property
    def report(self) -> Report:
        """The `Report` of the last step, of NumPy numbers; what was NaN is infinite."""
        return Report(**dict(zip(_NUMBERS, self._report.numpy())), **dict(zip(_COUNTS, self._counts.numpy())))

    @property
    def status(self) -> Status:
        """How the last step ended, a `Status`."""
        return Status(int(self._counts.numpy()[_COUNTS.index("status")]))

    @property
    def accepted(self) -> int:
        """Number of accepted steps, an int."""
        return int(self._accepted.numpy())

    @property
    def attempts(self) -> int:
        return int(self._attempts.numpy())

    @property
    def seen(self) -> "Seen":
        """What is worth a warning, `Seen`, of integers."""
        return Seen(*map(int, self._seen.numpy()))

    @property
    def first_cost(self) -> float:
        """The first loss that a step started from and that was finite, a float; zero before it."""
        return float(self._first_cost.numpy())

    @property
    def size(self) -> int:
        """Number of parameters, an int."""
        return self._size

    @property
    def precisions(self) -> Precisions | None:
        """`Precisions` of floats; None without Bayesian regularisation."""
        return Precisions(*[float(variable.numpy()) for variable in self._precisions]) if self._precisions else None
