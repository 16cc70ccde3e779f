"""The columns of J: the elements of all variables, each flattened, one variable after the other."""

import copy
from collections.abc import Sequence

import tensorflow as tf

from tfjac.types import Tensor, Variable


class Columns:
    """Which elements of a vector `[p]` belong to which variable.

    Args:
        variables: list of variables, or of whatever else has a fixed shape.
    """

    def __init__(self, variables: Sequence[Variable]) -> None:
        self.shapes = [tf.TensorShape(variable.shape) for variable in variables]
        self.sizes = [shape.num_elements() for shape in self.shapes]
        self.total = sum(self.sizes)

    def only(self, chosen: Sequence[int]) -> "Columns":
        """Return those of the variables numbered `chosen`."""
        some = copy.copy(self)
        some.shapes, some.sizes = ([each[k] for k in chosen] for each in (self.shapes, self.sizes))
        some.total = sum(some.sizes)
        return some

    def flatten(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return tensors of the variables' shapes as one vector `[p]`."""
        return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)

    def split(self, vector: Tensor) -> list[Tensor]:
        """Return a vector `[p]` as a list of tensors of the variables' shapes."""
        return [tf.reshape(part, shape) for part, shape in zip(tf.split(vector, self.sizes), self.shapes)]

    def firsts(self, vector: Tensor) -> Tensor:
        """Return the first element of `vector` `[p]` for each variable, `[num_variables]`; any for an empty one."""
        starts = [min(sum(self.sizes[:index]), self.total - 1) for index in range(len(self.sizes))]
        return tf.gather(vector, starts)

    def spread(self, numbers: Tensor) -> Tensor:
        """Return `[num_variables]` numbers, each repeated for the elements of its variable, `[p]`."""
        parts = [tf.fill([size], number) for size, number in zip(self.sizes, tf.unstack(numbers))]
        return tf.concat(parts, axis=0)
