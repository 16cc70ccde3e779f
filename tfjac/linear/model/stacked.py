"""The Jacobians of several blocks of residuals, one below the other, as one."""

from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from tfjac.linear.columns import Columns
from tfjac.linear.contracts import JacobianBlock, JacobianRows
from tfjac.linear.factors.forms import kernel
from tfjac.linear.factors.weighted_kernel import kernel_of_blocks, weighted_kernel
from tfjac.linear.model.right_factor import BlockTimes
from tfjac.linear.model.units import Units
from tfjac.linear.operator import JacobianOperator
from tfjac.types import Tensor


class StackedJacobian(JacobianRows):
    """J, of all residuals with respect to all variables; its rows are those of the blocks, one after the other.

    Args:
        operators: list of the `JacobianBlock` of each block, with columns for all variables. May be empty.
        rows: list of the number of rows of each, integers or scalar tensors.
        dtype: what its elements are.
        passes: bytes that the backward passes take which its factors come from, as far as the graph fixes them.
        value_of: see `JacobianRows`.
    """

    def __init__(
        self,
        operators: Sequence[JacobianBlock],
        rows: list | int | Tensor,
        columns: Columns,
        dtype: tf.DType,
        passes: float = 0.0,
        value_of: Callable | None = None,
    ) -> None:
        self.operators, self.rows, self.columns, self.dtype = operators, rows, columns, dtype
        self.passes = passes
        if value_of is not None:
            self.value_of = value_of

    def cast(self, dtype: tf.DType) -> "StackedJacobian":
        operators = [operator.cast(dtype) for operator in self.operators]
        return StackedJacobian(operators, self.rows, self.columns, dtype, self.passes, self.value_of)

    def in_units(self, units: Units) -> "StackedJacobian":
        """Return the same in `Units`."""
        operators = [BlockTimes(operator, units) for operator in self.operators]
        return StackedJacobian(operators, self.rows, self.columns, self.dtype, self.passes, self.value_of)

    def only(self, chosen: Sequence[int]) -> "StackedJacobian | None":
        """Return the columns of the variables numbered `chosen`, where all have factors; else None."""
        if not all(type(operator) is JacobianOperator for operator in self.operators):
            return None
        columns = self.columns.only(chosen)
        parts = [([each.factors[k] for k in chosen], each.examples_and_outputs) for each in self.operators]
        operators = [JacobianOperator(factors, columns.shapes, *sizes) for factors, sizes in parts]
        return StackedJacobian(operators, self.rows, columns, self.dtype, value_of=self.value_of)

    def gram_and_gradient(self, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Return JᵀJ `[p, p]` and Jᵀr `[p]` in one pass; J is not formed."""
        pairs = self._each(lambda operator, part: operator.gram_and_gradient(part), self._split(residual))
        grams, gradients = zip(*pairs) if pairs else ((), ())
        return self._sum(grams, rank=2), self._sum(gradients)

    def kernel(self, scales: Tensor) -> Tensor:
        if self._is_estimated():
            return super().kernel(scales)
        roots = tf.unstack(tf.sqrt(scales), len(self.columns.sizes))
        blocks = self._each(lambda operator: [f and f.scaled(root) for f, root in zip(operator.factors, roots)])
        if len(blocks) == 1 and any(blocks[0]):
            return kernel([factor for factor in blocks[0] if factor is not None])
        return kernel_of_blocks(blocks, [operator.examples_and_outputs for operator in self.operators], self.dtype)

    def weighted_kernel(self, weights: Tensor) -> Tensor:
        if self._is_estimated():
            return super().weighted_kernel(weights)
        blocks = [operator.factors for operator in self.operators]
        sizes = [operator.examples_and_outputs for operator in self.operators]
        return weighted_kernel(blocks, sizes, tf.split(weights, self.columns.sizes), self.dtype)

    def column_norms_squared(self) -> Tensor:
        return self._sum(self._each(lambda operator: operator.column_norms_squared()))

    def factors(self) -> list:
        """Return a list with, for each variable, the list of the factors of its columns, one for each block."""
        blocks = [operator.factors for operator in self.operators]
        return [[block[k] for block in blocks if block[k] is not None] for k in range(len(self.columns.sizes))]

    def matvec(self, x: Tensor, adjoint: bool = False) -> Tensor:
        if adjoint:
            return self._sum(self._each(lambda operator, part: operator.matvec(part, adjoint=True), self._split(x)))
        return self.stack(self._each(lambda operator: operator.matvec(x)))

    def matvecs(self, vectors: Sequence[Tensor]) -> list[Tensor]:
        def of_block(operator: JacobianBlock) -> list[Tensor]:
            if isinstance(operator, JacobianOperator):
                return tf.unstack(operator.matmul(tf.stack(vectors, axis=1)), len(vectors), axis=1)
            return [operator.matvec(vector) for vector in vectors]

        return [self.stack(parts) for parts in zip(*self._each(of_block))]

    def to_dense(self) -> Tensor:
        return self.stack(self._each(lambda operator: operator.to_dense()), self.columns.total)

    def stack(self, parts: Iterable[Tensor], *width: int) -> Tensor:
        """Put what belongs to the blocks, `[rows of the block, width]` or without width, one below the other."""
        return tf.concat(list(parts) or [tf.zeros([0, *width], self.dtype)], axis=0)

    def _each(self, compute: Callable, *given: Iterable) -> list:
        """Return a list of what `compute` does of each operator and what is given for it."""
        return [compute(*each) for each in zip(self.operators, *given)]

    def _is_estimated(self) -> bool:
        """Whether the factors of some block are estimates, and none of J."""
        return any(operator.num_probes is not None for operator in self.operators)

    def _split(self, vector: Tensor) -> list[Tensor]:
        """Return the parts of a vector `[rows]` that are about the rows of each operator."""
        return tf.split(vector, self.rows) if self.operators else []

    def _sum(self, parts: Iterable[Tensor], rank: int = 1) -> Tensor:
        return tf.add_n(list(parts) or [tf.zeros([self.columns.total] * rank, self.dtype)])
