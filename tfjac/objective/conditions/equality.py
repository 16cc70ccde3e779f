"""Linear equations between parameters, A w = b, as they are asked for: a matrix, or a function that is linear."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.arguments import as_numbers
from tfjac.graph import as_tf_variable, inline_calls
from tfjac.jacobians import jacobian
from tfjac.linear.columns import Columns
from tfjac.objective.tracing.callables import function_of_data
from tfjac.objective.tracing.traced_residuals import TracedResiduals, traceable
from tfjac.objective.variables import variable_name
from tfjac.steps.conditions import Equality
from tfjac.types import Array, Nest, Tensor, Variable


class GivenEquality:
    """What was asked for, checked.

    Args:
        equality: `(A, b)`, arrays `[k, p]` and `[k]`; or a callable that returns what must be zero; or None.
        fixed: `[p]`, bool.

    Attributes:
        are_given: whether there are equations.
        count: how many of them do not follow from others, or from what is fixed.

    Raises:
        ValueError, TypeError: for other shapes, numbers that are not finite, a function that is not linear,
            equations that contradict one another, or variables with constraints of Keras.
    """

    def __init__(self, variables: Nest[Variable], equality: Any, fixed: Array) -> None:
        self.are_given, self.count = equality is not None, 0
        self._flat, self._fixed = tf.nest.flatten(variables), fixed
        if not self.are_given:
            return
        constrained = [variable_name(v) for v in self._flat if getattr(v, "constraint", None) is not None]
        if constrained:
            raise ValueError(
                "equality is for variables without constraints of their own, which would move them off the plane. "
                f"Received: constraints of {constrained}"
            )
        read = _of_function(equality, variables) if callable(equality) else _of_matrix(equality, fixed.size)
        lengths = np.linalg.norm(read[0], axis=1)
        lengths = np.where(lengths > 0, lengths, 1)
        self._matrix, self._target = read[0] / lengths[:, None], read[1] / lengths
        # Of the free columns alone: what rounding puts into the others would move parameters that are fixed.
        left, values, right = np.linalg.svd(self._matrix[:, ~fixed])
        self.count = int(np.sum(values > 1e-10 * values.max(initial=0)))
        self._normals, self._rest = np.zeros([self.count, fixed.size]), left[:, self.count :]
        self._normals[:, ~fixed] = right[: self.count]
        self._solve = (left[:, : self.count] / values[: self.count]).T
        if not fixed.any():
            self._check_agreement(self._target)

    def tensors(self) -> Any:
        """Return the `Equality` of a minimisation from where the variables are; an empty tuple without equations.

        Raises:
            ValueError: outside of a graph, where what is fixed contradicts the equations.
        """
        if not self.are_given:
            return ()
        start = Columns(self._flat).flatten([as_tf_variable(variable).read_value() for variable in self._flat])
        held = tf.cast(tf.where(self._fixed, start, tf.zeros_like(start)), tf.float64)
        target = self._target - tf.linalg.matvec(self._matrix, held)
        if tf.executing_eagerly():
            self._check_agreement(target.numpy())
        offsets = tf.linalg.matvec(tf.constant(self._solve), target)
        has_solution = self._disagreement(target) <= _ROUNDING
        return Equality(tf.constant(self._normals, start.dtype), tf.cast(offsets, start.dtype), has_solution)

    @property
    def equations(self) -> list[Array]:
        """A and b as they were asked for, rows of A of length one: a list of two arrays, empty without equations."""
        return [self._matrix, self._target] if self.are_given else []

    def _disagreement(self, target: Tensor) -> Tensor:
        gap = tf.linalg.matvec(tf.constant(self._rest), target, transpose_a=True)
        return tf.norm(gap) / (1 + tf.norm(target))

    def _check_agreement(self, target: Tensor) -> None:
        with tf.init_scope():  # known while a function is being traced, too
            gap = float(self._disagreement(tf.constant(target)))
        if gap > _ROUNDING:
            raise ValueError(
                "The equations of equality contradict one another, or what is fixed: no point fulfils all of them. "
                f"Received: {len(target)} equations, {self.count} of them independent, missed by {gap:.3g}"
            )


_ROUNDING = 1e-6
"""Relative to the equations, scaled to length one: data may be in single precision."""


def _of_matrix(equality: Any, size: int) -> tuple[Array, Array]:
    """Return A `[k, p]` and b `[k]` as given, checked."""
    if not isinstance(equality, (tuple, list)) or len(equality) != 2:
        raise TypeError(
            "equality must be a pair (A, b) of arrays [k, p] and [k], or a function of the variables that returns what "
            f"must be zero. Received: equality={equality!r}"
        )
    matrix, target = (as_numbers("equality", each) for each in equality)
    matrix = np.atleast_2d(matrix)
    if matrix.ndim != 2 or matrix.shape[1] != size or target.shape not in ((), (len(matrix),)):
        raise ValueError(
            f"equality=(A, b) has a column of A for each of the {size} parameters, flattened in the order of the nest, "
            "and an element of b for each row. "
            f"Received: A of shape {np.shape(equality[0])}, b of shape {np.shape(equality[1])}"
        )
    if not (np.isfinite(matrix).all() and np.isfinite(target).all()):
        raise ValueError(f"equality=(A, b) must be finite. Received: equality={equality!r}")
    return matrix, np.broadcast_to(target, len(matrix))


def _of_function(function: Callable, variables: Nest[Variable]) -> tuple[Array, Array]:
    """Return A and b with A w − b what a function of the variables returns, as its Jacobian and its value say."""
    flat = tf.nest.flatten(variables)
    function = function_of_data(function, variables, ())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it returns a single number
        traced = TracedResiduals(traceable(function, flat).get_concrete_function(), flat)
    with tf.init_scope():
        read = {k: position for k, position in enumerate(traced.positions) if position is not None}
        values, rng = traced.read(), np.random.default_rng(0)
        data, drawn = traced.data(()), traced.draw(traced.data(()))

        @tf.function(autograph=False)
        def linearised(*given: Tensor) -> tuple[Tensor, Tensor]:
            moved = [tf.identity(value) for value in given]
            tensors = inline_calls(traced.place_at(data, drawn, moved), moved)
            flattened = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)
            blocks = jacobian(flattened, [moved[place] for place in read.values()], unconnected_gradients="zero")
            return tf.concat([tf.reshape(block, [tf.size(flattened), -1]) for block in blocks], axis=1), flattened

        def at(size: float, around: float = 1) -> tuple[Array, Array]:
            moved = list(values)
            for place in read.values():
                shift = tf.constant(size * rng.standard_normal(values[place].shape), values[place].dtype)
                moved[place] = tf.math.multiply_no_nan(values[place], tf.cast(around, shift.dtype)) + shift
            matrix, returned = (each.numpy().astype(np.float64) for each in linearised(*moved))
            position = np.concatenate([np.ravel(moved[place]) for place in read.values()]).astype(np.float64)
            return matrix, returned - matrix @ position

        # The same bits wherever the variables are, so that a checkpoint knows the equations again.
        matrix, constant = at(0.0, around=0)
        if not (np.isfinite(matrix).all() and np.isfinite(constant).all()):
            matrix, constant = at(1.0, around=0)
        _check_linear(matrix, constant, [at(size) for size in (1.0, 3.0)], values[0].dtype)
    columns = Columns(flat)
    wide = np.zeros([len(matrix), columns.total])
    starts = np.cumsum([0, *columns.sizes])
    wide[:, np.concatenate([np.arange(starts[k], starts[k + 1]) for k in read])] = matrix
    return wide, -constant


def _check_linear(matrix: Array, constant: Array, others: Any, dtype: Any) -> None:
    tolerance = np.sqrt(np.finfo(dtype.as_numpy_dtype).eps)
    for other, shift in others:
        change = np.abs(other - matrix).max(axis=1) / (np.abs(matrix).max(axis=1) + tolerance)
        change = np.maximum(change, np.abs(shift - constant) / (1 + np.abs(constant)))
        if not np.all(change <= tolerance):
            raise ValueError(
                "equality must be linear in the variables: a function whose Jacobian is the same everywhere. "
                f"Received: a function whose element {int(np.argmax(~(change <= tolerance)))} is not"
            )
