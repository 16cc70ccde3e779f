"""The Jacobians of several blocks of residuals, one below the other, as one."""

import itertools
from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from tfjac.linear.columns import Columns
from tfjac.linear.contracts import JacobianBlock, JacobianRows
from tfjac.linear.factors.blocks import kernel_of_blocks
from tfjac.linear.factors.forms import DenseFactor
from tfjac.linear.factors.weighted_kernel import weighted_kernel
from tfjac.linear.model.units import BlockInUnits, Units
from tfjac.linear.operator import JacobianOperator
from tfjac.types import Tensor


class StackedJacobian(JacobianRows):
    """J, of all residuals with respect to all variables; its rows are those of the blocks, one after the other.

    Args:
        operators: list of the Jacobians of the blocks, each a `JacobianOperator`, or `SomeColumns` or `ZeroRows` with
            columns for all variables. May be empty.
        rows: list of the number of rows of each, integers or scalar tensors.
        columns: `Columns`.
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
            self.value_of = value_of  # type: ignore[method-assign]

    def cast(self, dtype: tf.DType) -> "StackedJacobian":
        """Return the same in another dtype."""
        operators = [operator.cast(dtype) for operator in self.operators]
        return StackedJacobian(operators, self.rows, self.columns, dtype, self.passes, self.value_of)

    def in_units(self, units: Units) -> "StackedJacobian":
        """Return the same in `Units`."""
        operators = [BlockInUnits(operator, units) for operator in self.operators]
        return StackedJacobian(operators, self.rows, self.columns, self.dtype, self.passes, self.value_of)

    def only(self, chosen: Sequence[int]) -> "StackedJacobian | None":
        """Return the columns of the variables numbered `chosen`, where all have factors; else None."""
        if not all(type(operator) is JacobianOperator for operator in self.operators):
            return None
        columns = self.columns.only(chosen)
        parts = [([each.factors[k] for k in chosen], each.examples_and_outputs) for each in self.operators]
        operators = [JacobianOperator(factors, columns.shapes, *sizes) for factors, sizes in parts]
        return StackedJacobian(operators, self.rows, columns, self.dtype)

    def gram_and_gradient(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Return JᵀJ `[p, p]` and Jᵀu `[p]` in one pass; J is not formed."""
        pairs = [operator.gram_and_gradient(part) for operator, part in self._with_parts(vector)]
        grams, gradients = zip(*pairs) if pairs else ((), ())
        return self._sum(grams, rank=2), self._sum(gradients)

    def kernel(self, scales: Tensor) -> Tensor:
        """Return Σ_v scales[v]·J_v J_vᵀ `[rows, rows]`, J_v being the columns of variable v."""
        if len(self.operators) == 1:
            return self.operators[0].kernel(scales)
        blocks = [operator.scaled_factors(scales) for operator in self.operators]
        return kernel_of_blocks(blocks, [operator.examples_and_outputs for operator in self.operators], self.dtype)

    def weighted_kernel(self, weights: Tensor) -> Tensor:
        """Return J diag(weights) Jᵀ `[rows, rows]`, for weights `[p]`."""
        blocks = [operator.factors for operator in self.operators]
        sizes = [operator.examples_and_outputs for operator in self.operators]
        return weighted_kernel(blocks, sizes, tf.split(weights, self.columns.sizes), self.dtype)

    def column_norms_squared(self) -> Tensor:
        """Return diag(JᵀJ), `[p]`."""
        return self._sum([tf.square(operator.column_norms()) for operator in self.operators])

    def factors(self) -> list:
        """Return a list with, for each variable, the list of the factors of its columns, one for each block."""
        blocks = [operator.factors for operator in self.operators]
        return [[block[k] for block in blocks if block[k] is not None] for k in range(len(self.columns.sizes))]

    def matvec(self, vector: Tensor) -> Tensor:
        """Return J v, `[rows]`."""
        return self.stack([operator.matvec(vector) for operator in self.operators])

    def adjoint(self, vector: Tensor) -> Tensor:
        """Return Jᵀ u, `[p]`."""
        return self._sum([operator.matvec(part, adjoint=True) for operator, part in self._with_parts(vector)])

    def square(self, vector: Tensor) -> Tensor:
        """Return ‖u‖² of a vector `[rows]`, a scalar."""
        return tf.reduce_sum(tf.square(vector))

    def to_dense(self) -> Tensor:
        """Return J, `[rows, p]`."""
        return self.stack([operator.to_dense() for operator in self.operators], self.columns.total)

    def stack(self, parts: Iterable[Tensor], *width: int) -> Tensor:
        """Put what belongs to the blocks, `[rows of the block, width]` or without width, one below the other."""
        return tf.concat(list(parts) or [tf.zeros([0, *width], self.dtype)], axis=0)

    def _with_parts(self, vector: Tensor) -> Iterable[tuple[JacobianBlock, Tensor]]:
        """Return pairs of each operator and the part of a vector `[rows]` that is about its rows."""
        return zip(self.operators, tf.split(vector, self.rows) if self.operators else [])

    def _sum(self, parts: Iterable[Tensor], rank: int = 1) -> Tensor:
        return tf.add_n(list(parts) or [tf.zeros([self.columns.total] * rank, self.dtype)])


class KernelsByRows:
    """Kernels of a J whose columns were changed in a way that factors do not show: by forming it."""

    def kernel(self: JacobianRows, scales: Tensor) -> Tensor:
        """Return Σ_v scales[v]·J_v J_vᵀ `[rows, rows]`; J is formed."""
        return self.weighted_kernel(self.columns.spread(scales))

    def weighted_kernel(self: JacobianRows, weights: Tensor) -> Tensor:
        """Return J diag(weights) Jᵀ `[rows, rows]`; J is formed."""
        rows = self.to_dense() * tf.sqrt(weights)
        return DenseFactor(rows[:, None]).kernel()


class SomeColumns(JacobianBlock):
    """A Jacobian operator with columns of zeros added, for variables that its residuals do not depend on.

    Args:
        operator: `JacobianOperator` with respect to the variables numbered `present`.
        present: increasing list of indices.
        columns: `Columns` of all variables.
    """

    def __init__(self, operator: JacobianBlock, present: list[int], columns: Columns) -> None:
        self.operator, self.present, self.columns = operator, present, columns

    def cast(self, dtype: tf.DType) -> "SomeColumns":
        """Return the same in another dtype."""
        return SomeColumns(self.operator.cast(dtype), self.present, self.columns)

    def gram_and_gradient(self, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Return JᵀJ `[p, p]` and Jᵀr `[p]`."""
        gram, gradient = self.operator.gram_and_gradient(residual)
        return self._widen(self._widen(gram, axis=0), axis=1), self._widen(gradient)

    def kernel(self, scales: Tensor) -> Tensor:
        """Return Σ_v scales[v]·J_v J_vᵀ, `[rows, rows]`."""
        return self.operator.kernel(tf.gather(scales, self.present))

    def scaled_factors(self, scales: Tensor) -> list:
        """Return the factors of J·√S, one per variable; None for those that are missing."""
        return self._spread(self.operator.scaled_factors(tf.gather(scales, self.present)))

    def column_norms(self) -> Tensor:
        """Return the norms of the columns, `[p]`."""
        return self._widen(self.operator.column_norms())

    @property
    def factors(self) -> list:
        """The factors, one per variable; None for those that are missing."""
        return self._spread(self.operator.factors)

    @property
    def num_probes(self) -> int | None:
        """As of the operator."""
        return self.operator.num_probes

    @property
    def examples_and_outputs(self) -> tuple:
        """(n, m): integers where they are known while tracing, else scalar tensors."""
        return self.operator.examples_and_outputs

    def matvec(self, vector: Tensor, adjoint: bool = False) -> Tensor:
        """Return J v `[rows]`, or Jᵀ u `[p]`."""
        if adjoint:
            return self._widen(self.operator.matvec(vector, adjoint=True))
        parts = tf.split(vector, self.columns.sizes)
        return self.operator.matvec(tf.concat([parts[index] for index in self.present], axis=0))

    def to_dense(self) -> Tensor:
        """Return J, `[rows, p]`."""
        return self._widen(self.operator.to_dense(), axis=1)

    def _spread(self, factors: list) -> list:
        """Put None where the missing variables stand."""
        present = dict(zip(self.present, factors))
        return [present.get(index) for index in range(len(self.columns.sizes))]

    def _widen(self, tensor: Tensor, axis: int = 0) -> Tensor:
        """Put zeros where the missing variables stand along `axis`, at once for those that follow one another."""
        sizes, shape = self.columns.sizes, tf.unstack(tf.shape(tensor))
        parts = dict(zip(self.present, tf.split(tensor, [sizes[index] for index in self.present], axis=axis)))
        wide: list[Tensor] = []
        for is_present, run in itertools.groupby(range(len(sizes)), parts.__contains__):
            if is_present:
                wide += [parts[index] for index in run]
            else:
                size = sum(sizes[index] for index in run)
                wide.append(tf.zeros([*shape[:axis], size, *shape[axis + 1 :]], tensor.dtype))
        return tf.concat(wide, axis=axis)


class ZeroRows(JacobianBlock):
    """The Jacobian of residuals that no variable moves.

    Args:
        rows: how many they are, an integer or a scalar tensor.
        columns: `Columns` of all variables.
        dtype: of the variables.
    """

    def __init__(self, rows: list | int | Tensor, columns: Columns, dtype: tf.DType) -> None:
        self.rows, self.columns, self.dtype = rows, columns, dtype

    def cast(self, dtype: tf.DType) -> "ZeroRows":
        """Return the same in another dtype."""
        return ZeroRows(self.rows, self.columns, dtype)

    def gram_and_gradient(self, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Return zeros `[p, p]` and `[p]`."""
        return self._zeros(self.columns.total, self.columns.total), self._zeros(self.columns.total)

    def kernel(self, scales: Tensor) -> Tensor:
        """Return zeros `[rows, rows]`."""
        return self._zeros(self.rows, self.rows)

    def scaled_factors(self, _: Tensor) -> list:
        """Return None for each variable."""
        return self.factors

    @property
    def factors(self) -> list:
        """None for each variable."""
        return [None] * len(self.columns.sizes)

    @property
    def examples_and_outputs(self) -> tuple:
        """(n, m): as many examples of one output as there are rows."""
        return self.rows, 1

    def column_norms(self) -> Tensor:
        """Return zeros `[p]`."""
        return self._zeros(self.columns.total)

    def matvec(self, vector: Tensor, adjoint: bool = False) -> Tensor:
        """Return zeros `[rows]`, or `[p]` for the adjoint."""
        return self._zeros(self.columns.total if adjoint else self.rows)

    def to_dense(self) -> Tensor:
        """Return zeros `[rows, p]`."""
        return self._zeros(self.rows, self.columns.total)

    def _zeros(self, *shape: int | Tensor) -> Tensor:
        return tf.zeros(shape, self.dtype)
