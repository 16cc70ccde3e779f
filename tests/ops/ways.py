"""The ways an op runs: native and twin, eager, in a graph and compiled, in both dtypes."""

import pytest
import tensorflow as tf

WAYS = [
    *(("native", way, dtype) for way in ("eager", "function", "jit") for dtype in (tf.float32, tf.float64)),
    ("twin", "eager", tf.float32),
    ("twin", "function", tf.float64),
    ("twin", "jit", tf.float64),  # the ops of TensorFlow, compiled: long to compile, and the same in both dtypes
]

every_way = pytest.mark.parametrize(
    "implementation, compiled, dtype", WAYS, indirect=True, ids=[f"{a}-{b}-{c.name}" for a, b, c in WAYS]
)
"""Runs a test that takes `compiled` and `dtype` in all of them."""
