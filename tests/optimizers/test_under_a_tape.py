"""Minimisations while a tape is open: none of their steps is recorded, and derivatives through a minimum are there."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac.optimizers import LevenbergMarquardt, least_squares

T = np.linspace(0.0, 2.0, 20)
Y = 2 * np.exp(-1.3 * T)


def decay(x, t, y):
    return x[0] * tf.exp(-x[1] * t) - y


def many(x, y):
    return x[:, :1] * tf.exp(-x[:, 1:] * T) - y


FITS = {
    "least_squares": lambda x: least_squares(decay, x, args=(T, Y)),
    "the loop": lambda x: least_squares(decay, x, args=(T, Y), damping="nielsen"),
    "curve_fit": lambda x: tfjac.curve_fit(lambda t, a, b: a * tf.exp(-b * t), T, Y, p0=[1.0, 0.5]).pcov,
    "many fits": lambda x: least_squares(many, tf.Variable(np.ones([3, 2])), args=(np.stack([Y] * 3),), batch_dims=1),
    "a step": lambda x: LevenbergMarquardt().minimize(lambda: decay(x, T, Y), [x]),
}


@pytest.mark.by_day(one_in=5)
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("name", FITS)
def test_fits_beside_what_is_recorded(name, persistent):
    x, other = tf.Variable([1.0, 0.5], dtype=tf.float64), tf.Variable(3.0)
    with tf.GradientTape(persistent=persistent) as tape:
        before = other * other
        FITS[name](x)
        after = before * other
    assert float(tape.gradient(after, other)) == 27.0


@pytest.mark.by_day(None)
@pytest.mark.parametrize("persistent", [False, True])
def test_derivative_through_a_minimum(persistent):
    x = tf.Variable([1.0, 0.5], dtype=tf.float64)

    @tf.function
    def derivative(scale):
        with tf.GradientTape(persistent=persistent) as tape:
            tape.watch(scale)
            found = least_squares(decay, x, args=(T, scale * Y)).x[0]
        return tape.gradient(found, scale)

    np.testing.assert_allclose(derivative(tf.constant(1.5, tf.float64)), 2.0, rtol=1e-6)


def test_what_has_no_derivatives_says_so():
    @tf.function
    def derivative(scale):
        with tf.GradientTape() as tape:
            tape.watch(scale)
            found = least_squares(many, X, args=(scale * np.stack([Y] * 3),), batch_dims=1).x
        return tape.gradient(found, scale)

    X = tf.Variable(np.ones([3, 2]))
    with pytest.raises(ValueError, match="has no derivatives"):
        derivative(tf.constant(1.5, tf.float64))


def test_a_tape_of_the_residuals_works():
    x = tf.Variable([0.5], dtype=tf.float64)

    def residuals():
        with tf.GradientTape() as inner:
            point = tf.constant(1.5, tf.float64)
            inner.watch(point)
            value = x[0] * point**3
        return tf.reshape(inner.gradient(value, point) - 27.0, [1])

    with tf.GradientTape(persistent=True):
        result = least_squares(residuals, x)
    assert result.success
    np.testing.assert_allclose(x.numpy(), 4.0)
