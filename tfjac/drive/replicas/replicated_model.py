"""The linearisation of residuals that are spread over replicas: their rows stand below one another."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.drive.replicas.gathering import Replica, on_each
from tfjac.linear.columns import Columns
from tfjac.linear.contracts import JacobianBlock, LinearModel
from tfjac.linear.factors.forms import concatenated
from tfjac.linear.model import Linearisation, StackedJacobian, Units
from tfjac.linear.prior import total
from tfjac.types import Tensor


class ReplicatedLinearisation(Linearisation):
    """The sum of the quadratic models of the replicas.

    Each replica contracts its own rows on its own device. From there go the p² numbers of JᵀJ and the p of g, or the p
    of JᵀJ v; its rows stay, unless a solver works in the space of the residuals.

    Args:
        parts: list of the `Linearisation` of each replica.
        replicas: list of `Replica`.
    """

    def __init__(self, parts: list[LinearModel], replicas: list[Replica]) -> None:
        self._parts, self._replicas = parts, replicas
        pairs = zip(parts, replicas)
        placed = [_Placed(operator, replica) for part, replica in pairs for operator in part.jacobian.operators]
        rows = [n * m for n, m in (operator.examples_and_outputs for operator in placed)]
        first = parts[0].jacobian
        jacobian = _AllRows(placed, rows, first.columns, first.dtype, [part.jacobian for part in parts])
        super().__init__(jacobian, jacobian.stack([part.residual for part in parts]), total([p.prior for p in parts]))

    def cast(self, dtype: tf.DType) -> "ReplicatedLinearisation":
        """Return the same in another dtype."""
        return ReplicatedLinearisation(self._on_each(lambda part: part.cast(dtype)), self._replicas)

    def in_units(self, units: Units) -> "ReplicatedLinearisation":
        """Return the same in `Units`."""
        return ReplicatedLinearisation(self._on_each(lambda part: part.in_units(units)), self._replicas)

    def gradient(self) -> Tensor:
        """Return g, `[p]`."""
        return tf.add_n(self._on_each(lambda part: part.gradient()))

    def gram_and_gradient(self) -> tuple[Tensor, Tensor]:
        """Return JᵀJ `[p, p]` and g `[p]`."""
        grams, gradients = zip(*self._on_each(lambda part: part.gram_and_gradient()))
        return tf.add_n(grams), tf.add_n(gradients)

    def curvature(self, vector: Tensor) -> Tensor:
        """Return JᵀJ v, `[p]`."""
        return tf.add_n(self._on_each(lambda part: part.curvature(vector)))

    def quadratic(self, step: Tensor) -> Tensor:
        """Return pᵀ(JᵀJ + Λ)p, a scalar."""
        return tf.add_n(self._on_each(lambda part: part.quadratic(step)))

    def _on_each(self, compute: Callable) -> list:
        return on_each(self._replicas, compute, self._parts)


class _AllRows(StackedJacobian):
    """The rows of all replicas, which have the same blocks, of other examples each.

    Args:
        operators, rows, columns, dtype: as for `StackedJacobian`.
        parts: list of the `StackedJacobian` of each replica.
    """

    def __init__(
        self, operators: Sequence[JacobianBlock], rows: Any, columns: Columns, dtype: tf.DType, parts: Any
    ) -> None:
        super().__init__(operators, rows, columns, dtype)
        self._parts = parts

    def cast(self, dtype: tf.DType) -> "_AllRows":
        """Return the same in another dtype."""
        return _AllRows(
            [operator.cast(dtype) for operator in self.operators],
            self.rows,
            self.columns,
            dtype,
            [part.cast(dtype) for part in self._parts],
        )

    def factors(self) -> list:
        """Return a list with, for each variable, the list of the factors of its columns, of all examples."""
        by_variable = zip(*(part.factors() for part in self._parts))
        return [[concatenated(same) for same in zip(*blocks)] for blocks in by_variable]


class _Placed(JacobianBlock):
    """A Jacobian operator whose products are computed on the device of its replica."""

    def __init__(self, operator: JacobianBlock, replica: Replica) -> None:
        self._operator, self._replica = operator, replica

    @property
    def factors(self) -> list:
        return self._operator.factors

    @property
    def num_probes(self) -> int | None:
        return self._operator.num_probes

    def cast(self, dtype: tf.DType) -> "_Placed":
        return _Placed(self._on_device(self._operator.cast, dtype), self._replica)

    def gram_and_gradient(self, residual: Tensor) -> tuple[Tensor, Tensor]:
        return self._on_device(self._operator.gram_and_gradient, residual)

    def kernel(self, scales: Tensor) -> Tensor:
        return self._on_device(self._operator.kernel, scales)

    def scaled_factors(self, scales: Tensor) -> list:
        return self._on_device(self._operator.scaled_factors, scales)

    @property
    def examples_and_outputs(self) -> tuple:
        return self._operator.examples_and_outputs

    def column_norms(self) -> Tensor:
        return self._on_device(self._operator.column_norms)

    def matvec(self, vector: Tensor, adjoint: bool = False) -> Tensor:
        return self._on_device(self._operator.matvec, vector, adjoint)

    def to_dense(self) -> Tensor:
        return self._on_device(self._operator.to_dense)

    def _on_device(self, method: Callable, *arguments: Any) -> Any:
        with self._replica.placed():
            return method(*arguments)
