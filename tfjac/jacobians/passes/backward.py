"""One backward pass."""

import tensorflow as tf


def gradients_or_zeros(y, tensors, seed, stop=()):
    """`tf.gradients` with dense results, zeros where there is no path."""
    results = tf.gradients(y, tensors, grad_ys=seed, stop_gradients=list(stop) or None, unconnected_gradients="zero")
    return [tf.convert_to_tensor(result) for result in results]
