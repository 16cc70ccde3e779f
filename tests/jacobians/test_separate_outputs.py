"""Blocks of results that are elementwise in their outputs, against one tape for each example and output."""

import numpy as np
import pytest
import tensorflow as tf

from tfjac import batch_jacobian
from tfjac.jacobians import batch

T = np.linspace(-1, 2, 7)


def peaks(p):
    height, centre, width, offset, slope = (p[:, k : k + 1] for k in range(5))
    return height * tf.exp(-tf.square((T - centre) / width) / 2) + offset + slope * T


def used_twice(p):
    first, *_, last = tf.unstack(p, axis=1)
    return (first[:, None] * T - last[:, None]) * tf.sin(first[:, None] + T) / last[:, None]


def by_split(p):
    one, two = tf.split(p, [2, 3], axis=1)
    return tf.gather(one, [1], axis=1) - tf.tanh(T / tf.reshape(two[:, 2], [-1, 1]))


def of_columns_and_data(p):
    weights = tf.constant(np.arange(28.0).reshape(4, 7))
    return weights[: tf.shape(p)[0]] * p[:, :1] - p[:, 1:2] * T


def of_no_column(p):
    return tf.exp(-p[:, :1]) * T + p[:, 1:2]


def of_one_and_all(p):
    return p[:, :1] * T + tf.reduce_sum(p, axis=1, keepdims=True)


def cumulative(p):
    return tf.cumsum(p[:, :1] * T, axis=1)


def by_products(p):
    return p @ tf.constant(np.arange(35.0).reshape(5, 7)) * p[:, :1]


@tf.custom_gradient
def tripled(x):
    return x, lambda u: 3 * u


def of_a_custom_gradient(p):
    return tripled(p[:, :1] * T) + p[:, 1:2]


def alone(p):
    return p[:, 1:2] * tf.ones([1, 7], p.dtype) * p[:, 1:2]


TAKEN, OTHERS = (
    [peaks, used_twice, by_split, of_columns_and_data],
    [of_no_column, of_one_and_all, cumulative, by_products, of_a_custom_gradient],
)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("rows", [None, 4])
@pytest.mark.parametrize("program", [*TAKEN, alone, *OTHERS])
def test_blocks(program, rows, rng, monkeypatch):
    taken = []
    original = batch.separate_outputs

    def separate_outputs(*given):
        found = original(*given)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(batch, "separate_outputs", separate_outputs)
    p = tf.constant(rng.uniform(0.5, 1.5, size=(4, 5)))
    blocks = tf.function(lambda p: batch_jacobian(program(p), p), autograph=False)
    found = blocks.get_concrete_function(tf.TensorSpec([rows, 5], tf.float64))(p)
    for n in range(4):
        for m in range(7):
            with tf.GradientTape() as tape:
                tape.watch(p)
                value = program(p)[n, m]
            np.testing.assert_allclose(found[n, m], tape.gradient(value, p)[n], rtol=1e-12, atol=1e-14)
    if program is not alone:
        assert taken == [program in TAKEN]


@pytest.mark.by_day(None)
def test_what_mixes_examples_is_refused_as_before(rng):
    p = tf.constant(rng.normal(size=(4, 5)))
    with pytest.raises(ValueError, match="mix"):
        batch_jacobian(lambda: p[:, :1] * T + tf.reduce_max(p), p)
