"""Sizes of tensors that may be open while tracing."""

import tensorflow as tf


def axes(tensor):
    """Return the sizes of `tensor`: Python integers where static, scalar tensors where not."""
    if tensor.shape.is_fully_defined():
        return tensor.shape.as_list()
    dynamic = tf.shape(tensor)
    return [dynamic[k] if size is None else size for k, size in enumerate(tensor.shape)]
