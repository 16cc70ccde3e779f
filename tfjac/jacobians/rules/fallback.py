"""What no rule covers: the op's own gradient, one example and one output at a time. Exact, and slower by a factor n."""

import tensorflow as tf

from tfjac.jacobians.cotangents import gradients_or_zeros
from tfjac.jacobians.factors import DenseFactor
from tfjac.jacobians.shapes import axes, inner_size, product


def factor_by_op_gradient(use):
    """Return the dense factor of any use of a weight, from the registered gradient of its op.

    Args:
        use: the `Use`.

    Cost: n·m gradients of this one op over the whole batch, each with the cotangents of all other examples set to zero.
    """
    n, m = use.n, axes(use.d)[0]
    others = [tensor for k, tensor in enumerate(use.op.inputs) if k != use.weight_index]
    shape = axes(use.output)
    outer, inner = use.axis.outer, inner_size(use.output, use.axis, n)
    along = [1] * len(shape)

    def one_row(index):
        chosen = tf.one_hot(index // m, n, dtype=use.d.dtype)
        mask = tf.reshape(tf.tile(chosen[None, :, None], [outer, 1, inner]), [-1])
        mask = tf.reshape(mask, [*along[: use.axis.axis], shape[use.axis.axis], *along[use.axis.axis + 1 :]])
        return gradients_or_zeros(use.output, [use.weight], mask * tf.gather(use.d, index % m), stop=others)[0]

    rows = tf.vectorized_map(one_row, tf.range(n * m))
    return DenseFactor(tf.reshape(rows, [n, m, product(axes(rows)[1:])]))
