"""One backward pass."""

from collections.abc import Sequence

import tensorflow as tf

from tfjac.types import Tensor


def gradients_or_zeros(
    y: Tensor | Sequence[Tensor],
    tensors: Sequence[Tensor],
    seed: Tensor | Sequence[Tensor],
    stop: Sequence[Tensor] = (),
) -> list[Tensor]:
    """`tf.gradients` with dense results, zeros where there is no path."""
    results = tf.gradients(y, tensors, grad_ys=seed, stop_gradients=list(stop) or None, unconnected_gradients="zero")
    return [tf.convert_to_tensor(result) for result in results]
