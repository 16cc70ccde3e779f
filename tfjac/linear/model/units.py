"""A linear model in units of the variables: J v is that of v times the unit of each variable."""

from typing import NamedTuple

import tensorflow as tf

from tfjac.linear.columns import Columns
from tfjac.linear.contracts import JacobianBlock
from tfjac.linear.prior import Prior
from tfjac.types import Tensor


class Units(NamedTuple):
    """A unit for each variable.

    Attributes:
        numbers: `[num_variables]`, the units.
        vector: `[p]`, that of each parameter.
        changed: tuple of the indices of the variables whose unit may be another than one.
    """

    numbers: tf.Tensor
    vector: tf.Tensor
    changed: tuple

    @classmethod
    def of(cls, columns: Columns, unit: Tensor, changed: tuple) -> "Units":
        """Return those of which `changed` variables have `unit`, a scalar, and all others one."""
        numbers = [unit if k in changed else tf.ones_like(unit) for k in range(len(columns.sizes))]
        parts = [tf.fill([size], number) for size, number in zip(columns.sizes, numbers)]
        return cls(tf.stack(numbers), tf.concat(parts, axis=0), changed)

    def cast(self, dtype: tf.DType) -> "Units":
        """Return the same in another dtype."""
        return self._replace(numbers=tf.cast(self.numbers, dtype), vector=tf.cast(self.vector, dtype))

    def of_factors(self, factors: list) -> list:
        """Return the factors of the columns of J, one for each variable or None, in these units."""
        return [
            factor.scaled(self.numbers[k]) if factor is not None and k in self.changed else factor
            for k, factor in enumerate(factors)
        ]

    def of_prior(self, prior: Prior) -> Prior:
        """Return a `Prior` in these units."""
        known = prior.has_one_number_per_variable
        per_variable = prior.per_variable * tf.square(self.numbers) if known else None
        precision, gradient = prior.precision * tf.square(self.vector), prior.gradient * self.vector
        return Prior(precision, gradient, per_variable, prior.is_zero, prior.is_data)


class BlockInUnits(JacobianBlock):
    """The Jacobian of one block of residuals, in `Units`.

    Args:
        block: `JacobianBlock`, in the units that variables have.
        units: `Units`.
    """

    def __init__(self, block: JacobianBlock, units: Units) -> None:
        self._block, self._units = block, units
        self._factors = units.of_factors(block.factors)

    @property
    def factors(self) -> list:
        """The factors, one per variable; None for a variable that does not move these residuals."""
        return self._factors

    @property
    def num_probes(self) -> int | None:
        """As of the block."""
        return self._block.num_probes

    @property
    def examples_and_outputs(self) -> tuple:
        """(n, m): integers where they are known while tracing, else scalar tensors."""
        return self._block.examples_and_outputs

    def cast(self, dtype: tf.DType) -> "BlockInUnits":
        """Return the same in another dtype."""
        return BlockInUnits(self._block.cast(dtype), self._units.cast(dtype))

    def gram_and_gradient(self, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Return JᵀJ `[p, p]` and Jᵀr `[p]`."""
        (gram, gradient), units = self._block.gram_and_gradient(residual), self._units.vector
        return gram * units[:, None] * units, gradient * units

    def kernel(self, scales: Tensor) -> Tensor:
        """Return Σ_v scales[v]·J_v J_vᵀ, `[n·m, n·m]`."""
        return self._block.kernel(scales * tf.square(self._units.numbers))

    def scaled_factors(self, scales: Tensor) -> list:
        """Return the factors of J·√S, one per variable; None where there is none."""
        return self._block.scaled_factors(scales * tf.square(self._units.numbers))

    def column_norms(self) -> Tensor:
        """Return the norms of the columns, `[p]`."""
        return self._block.column_norms() * self._units.vector

    def matvec(self, x: Tensor, adjoint: bool = False) -> Tensor:
        """Return J v `[n·m]`, or Jᵀu `[p]`."""
        units = self._units.vector
        return self._block.matvec(x, adjoint=True) * units if adjoint else self._block.matvec(x * units)

    def to_dense(self) -> Tensor:
        """Return J, `[n·m, p]`."""
        return self._block.to_dense() * self._units.vector
