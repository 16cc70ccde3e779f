"""Custom gradients inside of `tf.vectorized_map`, which TensorFlow's vectoriser leaves out without a word.

The oracle is the formula that each of them states, in NumPy.
"""

import numpy as np
import pytest
import tensorflow as tf

import tfjac

ROWS = np.array([[1.0, 0.5], [3.0, -2.0], [0.7, 1.1]])
W = np.array([2.0, -0.5])


@tf.custom_gradient
def cube_by_numpy(x):
    y = tf.ensure_shape(tf.numpy_function(lambda a: a**3, [x], x.dtype), x.shape)
    return y, lambda u: 3 * u * x**2


@tf.custom_gradient
def five_times(x):
    """Twice x, and a gradient of five times x, so that it shows which one was taken."""
    y = 2 * x
    return y, lambda u: 2.5 * u * y


@tf.custom_gradient
def product(row, w):
    """The product with another gradient by each, of tensors of which one is the same for all rows."""
    return row * w, lambda u: (7 * u * w, 11 * u * row)


def nested(row, w):
    return tf.vectorized_map(lambda each: five_times(each * w[0]), row)


IN_FUNCTION = tf.function(lambda row, w: five_times(row * w), autograph=False)
CASES = {
    "of NumPy": (lambda row, w: cube_by_numpy(row * w), lambda row, w: 3 * (row * w) ** 2 * row),
    "that reads its result": (lambda row, w: five_times(row * w), lambda row, w: 5 * row * w * row),
    "of two arguments": (product, lambda row, w: 11 * row),
    "twice": (lambda row, w: five_times(five_times(row * w)), lambda row, w: 5 * (2 * row * w) * 5 * (row * w) * row),
    "in a function": (IN_FUNCTION, lambda row, w: 5 * row * w * row),
}
"""A function of one row and w, and the diagonal of its Jacobian by w."""


def mapped(name, w):
    return tf.vectorized_map(lambda row: CASES[name][0](row, w), tf.constant(ROWS))


ASK = {
    "jacobian": lambda y, w: tfjac.jacobian(y, w),
    "jacobian, reverse": lambda y, w: tfjac.jacobian(y, w, mode="reverse"),
    "per_example_jacobian": lambda y, w: tfjac.per_example_jacobian(y, w),
    "examples_mix": lambda y, w: tfjac.per_example_jacobian(y, w, examples_mix="full"),
}


@pytest.mark.by_day(one_in=10)
@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("name", CASES)
def test_jacobians(name, ask):
    w = tf.Variable(W)
    expected = CASES[name][1](ROWS, W)[:, :, None] * np.eye(2)
    np.testing.assert_allclose(ASK[ask](lambda: mapped(name, w), w), expected, rtol=1e-12)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name", CASES)
def test_products(name):
    w, v = tf.Variable(W), np.array([0.3, 1.7])
    diagonal = CASES[name][1](ROWS, W)
    np.testing.assert_allclose(tfjac.vjp(lambda: mapped(name, w), w), diagonal.sum(0), rtol=1e-12)
    np.testing.assert_allclose(tfjac.jvp(lambda: mapped(name, w), w, v), diagonal * v, rtol=1e-12)


def test_second_derivatives():
    """The derivative of the gradient that is stated: of 3 (row·w)² row by w."""
    w, v = tf.Variable(W), np.array([0.3, 1.7])
    found = tfjac.hvp(lambda: tf.reduce_sum(mapped("of NumPy", w)), w, v)
    np.testing.assert_allclose(found, (6 * ROWS**3 * W).sum(0) * v, rtol=1e-12)


def test_a_map_inside_a_map():
    w = tf.Variable(W)
    found = tfjac.jacobian(lambda: tf.vectorized_map(lambda row: nested(row, w), tf.constant(ROWS)), w)
    np.testing.assert_allclose(found[..., 0], 5 * ROWS**2 * W[0], rtol=1e-12)


def test_of_inputs():
    x = tf.constant(ROWS)
    found = tfjac.batch_jacobian(lambda: tf.vectorized_map(cube_by_numpy, x), x)
    np.testing.assert_allclose(found, 3 * (ROWS**2)[:, :, None] * np.eye(2), rtol=1e-12)


def test_what_is_read_besides_is_refused_by_name():
    def with_a_hidden_tensor(row, w):
        hidden = tf.exp(row)

        @tf.custom_gradient
        def function(x):
            return x, lambda u: u * hidden

        return function(row * w)

    w = tf.Variable(W)
    with pytest.raises(LookupError, match=r"inside of tf\.vectorized_map.*pass it as an argument.*Exp"):
        tfjac.vjp(lambda: tf.vectorized_map(lambda row: with_a_hidden_tensor(row, w), tf.constant(ROWS)), w)
