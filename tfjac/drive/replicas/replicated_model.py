"""The linearisation of residuals that are spread over replicas: their rows stand below one another."""

import abc
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from tfjac.drive.replicas.gathering import Replica, on_each
from tfjac.linear.contracts import JacobianRows, LinearModel
from tfjac.linear.factors.forms import concatenated
from tfjac.linear.model import Linearisation, StackedJacobian, Units
from tfjac.linear.prior import total
from tfjac.types import Tensor


class SummedModels(abc.ABC):
    """The part of a `Linearisation` that is a sum over several places, each of which has its own rows."""

    @abc.abstractmethod
    def _sum(self, compute: Callable) -> Any:
        """Return the sum of `compute(model)` over the models of all places, a tensor or a tuple of them."""

    def gradient(self) -> Tensor:
        return self._sum(lambda model: model.gradient())

    def gram_and_gradient(self) -> tuple[Tensor, Tensor]:
        return self._sum(lambda model: model.gram_and_gradient())

    def curvature(self, vector: Tensor) -> Tensor:
        return self._sum(lambda model: model.curvature(vector))

    def quadratic(self, step: Tensor) -> Tensor:
        return self._sum(lambda model: model.quadratic(step))


class ReplicatedLinearisation(SummedModels, Linearisation):
    """The sum of the quadratic models of the replicas.

    Each replica contracts its own rows on its own device. From there go the p² numbers of JᵀJ and the p of g, or the p
    of JᵀJ v; its rows stay, unless a solver works in the space of the residuals.

    Args:
        parts: list of the `Linearisation` of each replica.
    """

    def __init__(self, parts: list[LinearModel], replicas: list[Replica]) -> None:
        self._parts, self._replicas = parts, replicas
        jacobian = AllRows([part.jacobian for part in parts], replicas)
        super().__init__(jacobian, jacobian.stack([part.residual for part in parts]), total([p.prior for p in parts]))

    def cast(self, dtype: tf.DType) -> "ReplicatedLinearisation":
        return ReplicatedLinearisation(self._on_each(lambda part: part.cast(dtype)), self._replicas)

    def in_units(self, units: Units) -> "ReplicatedLinearisation":
        return ReplicatedLinearisation(self._on_each(lambda part: part.in_units(units)), self._replicas)

    def _sum(self, compute: Callable) -> Any:
        return tf.nest.map_structure(lambda *parts: tf.add_n(parts), *self._on_each(compute))

    def _on_each(self, compute: Callable) -> list:
        return on_each(self._replicas, compute, self._parts)


class AllRows(StackedJacobian):
    """The rows of all replicas, which have the same blocks, of other examples each; products are on their devices.

    Args:
        parts: list of the `StackedJacobian` of each replica.
    """

    def __init__(self, parts: list[JacobianRows], replicas: list[Replica]) -> None:
        operators = [operator for part in parts for operator in part.operators]
        rows = [n * m for n, m in (operator.examples_and_outputs for operator in operators)]
        super().__init__(operators, rows, parts[0].columns, parts[0].dtype, value_of=parts[0].value_of)
        self._parts, self._replicas = parts, replicas
        self._places = [replica for part, replica in zip(parts, replicas) for _ in part.operators]

    def cast(self, dtype: tf.DType) -> "AllRows":
        return AllRows(on_each(self._replicas, lambda part: part.cast(dtype), self._parts), self._replicas)

    def factors(self) -> list:
        """Return a list with, for each variable, the list of the factors of its columns, of all examples."""
        by_variable = zip(*(part.factors() for part in self._parts))
        return [[concatenated(same) for same in zip(*blocks)] for blocks in by_variable]

    def _each(self, compute: Callable, *given: Iterable) -> list:
        return on_each(self._places, lambda each: compute(*each), list(zip(self.operators, *given)))
