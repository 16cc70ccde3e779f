"""J and r where a fit ended: those of closed forms, whatever is assigned later, and traced once with those of steps."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac import ops
from tfjac.fits.results.frozen import FrozenModel

T = np.linspace(0.0, 2.0, 9)
Y = 3 * np.exp(-0.7 * T) + 0.1 * np.cos(9 * T)


def closed_form(a, b, factor=1.0):
    """Return J and r of factor·(a exp(−b t) − y)."""
    decay = np.exp(-b * T)
    return factor * np.stack([decay, -a * T * decay], axis=1), factor * (a * decay - Y)


def check(result, position, factor=1.0):
    for found, expected in zip((result.jacobian(), result.residuals()), closed_form(*position, factor)):
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13 * factor)


@pytest.mark.by_day(one_in=5)
@pytest.mark.parametrize("factor", [1.0, 2.0**400, 2.0**-400])
@pytest.mark.parametrize("options", [{}, {"bounds": ([-9.0, -9.0], [2.5, 9.0])}, {"loss": "huber"}], ids=str)
def test_of_one_variable_that_moves_on(options, factor):
    x = tf.Variable([1.0, 1.0], dtype=tf.float64)
    scale = {"loss_scale": 0.05 * factor} if options.get("loss") else {}
    result = tfjac.least_squares(lambda: factor * (x[0] * tf.exp(-x[1] * T) - Y), x, **options, **scale)
    x.assign([7.0, 7.0])
    check(result, result.x, factor)


def test_of_two_variables_in_another_order_than_they_are_read():
    a, b = tf.Variable(1.0, dtype=tf.float64), tf.Variable([1.0], dtype=tf.float64)
    result = tfjac.least_squares(lambda: a * tf.exp(-b * T) - Y, [b, a])
    jacobian, residual = closed_form(result.x[1], result.x[0][0])
    np.testing.assert_allclose(result.jacobian(), jacobian[:, ::-1], rtol=1e-13)
    np.testing.assert_allclose(result.residuals(), residual, rtol=1e-13, atol=1e-13)


def test_of_another_variable_that_is_read_and_changes():
    x, factor = tf.Variable([1.0, 1.0], dtype=tf.float64), tf.Variable(2.0, dtype=tf.float64)
    result = tfjac.least_squares(lambda: factor * (x[0] * tf.exp(-x[1] * T) - Y), x)
    factor.assign(5.0)
    check(result, result.x, 2.0)


@pytest.mark.by_day(None)
def test_of_two_tensors_of_residuals():
    x = tf.Variable([1.0, 1.0], dtype=tf.float64)

    def residuals():
        whole = x[0] * tf.exp(-x[1] * T) - Y
        return whole[:4], whole[4:]

    result = tfjac.least_squares(residuals, x)
    check(result, result.x)


def test_of_data_of_each_call():
    x = tf.Variable([1.0, 1.0], dtype=tf.float64)
    problem = tfjac.optimizers.LeastSquaresProblem(lambda factor: factor * (x[0] * tf.exp(-x[1] * T) - Y), x)
    results = [problem.solve(tf.constant(factor, tf.float64)) for factor in (1.0, 3.0)]
    for result, factor in zip(results, (1.0, 3.0)):
        check(result, result.x, factor)


@pytest.mark.skipif(not ops.load_ops(), reason="without native ops J of the steps is within their loop")
@pytest.mark.unverified("a verifying run traces another J")
def test_is_not_traced_once_more(monkeypatch):
    monkeypatch.setattr(FrozenModel, "_traced", None)
    fit = tfjac.curve_fit(lambda t, a, b: a * tf.exp(-b * t), T, Y)
    jacobian, residual = closed_form(*fit.popt)
    expected = residual @ residual / (T.size - 2) * np.linalg.inv(jacobian.T @ jacobian)
    np.testing.assert_allclose(fit.pcov, expected, rtol=1e-9)
