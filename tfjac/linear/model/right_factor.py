"""J K: a Jacobian whose columns were changed, as products of J and of K."""

import abc
import itertools
from typing import Any

import tensorflow as tf

from tfjac.graph import axes
from tfjac.linear.columns import Columns
from tfjac.linear.contracts import Jacobian, JacobianBlock, JacobianRows
from tfjac.types import Tensor


class RightFactor(abc.ABC):
    """K `[p, q]`, as products: a change of variables p = K y, or a choice of columns."""

    @abc.abstractmethod
    def cast(self, dtype: tf.DType) -> "RightFactor":
        """Return the same in another dtype."""

    @abc.abstractmethod
    def forward(self, vector: Tensor) -> Tensor:
        """Return K y, `[p]`."""

    @abc.abstractmethod
    def pull(self, rows: Tensor) -> Tensor:
        """Return X K for X `[rows, p]`; or Kᵀv for a vector `[p]`."""

    @abc.abstractmethod
    def gram(self, gram: Tensor) -> Tensor:
        """Return Kᵀ G K `[q, q]` for G `[p, p]`, which is symmetric."""

    def squares(self, squares: Tensor) -> Tensor:
        """Return the squared norms `[q]` of the columns of J K from those of J, or what stands for them."""
        return self.pull(squares)

    def factors(self, factors: list) -> list:
        """Return for each variable what becomes of the factors of its columns."""
        return factors


class Selection(RightFactor):
    """The columns of some variables; those of others are zeros.

    Args:
        present: increasing list of the indices of the variables that J has columns of. May be empty.
        columns: `Columns` of all variables.
    """

    def __init__(self, present: list[int], columns: Columns) -> None:
        self._present, self._sizes = present, columns.sizes

    def cast(self, dtype: tf.DType) -> "Selection":
        return self

    def forward(self, vector: Tensor) -> Tensor:
        parts = tf.split(vector, self._sizes)
        return tf.concat([parts[index] for index in self._present] or [vector[:0]], axis=0)

    def pull(self, rows: Tensor) -> Tensor:
        return self._widen(rows, axis=rows.shape.rank - 1)

    def gram(self, gram: Tensor) -> Tensor:
        return self.pull(self._widen(gram, axis=0))

    def factors(self, factors: list) -> list:
        present = dict(zip(self._present, factors))
        return [present.get(index) for index in range(len(self._sizes))]

    def _widen(self, tensor: Tensor, axis: int) -> Tensor:
        """Put zeros where the other variables stand along `axis`, at once for those that follow one another."""
        own, shape = [self._sizes[index] for index in self._present], axes(tensor)
        parts = dict(zip(self._present, tf.split(tensor, own, axis) if own else []))
        wide: list[Tensor] = []
        for is_present, run in itertools.groupby(range(len(self._sizes)), parts.__contains__):
            if is_present:
                wide += [parts[index] for index in run]
            else:
                size = sum(self._sizes[index] for index in run)
                wide.append(tf.zeros([*shape[:axis], size, *shape[axis + 1 :]], tensor.dtype))
        return tf.concat(wide, axis)


class JacobianTimes(Jacobian):
    """J K.

    Args:
        jacobian: J.
        right: `RightFactor`, K.
    """

    def __init__(self, jacobian: Any, right: RightFactor) -> None:
        self._jacobian, self._right = jacobian, right

    def cast(self, dtype: tf.DType) -> Any:
        return type(self)(self._jacobian.cast(dtype), self._right.cast(dtype))

    def gram_and_gradient(self, residual: Tensor) -> tuple[Tensor, Tensor]:
        gram, gradient = self._jacobian.gram_and_gradient(residual)
        return self._right.gram(gram), self._right.pull(gradient)

    def column_norms_squared(self) -> Tensor:
        return self._right.squares(self._jacobian.column_norms_squared())

    def matvec(self, x: Tensor, adjoint: bool = False) -> Tensor:
        if adjoint:
            return self._right.pull(self._jacobian.matvec(x, adjoint=True))
        return self._jacobian.matvec(self._right.forward(x))

    def to_dense(self) -> Tensor:
        return self._right.pull(self._jacobian.to_dense())


class BlockTimes(JacobianTimes, JacobianBlock):
    """J K for J of one block of residuals."""

    def __init__(self, jacobian: JacobianBlock, right: RightFactor) -> None:
        super().__init__(jacobian, right)
        self._factors = right.factors(jacobian.factors)

    @property
    def factors(self) -> list:
        return self._factors

    @property
    def num_probes(self) -> int | None:
        return self._jacobian.num_probes

    @property
    def examples_and_outputs(self) -> tuple:
        return self._jacobian.examples_and_outputs


class RowsTimes(JacobianTimes, JacobianRows):
    """J K for J of all residuals; its `operators` are those of J."""

    def __init__(self, jacobian: JacobianRows, right: RightFactor) -> None:
        super().__init__(jacobian, right)
        self.operators, self.columns, self.dtype = jacobian.operators, jacobian.columns, jacobian.dtype
        self.passes, self.value_of = jacobian.passes, jacobian.value_of

    def factors(self) -> list[list]:
        return self._right.factors(self._jacobian.factors())

    def square(self, vector: Tensor) -> Tensor:
        return self._jacobian.square(vector)
