"""One row of J for each example as a memory, where an example has many outputs: all its rows would fill the window.

The row is the sum of all rows of the example with random signs: the expectation of its product with itself is their
JᵀJ. It says nothing of r, so that g is that of the batch alone, and curvature is all that is remembered:

    p = −(JᵀJ + λI)⁻¹ g
"""

import tensorflow as tf

from tfjac.jacobians.factors.forms import DenseFactor, OuterFactor
from tfjac.optimizers.contracts import LinearModel
from tfjac.optimizers.execution.streamed.rows import RowModel


class DrawnRowModel(RowModel):
    """J `[N, p]` and JJᵀ `[N, N]` of the last examples, each times √d of its batch; r is zero.

    Args:
        add, columns, dtype, window: as of `RowModel`.
    """

    damping_of_other_losses = 1.0

    def __init__(self, add, columns, dtype, window):
        super().__init__(add, columns, dtype, window)
        self._drawn = add("batches_drawn", (), "int64")

    def takes(self, batch: LinearModel):
        """Return whether a batch has one block of no more than N examples, and factors of the form that is kept."""
        return len(batch.jacobian.operators) == 1 and super().takes(batch)

    def _rows_of(self, batch):
        """Return the factors of a batch with one row for each example, how many these are, and zeros.

        Signs follow from how many batches there were, so that a saved optimizer goes on with the same ones.
        """
        (operator,) = batch.jacobian.operators
        examples, outputs = operator.examples_and_outputs
        seed = tf.stack([self._drawn.value.read_value(), 0])
        bits = tf.random.stateless_uniform([examples, outputs], seed, 0, 2, tf.int32)
        signs = tf.cast(2 * bits - 1, batch.dtype)
        return [_drawn(factor, signs) for factor in operator.factors], examples, tf.zeros([examples], batch.dtype)

    def _gradient_beside(self, batch):
        """Return Jᵀr of a batch, `[p]`."""
        return batch.gradient() - batch.prior.gradient

    def _residual_after(self, rows, residual, step):
        """Return zeros, as before the step."""
        return residual

    def _keep(self, window, residual, position):
        """Assign all that is kept, and return True."""
        self._drawn.value.assign_add(1)
        return super()._keep(window, residual, position)


def _drawn(factor, signs):
    """Return a factor of one row for each example: the sum of its rows, each times a sign of `signs` `[n, m]`."""
    if factor is None:
        return None
    if isinstance(factor, OuterFactor):
        return OuterFactor(factor.a, tf.einsum("nm,nmtgo->ntgo", signs, factor.d)[:, None], factor.layout)
    return DenseFactor(tf.einsum("nm,nmq->nq", signs, factor.dense())[:, None])
