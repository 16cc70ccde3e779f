"""The columns of one variable in the rows of J that are remembered: as a product of two vectors, or as they are.

A row of the weights of a dense layer, `[i, o]`, that each example uses once is a ⊗ d: i + o numbers in place of i·o.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfjac.linear.factors.forms import DenseFactor, OuterFactor
from tfjac.types import Tensor


class KeptRows:
    """N rows of one variable, in variables of the optimizer.

    Args:
        add: function from a name, a shape and a dtype to a new variable of the optimizer.
        name: what the names of the variables begin with.
        factor: a factor of the first batch, which says in what form they are kept; None for zeros.
        size: number of elements of the variable, q.
        window: N.
        dtype: of the rows.
    """

    def __init__(self, add: Callable, name: str, factor: Any, size: int, window: int, dtype: tf.DType) -> None:
        self._layout, self._size = factor.layout if _is_outer(factor) else None, size
        if self._layout is None:
            self.variables = [add(name, (window, size), dtype)]
        else:
            inputs, outputs = factor.a.shape[3], factor.d.shape[4]
            shapes = {"inputs": (window, inputs), "cotangents": (window, outputs)}
            self.variables = [add(f"{name}_{part}", shape, dtype) for part, shape in shapes.items()]

    @staticmethod
    def numbers_of(factor: Any, size: int) -> int:
        """Return how many numbers one row takes: fewer than `size` where it is a product of two vectors."""
        return factor.a.shape[3] + factor.d.shape[4] if _is_outer(factor) else size

    def takes(self, factor: Any) -> Any:
        """Return whether a factor of a batch can be kept in this form: a bool, or a scalar one where t is open."""
        if self._layout is None:
            return True
        if not _is_outer(factor) or factor.layout != self._layout:
            return False
        if [factor.a.shape[3], factor.d.shape[4]] != [variable.shape[1] for variable in self.variables]:
            return False
        return True if factor.a.shape[1] == 1 else tf.equal(tf.shape(factor.a)[1], 1)

    def rows_of(self, factor: Any, count: Any, scale: Tensor) -> list[Tensor]:
        """Return the rows of a factor of a batch times `scale`, as a list of tensors with a leading axis of `count`."""
        if factor is None:
            return [tf.zeros([count, self._size], scale.dtype)]
        if self._layout is None:
            return [scale * tf.reshape(factor.dense(), [count, self._size])]
        cotangents = scale * tf.reshape(factor.d, [count, factor.d.shape[4]])
        inputs = factor.a[:, 0, 0, None] + tf.zeros_like(factor.d[:, :, 0, 0, :1])
        return [tf.reshape(inputs, [count, factor.a.shape[3]]), cotangents]

    def products(self, some: list[Tensor], others: list[Tensor]) -> Tensor:
        """Return the products of rows with rows, `[k, N]`, both as `rows_of` returns them."""
        products = [tf.matmul(x, y, transpose_b=True) for x, y in zip(some, others)]
        return products[0] if len(products) == 1 else products[0] * products[1]

    def factor(self, rows: list[Tensor]) -> Any:
        """Return the `Factor` of rows, each an example with one residual."""
        if self._layout is None:
            return DenseFactor(rows[0][:, None])
        inputs, cotangents = rows
        return OuterFactor(inputs[:, None, None], cotangents[:, None, None, None], self._layout)


def _is_outer(factor: Any) -> bool:
    """Return whether each row of a factor is a product of two vectors, with fewer numbers than the row.

    Where the graph leaves the number of uses open, there is one: most layers are used once.
    """
    if not isinstance(factor, OuterFactor) or factor.a.shape[1] not in (1, None) or factor.a.shape[2] != 1:
        return False
    inputs, outputs = factor.a.shape[3], factor.d.shape[4]
    return inputs is not None and outputs is not None and inputs + outputs < inputs * outputs
