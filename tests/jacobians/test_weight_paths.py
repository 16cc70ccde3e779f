"""Weights that are computed before they meet the data: factors go back through the arithmetic to the variables."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians.oracles import rows_one_at_a_time

C = tf.constant([0.5, -2.0, 3.0], tf.float64)
MATRIX = tf.constant(np.arange(9.0).reshape(3, 3))


def opened(v):
    """The vector, of a size that the graph does not fix."""
    return tf.reshape(v, [tf.size(v) + tf.cast(v[0] > 1e9, tf.int32)])


WEIGHTS = {
    "scaled and shifted": lambda v, w: w - (4.0 - C * v / (1.0 + C**2)),
    "folded normalisation": lambda v, w: w - C * (v * C),
    "two variables": lambda v, w: (v - w) / C + (-w),
    "one twice": lambda v, w: (v + v) - 3.0 * w * C,
    "square": lambda v, w: v * v * C + w,
    "product of both": lambda v, w: v * w - v,
    "quotient": lambda v, w: C / v - w / v,
    "broadcast to": lambda v, w: v[0] * C + w,
    "matrix first": lambda v, w: tf.linalg.matvec(MATRIX, v) * C + w,
    "both broadcast": lambda v, w: (v[:1] - w[1:2]) * C,
    "of open sizes, one broadcast": lambda v, w: opened(v[:1]) - opened(w),
    "many times over": lambda v, w: functools.reduce(lambda u, _: 0.01 * C * u + u, range(30), v - w),
    "absolute": lambda v, w: tf.abs(v) * C - w,
}


@pytest.mark.by_day(one_in=8)
@pytest.mark.parametrize("use", ["added", "multiplied", "matrix"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_rows(name, use, rng):
    v, w = (tf.Variable(rng.normal(size=3) + 2.0) for _ in range(2))
    x = tf.constant(rng.normal(size=(4, 3)))

    def model(x):
        weight = WEIGHTS[name](v, w)
        if use == "matrix":
            return tf.sin(tf.matmul(x, tf.reshape(weight, [-1, 1])))
        return tf.sin(x + weight if use == "added" else x * weight)

    found = tf.function(lambda: tfjac.per_example_jacobian(model(x), [v, w]), autograph=False)()
    for ours, rows in zip(found, rows_one_at_a_time(model, [x], [v, w])):
        np.testing.assert_allclose(ours, rows, rtol=1e-9, atol=1e-12)


def test_a_tensor_and_the_variable_that_it_is_made_of(rng):
    v, x = tf.Variable(rng.normal(size=3)), tf.constant(rng.normal(size=(4, 3)))

    def both():
        weight = tf.negative(v)
        return tfjac.per_example_jacobian(tf.sin(x * weight), [weight, v])

    slopes = (x * tf.cos(x * v)).numpy()[:, :, None] * np.eye(3)
    for found, expected in zip(tf.function(both, autograph=False)(), (slopes, -slopes)):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_weight_in_two_precisions(rng):
    v, x = tf.Variable(rng.normal(size=3)), tf.constant(rng.normal(size=(4, 3)))

    def y():
        weight = -v
        return tf.sin(x * weight) + tf.cast(tf.cast(x, tf.float32) * tf.cast(weight, tf.float32), x.dtype)

    slopes = -(x * tf.cos(x * v) + x).numpy()[:, :, None] * np.eye(3)
    np.testing.assert_allclose(tfjac.per_example_jacobian(y, v), slopes, rtol=1e-6)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_weight_of_many_steps_is_one_product(outputs, rng):
    """The graph of an unrolled recurrence grows with its steps, not with their square: one join, whatever the steps."""
    w, v = (tf.Variable(rng.normal(size=(3, 3)) * 0.4) for _ in range(2))
    x = tf.constant(rng.normal(size=(2, 3)))

    def model(x, steps):
        u = functools.reduce(lambda u, _: tf.tanh(u @ w + x @ v), range(steps), x)
        return u[:, :outputs]

    rows = tf.function(lambda steps: tfjac.per_example_jacobian(model(x, steps), [w, v]), autograph=False)
    joins = [
        [op.type for op in rows.get_concrete_function(steps).graph.get_operations()].count("ConcatV2")
        for steps in (4, 12)
    ]
    assert joins[0] == joins[1]
    for ours, expected in zip(rows(12), rows_one_at_a_time(functools.partial(model, steps=12), [x], [w, v])):
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-12)
