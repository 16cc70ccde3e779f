"""Least squares of residuals that come from a loop, as an equation solved step by step, beside SciPy's."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

import tfjac
from tfjac.jacobians.factors.strategies import row_by_row
from tfjac.jacobians.rows import forms_of_blocks

STEPS, DT = 40, 0.25
TRUE = np.array([1.1, 0.4, 0.9, 0.5])


def slopes(z, p, stack):
    """Of predator and prey."""
    return stack([p[0] * z[0] - p[1] * z[0] * z[1], p[3] * z[0] * z[1] - p[2] * z[1]])


def step(z, p, stack):
    """One of the method of Runge and Kutta."""
    k1 = slopes(z, p, stack)
    k2 = slopes(z + DT / 2 * k1, p, stack)
    k3 = slopes(z + DT / 2 * k2, p, stack)
    k4 = slopes(z + DT * k3, p, stack)
    return z + DT / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def by_numpy(p):
    z, found = np.array([1.0, 0.5]), []
    for _ in range(STEPS):
        z = step(z, p, np.array)
        found.append(z)
    return np.array(found)


DATA = by_numpy(TRUE) + 0.05 * np.random.default_rng(1).normal(size=(STEPS, 2))


def by_while_loop(p):
    def body(k, z, found):
        z = step(z, p, tf.stack)
        return k + 1, z, found.write(k, z)

    start, array = tf.constant([1.0, 0.5], tf.float64), tf.TensorArray(tf.float64, STEPS)
    return tf.while_loop(lambda k, *_: k < STEPS, body, (0, start, array))[2].stack()


def autographed(p):
    z, found = tf.constant([1.0, 0.5], tf.float64), tf.TensorArray(tf.float64, STEPS)
    for k in tf.range(STEPS):
        z = step(z, p, tf.stack)
        found = found.write(k, z)
    return found.stack()


def by_scan(p):
    return tf.scan(lambda z, _: step(z, p, tf.stack), tf.range(STEPS), tf.constant([1.0, 0.5], tf.float64))


def solved(p, solution):
    result = tfjac.least_squares(lambda: solution(p) - DATA, p)
    with np.errstate(over="ignore", invalid="ignore"):  # of steps that are tried
        oracle = scipy.optimize.least_squares(
            lambda p: (by_numpy(p) - DATA).ravel(), np.ones(4), xtol=1e-14, ftol=1e-14, gtol=1e-14
        )
    assert result.success
    np.testing.assert_allclose(p[:4], oracle.x, rtol=1e-5)
    np.testing.assert_allclose(result.cost, oracle.cost, rtol=1e-9)
    return np.reshape(result.jacobian(), [2 * STEPS, -1]), oracle.jac


def never(*_, **__):
    raise AssertionError("passes are taken row by row")


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("solution", [by_while_loop, autographed, by_scan])
def test_few_parameters_are_carried_through_the_loop(monkeypatch, solution):
    monkeypatch.setattr(forms_of_blocks, "factors_within", never)
    jacobian, expected = solved(tf.Variable(np.ones(4)), solution)
    np.testing.assert_allclose(jacobian, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.by_day(None)
def test_more_parameters_cost_a_product_each(monkeypatch):
    """Parameters beyond those of the equation, without influence, that a prior holds."""
    monkeypatch.setattr(row_by_row, "pull_back", never)
    p = tf.Variable(np.ones(20))
    fit = lambda: by_while_loop(p) - DATA + 1e-300 * tf.reduce_sum(p[4:])  # noqa: E731
    jacobian = tfjac.least_squares(fit, p, max_steps=1).jacobian()
    at = p.numpy()[:4]
    expected = scipy.optimize.approx_fprime(at, lambda p: by_numpy(p).ravel(), 1e-7)
    np.testing.assert_allclose(np.reshape(jacobian, [2 * STEPS, -1])[:, :4], expected, rtol=1e-3, atol=1e-3)
