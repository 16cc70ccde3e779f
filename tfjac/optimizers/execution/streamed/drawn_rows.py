"""One row of J for each example as a memory, where an example has many outputs: all its rows would fill the window.

The row is the sum of all rows of the example with random signs: the expectation of its product with itself is their
JᵀJ. It says nothing of r, so that the gradient of what is remembered is kept beside the rows:

    p = −(JᵀJ + λI)⁻¹ h,    h ← β(h + JᵀJp) + g

Where p is solved for exactly, h + JᵀJp is −λp: a momentum. β and the least λ were chosen by trials of a NumPy twin on
digits (6,310 weights, one seed): at equal numbers of steps the training loss is about a half of that without h.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfjac.jacobians.factors.forms import DenseFactor, OuterFactor
from tfjac.optimizers.columns import Columns
from tfjac.optimizers.contracts import LinearModel
from tfjac.optimizers.execution.streamed.rows import RecallingRows, RowModel, Window
from tfjac.types import Tensor

KEPT_OF_GRADIENT = 0.5
"""β."""


class DrawnRowModel(RowModel):
    """J `[N, p]` and JJᵀ `[N, N]` of the last examples, each times √d of its batch; r is zero; h `[p]`, times d.

    Args:
        add, columns, dtype, window: as of `RowModel`.
    """

    damping_of_other_losses = 2.0

    def __init__(self, add: Callable, columns: Columns, dtype: tf.DType, window: int) -> None:
        super().__init__(add, columns, dtype, window)
        self._drawn = add("batches_drawn", (), "int64")
        self._gradient = add("gradient_kept", (columns.total,), dtype)

    def takes(self, batch: LinearModel) -> Any:
        """Return whether a batch has one block of no more than N examples, and factors of the form that is kept."""
        return len(batch.jacobian.operators) == 1 and super().takes(batch)

    def _rows_of(self, batch: LinearModel) -> tuple:
        """Return the factors of a batch with one row for each example, how many these are, and zeros.

        Signs follow from how many batches there were, so that a saved optimizer goes on with the same ones.
        """
        (operator,) = batch.jacobian.operators
        examples, outputs = operator.examples_and_outputs
        seed = tf.stack([self._drawn.value.read_value(), 0])
        bits = tf.random.stateless_uniform([examples, outputs], seed, 0, 2, tf.int32)
        signs = tf.cast(2 * bits - 1, batch.dtype)
        return [_drawn(factor, signs) for factor in operator.factors], examples, tf.zeros([examples], batch.dtype)

    def _gradient_beside(self, has_begun: Tensor) -> Tensor | None:
        """Return βh `[p]`, or zeros."""
        gradient = KEPT_OF_GRADIENT * self._gradient.value.read_value()
        return tf.where(has_begun, gradient, tf.zeros_like(gradient))

    def _moved(self, window: Window, step: Tensor) -> Window:
        """Return a `Window` around where a step `[p]` leads, which may be zero."""
        jacobian, moves = self._jacobian(window.rows), tf.reduce_any(tf.not_equal(step, 0))
        along = lambda: window.gradient + jacobian.adjoint(jacobian.matvec(step))  # noqa: E731
        return window._replace(gradient=tf.cond(moves, along, lambda: window.gradient))

    def _after(self, linearisation: RecallingRows, step: Tensor, weight: Tensor) -> Window:
        """Return the `Window` of `RecallingRows` around where a step `[p]` led; `weight` is d of the batch."""
        step = tf.cast(step, linearisation.residual.dtype)
        change = linearisation.curvature(step) + linearisation.prior.precision * step
        gradient = tf.cast(linearisation.gradient() + change, self.dtype)
        return linearisation.window._replace(gradient=tf.cast(weight, self.dtype) * gradient)

    def _keep(self, window: Window, position: Tensor) -> bool:
        """Assign all that is kept, and return True."""
        self._drawn.value.assign_add(1)
        self._gradient.value.assign(window.gradient)
        return super()._keep(window, position)


def _drawn(factor: Any, signs: Tensor) -> Any:
    """Return a factor of one row for each example: the sum of its rows, each times a sign of `signs` `[n, m]`."""
    if factor is None:
        return None
    if isinstance(factor, OuterFactor):
        return OuterFactor(factor.a, tf.einsum("nm,nmtgo->ntgo", signs, factor.d)[:, None], factor.layout)
    return DenseFactor(tf.einsum("nm,nmq->nq", signs, factor.dense())[:, None])
