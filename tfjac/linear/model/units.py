"""A linear model in units of the variables: J v is that of v times the unit of each variable."""

import tensorflow as tf

from tfjac.linear.columns import Columns
from tfjac.linear.model.right_factor import RightFactor
from tfjac.linear.prior import Prior
from tfjac.types import Tensor


class Units(RightFactor):
    """A unit for each variable.

    Args:
        numbers: `[num_variables]`, the units.
        vector: `[p]`, that of each parameter.
        changed: tuple of the indices of the variables whose unit may be another than one.
    """

    def __init__(self, numbers: Tensor, vector: Tensor, changed: tuple) -> None:
        self.numbers, self.vector, self._changed = numbers, vector, changed

    @classmethod
    def of(cls, columns: Columns, unit: Tensor, changed: tuple) -> "Units":
        """Return those of which `changed` variables have `unit`, a scalar, and all others one."""
        numbers = [unit if k in changed else tf.ones_like(unit) for k in range(len(columns.sizes))]
        parts = [tf.fill([size], number) for size, number in zip(columns.sizes, numbers)]
        return cls(tf.stack(numbers), tf.concat(parts, axis=0), changed)

    def cast(self, dtype: tf.DType) -> "Units":
        return Units(tf.cast(self.numbers, dtype), tf.cast(self.vector, dtype), self._changed)

    def forward(self, vector: Tensor) -> Tensor:
        return vector * self.vector

    def pull(self, rows: Tensor) -> Tensor:
        return rows * self.vector

    def gram(self, gram: Tensor) -> Tensor:
        return gram * self.vector[:, None] * self.vector

    def squares(self, squares: Tensor) -> Tensor:
        return squares * tf.square(self.vector)

    def factors(self, factors: list) -> list:
        changed = [factor is not None and k in self._changed for k, factor in enumerate(factors)]
        return [f.scaled(self.numbers[k]) if changed[k] else f for k, f in enumerate(factors)]

    def of_prior(self, prior: Prior) -> Prior:
        known = prior.has_one_number_per_variable
        per_variable = prior.per_variable * tf.square(self.numbers) if known else None
        precision, gradient = prior.precision * tf.square(self.vector), prior.gradient * self.vector
        return Prior(precision, gradient, per_variable, prior.is_zero, prior.is_data)
