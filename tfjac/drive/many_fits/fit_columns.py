"""The parameters of one fit: what is behind the first axis of all variables, one variable after the other."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import as_tf_variable, axes
from tfjac.objective.variables import variable_name
from tfjac.types import Tensor, Variable


class FitColumns:
    """Which elements of the parameters `[n, p]` of n fits belong to which variable.

    Args:
        variables: list of variables `[B, ...]`. Where B is open, it is how many rows they have now.

    Attributes:
        count: B.
        total: p.
        num_variables: how many variables there are.

    Raises:
        ValueError: for variables without a first axis, or of different lengths; inside of a graph for an open one.
    """

    def __init__(self, variables: list[Variable]) -> None:
        shapes = [_shape_now(as_tf_variable(variable)) for variable in variables]
        if any(shape.rank == 0 for shape in shapes) or len({shape[0] for shape in shapes}) > 1:
            listed = ", ".join(f"{variable_name(each)}: {shape}" for each, shape in zip(variables, shapes))
            raise ValueError(
                "With batch_dims=1 every variable has the fits along its first axis, as many in each. "
                f"Received: {listed}"
            )
        if shapes[0][0] is None:
            raise ValueError(
                "Inside of a tf.function the number of fits must be known while tracing: use variables of a fixed "
                f"shape, or call this outside. Received: {variable_name(variables[0])} of shape {shapes[0]}"
            )
        self.count, self.dtype = shapes[0][0], as_tf_variable(variables[0]).dtype.base_dtype
        self._shapes = [shape[1:] for shape in shapes]
        self._sizes = [shape.num_elements() for shape in self._shapes]
        self.total, self.num_variables = sum(self._sizes), len(variables)

    def specs(self, size: int | None) -> list[tf.TensorSpec]:
        """Return `tf.TensorSpec` of the variables' values for `size` fits, or None for any number."""
        return [tf.TensorSpec([size, *shape], self.dtype) for shape in self._shapes]

    def flatten(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return tensors `[n, ...]` like the variables as one `[n, p]`."""
        return tf.concat([tf.reshape(each, [-1, size]) for each, size in zip(tensors, self._sizes) if size], axis=1)

    def split(self, matrix: Tensor) -> list[Tensor]:
        """Return `[n, p]` as a list of tensors `[n, ...]` like the variables."""
        parts = tf.split(matrix, self._sizes, axis=1)
        return [  # beside a size of zero, -1 does not say n
            tf.reshape(part, [-1, *shape]) if size else tf.zeros([axes(matrix)[0], *shape], matrix.dtype)
            for part, size, shape in zip(parts, self._sizes, self._shapes)
        ]

    def rows(self, vector: Tensor) -> Tensor:
        """Return a vector of the elements of all variables, one variable after the other, as `[B, p]`."""
        return self.flatten(tf.split(vector, [self.count * size for size in self._sizes]))


def _shape_now(variable: Any) -> tf.TensorShape:
    """Return the shape of a variable, that of what it holds where its own is open and there is no graph."""
    is_open = not variable.shape.is_fully_defined()
    return variable.read_value().shape if is_open and tf.executing_eagerly() else variable.shape
