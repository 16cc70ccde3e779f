"""Indices that a program gives, in the one dtype that the package computes with."""

import tensorflow as tf

from tfjac.types import Tensor


def as_int32(indices: Tensor) -> Tensor:
    """Cast integers to int32; those that it cannot hold become its nearest.

    So what was out of range stays out of range, and what was negative negative. A plain cast makes 0 of 2³².
    """
    if indices.dtype.max > tf.int32.max:
        indices = tf.minimum(indices, tf.int32.max)
    if indices.dtype.min < tf.int32.min:
        indices = tf.maximum(indices, tf.int32.min)
    return tf.cast(indices, tf.int32)
