"""Sums over the workers of a strategy, each a process with a graph of its own: the same step is traced in all of them.

What workers decide by are sums, of which all have the same bits, so that their loops end together.
"""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import tensorflow as tf

from tfjac.drive.replicas.replicated_model import SummedModels
from tfjac.graph import sum_over_workers
from tfjac.linear.contracts import AS_FACTORS, Allowed, JacobianRows, LinearModel
from tfjac.linear.model import Linearisation
from tfjac.linear.prior import Prior
from tfjac.objective.objective import LocalObjective
from tfjac.types import Tensor, Variable


class WorkersObjective(LocalObjective):
    """F = Σ F_k over workers k, of which this one has its own examples.

    Args:
        own: the `Objective` of this worker, in its copies of the variables.
        variables: list of the variables, which know of their constraints.

    Cost: one all-reduce of p² + p numbers for a linearisation that forms JᵀJ, one of p for each product with it, one of
    2p where there are regularisers, and one of a single number for each cost.
    """

    is_shared = True

    def __init__(self, own: LocalObjective, variables: Sequence[Variable]) -> None:
        super().__init__(_total(own.cost), [], own.prior, variables)
        self._own, self.sums_squares = own, own.sums_squares

    def values(self) -> list[Tensor]:
        return self._own.values()

    def linearise(self, allowed: Allowed = AS_FACTORS) -> LinearModel:
        """Return the `Linearisation` of all residuals, of which the rows of other workers are theirs."""
        return _SharedLinearisation(self._own.linearise(allowed))

    def change_of_rows(self) -> Tensor:
        """Return how much more the tensors of the rows of this worker are now, `[rows]`."""
        return self._own.change_of_rows()

    def evaluate(self) -> Tensor:
        return _total(self._own.evaluate())

    def write(self, values: list[Tensor]) -> None:
        """Assign `values` to the variables of this worker."""
        self._own.write(values)


class _SharedLinearisation(SummedModels, Linearisation):
    """The sum of the quadratic models of all workers, with the rows of this one."""

    is_shared = True

    def __init__(self, own: LinearModel) -> None:
        super().__init__(_SharedRows(own.jacobian), own.residual, _shared(own.prior))
        self._own = own

    def cast(self, dtype: tf.DType) -> "_SharedLinearisation":
        return _SharedLinearisation(self._own.cast(dtype))

    def _sum(self, compute: Callable) -> Any:
        part = compute(self._own)
        return tf.nest.pack_sequence_as(part, sum_over_workers(tf.nest.flatten(part)))


class _SharedRows(JacobianRows):
    """The rows of J of this worker, whose products with vectors of rows are those of all."""

    def __init__(self, own: JacobianRows) -> None:
        self._own = own
        self.operators, self.columns, self.dtype = own.operators, own.columns, own.dtype
        self.passes = own.passes

    def cast(self, dtype: tf.DType) -> "_SharedRows":
        return _SharedRows(self._own.cast(dtype))

    def to_dense(self) -> NoReturn:
        """Refuse: the rows of other workers are theirs."""
        raise ValueError(
            "Several workers share the rows of J among them: use solver='cholesky', 'cg' or 'auto'. "
            "Received: a solver that works with rows"
        )

    def factors(self) -> list:
        """Return none for each variable: those of other workers are not here."""
        return [[] for _ in self.columns.sizes]

    def column_norms_squared(self) -> Tensor:
        return _total(self._own.column_norms_squared())

    def square(self, vector: Tensor) -> Tensor:
        return _total(self._own.square(vector))

    def matvec(self, x: Tensor, adjoint: bool = False) -> Tensor:
        """Return J v of the rows of this worker, or Jᵀu `[p]` of what all workers have of u."""
        product = self._own.matvec(x, adjoint)
        return _total(product) if adjoint else product


def _shared(prior: Prior) -> Prior:
    """Return the sum of the `Prior` of all workers; how it is spread over a variable is for none of them to say."""
    precision, gradient = prior.precision, prior.gradient
    if not prior.is_zero:
        precision, gradient = sum_over_workers([precision, gradient])
    return Prior(precision, gradient, None, prior.is_zero, prior.is_data)


def _total(tensor: Tensor) -> Tensor:
    return sum_over_workers([tensor])[0]
