"""The residuals and their Jacobian where a minimisation ended, whatever its variables hold now."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import tensorflow as tf

from tfjac.graph import call_outside, eager_creation, lean_function
from tfjac.linear.factors.gather_factor import row_grams
from tfjac.linear.model.elimination import is_read_by_rows
from tfjac.objective.residuals import objective_of_residuals
from tfjac.objective.robust import influence, losses_of
from tfjac.objective.tracing.traced_residuals import TracedResiduals
from tfjac.types import Tensor


class FrozenModel:
    """J and r of traced residuals, as functions of data, of what was drawn, and of the values of all variables read.

    With robust losses, Σψ² and Σψ′ too, of ψ = ρ′r and ψ′ = ρ′ + 2zρ″, and ρ′ of each row.

    The user's variables are left alone: variables of its own, made when it is first asked, take their values.

    Args:
        losses: what `get_losses` returned.
    """

    def __init__(self, residuals: TracedResiduals, losses: Any = None) -> None:
        self._residuals, self._lock = residuals, threading.Lock()
        self._losses = losses_of(losses, residuals.num_tensors)
        self._columns = [position for position in residuals.positions if position is not None]
        self._variables: list | None = None
        self._traces: dict[Callable, Any] = {}
        self._evaluation: Any = None

    def reuse(self, evaluation: Any) -> None:
        """Take J and r from what steps called, where that says the same, so that J is not traced once more.

        That is so where the residuals are one tensor, whose rows are in order; where they read no other variables, of
        which steps take what these hold now; and where J is that of squares.

        Args:
            evaluation: `tf.ConcreteFunction`, as of `Evaluation`.
        """
        read = range(len(self._residuals.handles))
        is_all = len(self._columns) == len(read) and set(self._columns) == set(read)
        if is_all and self._residuals.num_tensors == 1 and not any(self._losses):
            self._evaluation = evaluation

    def __call__(self, data: Sequence[Tensor], drawn: Sequence[Tensor], values: list[Tensor]) -> tuple:
        """Return J `[rows, p]`, r `[rows]`, tensor by tensor, and Σψ², Σψ′ and ρ′ `[rows]`, or None for squares; NumPy.

        Args:
            data: list of tensors like `residuals.specs`.
            drawn: list of tensors, what `residuals.draw` returned.
            values: list of tensors, what the variables in `residuals.handles` held.
        """
        if self._evaluation is not None:
            return self._evaluated(data, drawn, values)
        jacobian, residual, influence = self.run(self.dense, data, drawn, values)
        return jacobian.numpy(), residual.numpy(), tuple(each.numpy() for each in influence) or None

    def _evaluated(self, data: Sequence[Tensor], drawn: Sequence[Tensor], values: list[Tensor]) -> tuple:
        with tf.init_scope():
            position = tf.concat([tf.reshape(values[place], [-1]) for place in self._columns], axis=0)
            unit = tf.ones([], position.dtype)
        _, residual, jacobian = call_outside(self._evaluation, [position, *data, *drawn, unit])
        return jacobian.numpy(), residual.numpy(), None

    def row_grams(self, data: Sequence[Tensor], drawn: Sequence[Tensor], values: list[Tensor]) -> list:
        """Return JᵀJ of each row of the variables that are read by index, `[rows, o, o]`, NumPy; None for others.

        J is not formed.

        Args:
            data, drawn, values: as above.
        """
        found = self.run(self._of_rows, data, drawn, values)
        return [each.numpy() if each.shape.rank == 3 else None for each in found]

    def run(self, compute: Callable, data: Sequence[Tensor], drawn: Sequence[Tensor], values: list[Tensor]) -> Any:
        """Return what `compute` does of the residuals and their `Objective` there, in the graph of a function."""
        with self._lock:
            if compute not in self._traces:
                self._traces[compute] = self._traced(compute)
            with tf.init_scope():
                for variable, value in zip(self._variables or [], values):
                    variable.assign(value)
            return call_outside(self._traces[compute], [*data, *drawn])

    def _traced(self, compute: Callable) -> Any:
        residuals, specs = self._residuals, self._residuals.handle_specs
        if self._variables is None:
            with eager_creation():
                self._variables = [tf.Variable(tf.zeros(spec.shape, spec.dtype), trainable=False) for spec in specs]
        variables = self._variables
        handles = [each.handle for each in variables]
        moved = [variables[index] for index in residuals.positions if index is not None]  # others were refused

        def linearised(*tensors: Any) -> Any:
            data, drawn = tensors[: len(residuals.specs)], tensors[len(residuals.specs) :]
            placed = residuals.place(data, drawn, handles)
            return compute(placed, objective_of_residuals(placed, moved))

        trace = lean_function(linearised)
        return trace.get_concrete_function(*residuals.specs, *residuals.drawn_specs)

    def dense(self, tensors: Any, objective: Any) -> tuple:
        """Return J, r and the pair of sums, as tensors, from residuals and their `Objective`."""
        linearisation = objective.linearise()
        jacobian, residual = linearisation.jacobian.to_dense(), linearisation.residual
        if len(tensors) > 1:
            order = tf.argsort(objective.places_of_rows())
            jacobian, residual = tf.gather(jacobian, order), tf.gather(residual, order)
        return jacobian, residual, self._influence(tensors)

    @staticmethod
    def _of_rows(tensors: Any, objective: Any) -> list[Tensor]:
        linearisation = objective.linearise()
        factors = linearisation.jacobian.factors()
        return [row_grams(own) if is_read_by_rows(own) else tf.zeros([0], linearisation.dtype) for own in factors]

    def _influence(self, tensors: Any) -> tuple:
        if not any(self._losses):
            return ()
        squares, bends, slopes = zip(*(influence(*each) for each in zip(tensors, self._losses)))
        sums = [tf.add_n([tf.reduce_sum(each) for each in column]) for column in (squares, bends)]
        return *sums, tf.concat([tf.reshape(each, [-1]) for each in slopes], axis=0)


class FrozenPoint(NamedTuple):
    """A `FrozenModel` and what it is asked with."""

    model: FrozenModel
    data: list
    drawn: list
    values: list

    def __deepcopy__(self, memo: Any) -> "FrozenPoint":
        return self  # nothing of it changes

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "The result of a fit holds a graph of TensorFlow, which cannot be written down. Pickle its numbers, such "
            "as fit.x and fit.covariance(), or of a named fit fit.params, or its text fit.params.to_json(). "
            "Received: the result of a fit"
        )

    def linearised(self) -> tuple:
        """Return what the model says there."""
        return self.model(self.data, self.drawn, self.values)

    def run(self, compute: Callable) -> Any:
        """Return what `compute` does there, see `FrozenModel.run`."""
        return self.model.run(compute, self.data, self.drawn, self.values)

    def row_grams(self) -> list:
        """Return JᵀJ of each row of the variables there, see `FrozenModel.row_grams`."""
        return self.model.row_grams(self.data, self.drawn, self.values)
