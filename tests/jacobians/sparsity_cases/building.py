"""What cases of sparsity are made of. Imports nothing of tfjac."""

import dataclasses
import inspect
from collections.abc import Callable

import numpy as np
import tensorflow as tf

RAW = tf.raw_ops


@dataclasses.dataclass
class Case:
    """A function of x, and how to test it.

    Attributes:
        function: from x to y.
        shape, low, high: x is drawn evenly between `low` and `high`.
        by_rows: whether the oracle is one `tape.gradient` per row, not differences: in single precision, and where a
            custom gradient is no derivative.
        variable: whether x is a variable for `sparse_jacobian`.
        larger: why the pattern has entries that are zero; empty where it must not.
    """

    function: Callable
    shape: tuple = (4, 6)
    low: float = 0.5
    high: float = 1.5
    by_rows: bool = False
    variable: bool = False
    larger: str = ""


def together(*functions):
    """The results of several functions, one behind the other."""
    return lambda x: tf.concat([tf.reshape(function(x), [-1]) for function in functions], 0)


def row_by_row(*functions):
    """Each function of a row of its own."""
    return lambda x: tf.stack([function(row) for function, row in zip(functions, tf.unstack(x, len(functions)))])


def raw(names):
    """The ops of these names, as functions of tensors by position."""
    ops = [getattr(RAW, name) for name in names.split()]
    return [lambda *tensors, op=op: op(**dict(zip(inspect.signature(op).parameters, tensors))) for op in ops]


def of_pairs(names):
    """Binary ops, each of a row and the same row reversed."""
    return row_by_row(*(lambda row, op=op: op(row, row[::-1]) for op in raw(names)))


def single(function):
    """A function that has no kernel in double precision."""
    return lambda x: tf.cast(function(tf.cast(x, tf.float32)), x.dtype)


def gradient_of(function, cost=lambda y: y**3):
    """The gradient, as part of the graph, of the sum of what `function` gives, or of its cubes."""

    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(cost(function(x)))
        return tape.gradient(total, x)

    return gradient


def backwards(function):
    """The identity, with a function of the cotangent as its custom gradient."""
    return tf.custom_gradient(lambda x: (tf.identity(x), function))


def image(x):
    return tf.reshape(x, [1, 4, 3, 2])


def volume(x):
    return tf.reshape(x, [1, 2, 3, 2, 2])


def matrices(x):
    return tf.reshape(x, [2, 3, 4])[..., :3] + 4.0 * tf.eye(3, dtype=x.dtype)


def constant(*shape, dtype=tf.float64):
    """Small integers, some of them zero."""
    return tf.constant(np.arange(np.prod(shape)).reshape(shape) % 3, dtype)


def chosen(x):
    """A position that depends on x: 0 or 1."""
    return tf.argmax(x[:2, 0], output_type=tf.int32)


# Why a pattern has entries that are zero.
OPEN = "an open position may be any"
LARGEST = "the largest may be any"
EDGES = "zeros of a structure that is not looked at"
