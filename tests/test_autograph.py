"""AutoGraph translates the functions of users, whoever calls them, and none of this package's."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.autograph.impl import api  # says what it translates to nobody else

import tfjac
from tfjac.optimizers import LeastSquaresProblem, LevenbergMarquardt, least_squares

X = np.linspace(-1.0, 1.0, 6)


def bent(x, slope):
    """2 · slope · x, by a branch and a loop that TensorFlow has to run."""
    if tf.reduce_sum(x) > 1e9:
        return x * 0.0
    y = tf.zeros_like(x)
    for _ in tf.range(2):
        y += slope * x
    return y


def fitted(forms):
    """The slope found by `forms(b)`: residuals, and what to fit with."""
    b = tf.Variable(1.0, dtype=tf.float64)
    residuals, solve = forms(b)
    solve(residuals, b)
    return float(b)


def by_least_squares(*args):
    return lambda residuals, b: least_squares(residuals, b, args=args)


def batched(residuals, b):
    b.assign(least_squares(residuals, tf.Variable([float(b)], dtype=tf.float64), args=(X[None],), batch_dims=1).x[0])


def stepped(residuals, b):
    optimizer = LevenbergMarquardt(damping="nielsen")
    for _ in range(4):
        optimizer.minimize(residuals, [b])


def in_parts(residuals, b):
    b.assign_add(tfjac.normal_equations(residuals, [b]).step()[0][0])


FITS = {
    "of the variable itself": lambda b: (lambda: bent(X, b) - 3 * X, by_least_squares()),
    "of its value": lambda b: (lambda value: bent(X, value) - 3 * X, by_least_squares()),
    "of value and data": lambda b: (lambda value, x: bent(x, value) - 3 * x, by_least_squares(X)),
    "of data": lambda b: (lambda x: bent(x, b) - 3 * x, by_least_squares(X)),
    "several": lambda b: ([lambda x: bent(x, b) - 3 * x, lambda value, x: bent(x, value) - 3 * x], by_least_squares(X)),
    "a problem": lambda b: (
        lambda x: bent(x, b) - 3 * x, lambda residuals, b: LeastSquaresProblem(residuals, b).solve(X)
    ),
    "many": lambda b: (lambda value, x: bent(x, value[:, None]) - 3 * x, batched),
    "the optimizer": lambda b: (lambda: bent(X, b) - 3 * X, stepped),
    "parts": lambda b: (lambda: bent(X, b) - 3 * X, in_parts),
}  # fmt: skip


@pytest.mark.parametrize("name", FITS)
def test_residuals(name):
    np.testing.assert_allclose(fitted(FITS[name]), 1.5, rtol=1e-4)


def test_curves_and_their_bands():
    found = tfjac.curve_fit(bent, X, 3 * X + 0.1 * np.cos(9 * X))
    slope = np.sum(X * (3 * X + 0.1 * np.cos(9 * X))) / np.sum(2 * X * X)
    np.testing.assert_allclose(found.x, [slope], rtol=1e-6)
    np.testing.assert_allclose(np.mean(found.confidence_band(X), axis=0), 2 * slope * X, rtol=1e-6)


def test_derivatives_and_nodes():
    x, slope = tf.constant(X), tf.Variable(0.5, dtype=tf.float64)
    np.testing.assert_allclose(tfjac.jacobian(lambda: bent(x, slope), x), np.eye(6))
    np.testing.assert_allclose(tfjac.per_example_jacobian(lambda: bent(x, slope), [slope])[0], 2 * X)
    np.testing.assert_allclose(tfjac.jvp(lambda: bent(x, slope), [slope], [tf.ones([], tf.float64)]), 2 * X)
    doubled = tfjac.intercept(lambda x: bent(tfjac.tap(x, "in"), slope), {"in": tfjac.Edit(forward=lambda v: 2.0 * v)})
    np.testing.assert_allclose(doubled(x), 2 * X)
    assert "(Case)" in str(tfjac.explain_gradient(lambda: bent(x, slope), slope))
    read = tfjac.values_at(lambda x: bent(tfjac.tap(x + 1.0, "in"), slope), "in")
    np.testing.assert_allclose(read(x), X + 1)


def test_nothing_of_the_package_is_translated(monkeypatch):
    """Neither methods, nor what comes as the default of an argument, which loses every mark of its own."""
    translated, convert = [], api._convert_actual

    def noting(function, context):
        translated.append(function.__module__)
        return convert(function, context)

    monkeypatch.setattr(api, "_convert_actual", noting)
    x, w = tf.constant(X[:, None]), tf.Variable([[0.5]], dtype=tf.float64)

    @tf.function
    def compute(x, derivative=tfjac.batch_jacobian):
        one, operator = tf.ones([1], tf.float64), tfjac.jacobian_operator(tf.tanh(x @ w), [w])
        solved, _ = tfjac.ops.damped_solve(operator.gram(), one, one, one[0])
        return derivative(tf.sin(x), x), solved, operator.matvec(solved)

    np.testing.assert_allclose(tf.squeeze(compute(x)[0]), np.cos(X))
    assert translated and not [module for module in translated if module.startswith("tfjac")]
