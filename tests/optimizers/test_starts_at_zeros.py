"""Starts at zeros, where columns of J are zero, or alike: beside SciPy's minimum, by all that takes steps."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

import tfjac
from tfjac.optimizers import least_squares

T = np.linspace(0.0, 4.0, 50)
NOISE = 0.02 * np.random.default_rng(0).normal(size=50)

CURVES = {
    "decay": (lambda p, exp: p[0] * exp(-p[1] * T) + p[2], [2.5, 1.3, 0.5]),
    "steep decay": (lambda p, exp: p[0] * exp(-p[1] * T) + p[2], [100.0, 2.0, 3.0]),
    "peak": (lambda p, exp: p[0] * exp(-((T - p[1]) ** 2)) + p[2], [2.0, 1.2, 0.7]),
    "power": (lambda p, exp: p[0] * exp(p[1] * np.log(T + 0.1)) + p[2], [2.0, 1.2, 0.7]),
    "logistic": (lambda p, exp: p[0] / (1 + exp(-p[1] * (T - p[2]))) + p[3], [2.0, 1.2, 0.7, 0.3]),
    "two decays": (lambda p, exp: p[0] * exp(-p[1] * T) + p[2] * exp(-p[3] * T), [2.0, 1.2, 0.7, 0.3]),
}


def targets(name):
    curve, truth = CURVES[name]
    return curve(np.array(truth), np.exp) + NOISE


def scipys_cost(name):
    curve, truth = CURVES[name]
    return scipy.optimize.least_squares(lambda p: curve(p, np.exp) - targets(name), truth, xtol=1e-14).cost


IN_GRAPHS = [("decay", "graph"), ("logistic", "graph"), ("decay", "many"), ("two decays", "many")]


@pytest.mark.by_day(one_in=5)
@pytest.mark.parametrize(("name", "way"), [*((name, "eager") for name in CURVES), *IN_GRAPHS])
def test_the_minimum_is_found_from_zeros(name, way):
    curve, truth = CURVES[name]
    y = targets(name)
    if way == "many":
        x = tf.Variable(np.zeros((2, len(truth))))
        residuals = lambda x: curve(tf.unstack(x[..., None], axis=-2), tf.exp) - y  # noqa: E731
        cost = least_squares(residuals, x, batch_dims=1).cost
    else:
        x = tf.Variable(np.zeros(len(truth)))
        fit = lambda: least_squares(lambda: curve(x, tf.exp) - y, x).cost  # noqa: E731
        cost = (fit if way == "eager" else tf.function(fit))()
    np.testing.assert_allclose(cost, scipys_cost(name), rtol=1e-6)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name", CURVES)
def test_the_same_by_curve_fit(name):
    curve, truth = CURVES[name]
    fit = tfjac.curve_fit(lambda t, *p: curve(p, tf.exp), T, targets(name), p0=np.zeros(len(truth)))
    assert fit.success
    np.testing.assert_allclose(fit.cost, scipys_cost(name), rtol=1e-6)


def test_a_straight_line_from_zeros_takes_one_step_of_gauss_and_newton():
    x = tf.Variable([0.0, 0.0], dtype=tf.float64)
    found = least_squares(lambda: x[0] * T + x[1] - NOISE, x)
    np.testing.assert_allclose(x.numpy(), np.polyfit(T, NOISE, 1), rtol=1e-9)
    np.testing.assert_allclose(found.history.cost[0], found.cost, rtol=1e-12)
