"""TensorFlow's gradient of a cost, and what rounding changes in it, for verification."""

from typing import Any

import tensorflow as tf

from tfjac.graph import as_tf_variable, largest_of
from tfjac.linear.model import ReferenceGradient
from tfjac.types import Tensor

_NO_GRADIENT = (LookupError, NotImplementedError, TypeError, ValueError)
"""What TensorFlow raises where it cannot differentiate what a tape could."""


def reference_gradients(cost: Tensor, sources: Any, known: Any = None) -> list[ReferenceGradient]:
    """Return a list of a `ReferenceGradient` for each source.

    What rounding changes is seen by another backward pass from a third of the cost: three times its result differs by
    rounding alone.

    Args:
        cost: scalar tensor.
        sources: list of variables or tensors.
        known: list of the gradients of the cost that another has taken; None for those of TensorFlow.
    """
    try:
        whole, third = (gradients_of(cost, sources, scale) for scale in (1.0, 1 / 3))
    except _NO_GRADIENT:
        if known is None:
            raise
        whole = third = [tf.zeros(x.shape, x.dtype) for x in sources]
    values = whole if known is None else _dense(known, sources)
    lost = [largest_of(one - 3 * other) for one, other in zip(whole, third)]
    return [ReferenceGradient(value, rounding) for value, rounding in zip(values, lost)]


def gradients_of(cost: Tensor, sources: Any, scale: float = 1.0) -> list[Tensor]:
    """Return TensorFlow's gradients of a scalar times `scale` by a list of variables or tensors; zeros for none."""
    xs = [x if tf.is_symbolic_tensor(x) else as_tf_variable(x) for x in sources]
    return _dense(tf.gradients(cost, xs, grad_ys=tf.fill(tf.shape(cost), tf.cast(scale, cost.dtype))), sources)


def _dense(gradients: list, sources: Any) -> list[Tensor]:
    """Return gradients as tensors of the shapes of the sources; where there is none, zeros."""
    return [
        tf.zeros(x.shape, x.dtype) if gradient is None else tf.convert_to_tensor(gradient)
        for gradient, x in zip(gradients, sources)
    ]
