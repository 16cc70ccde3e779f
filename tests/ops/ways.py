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


def ways_in_turn(cases):
    """Run a test of many cases with the native ops eagerly in both dtypes, and with each other kind of way in turn.

    Over a few cases every two of implementation, way and dtype that go together in `WAYS` meet.
    """
    rows = [
        (case, *way)
        for k, case in enumerate(cases)
        for way in (*WAYS[:2], WAYS[2 + k % 2], WAYS[4 + k // 2 % 2], WAYS[6 + k % 3])
    ]
    ids = [f"{case}-{implementation}-{way}-{dtype.name}" for case, implementation, way, dtype in rows]
    fixtures = ["implementation", "compiled", "dtype"]
    return pytest.mark.parametrize(", ".join(["case", *fixtures]), rows, indirect=fixtures, ids=ids)
