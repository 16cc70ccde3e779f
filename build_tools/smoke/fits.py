"""Least squares and curves."""

import numpy as np
import tensorflow as tf
from common import RNG, feature, same

import tfjac

T = np.linspace(0.0, 4.0, 30)
TRUTH = np.array([3.0, 0.7, 0.5])


@feature
def least_squares():
    b = tf.Variable([1.0, 0.1, 0.0], dtype=tf.float64)
    measured = TRUTH[0] * np.exp(-TRUTH[1] * T) + TRUTH[2]
    tfjac.least_squares(lambda: b[0] * tf.exp(-b[1] * T) + b[2] - measured, b)
    same(b.numpy(), TRUTH)


@feature
def least_squares_with_bounds_and_a_robust_loss():
    a = RNG.normal(size=(20, 3))
    target = a @ [1.0, -2.0, 3.0]
    b = tf.Variable(np.zeros(3))
    tfjac.least_squares(lambda: tf.linalg.matvec(a, b) - target, b, bounds=(-10.0, 2.0), loss="huber", max_steps=200)
    assert abs(float(b[2]) - 2.0) < 1e-9, b


@feature
def curve_fit():
    import scipy.optimize

    y = TRUTH[0] * np.exp(-TRUTH[1] * T) + TRUTH[2] + 0.01 * np.random.default_rng(3).normal(size=30)
    x, covariance = scipy.optimize.curve_fit(lambda t, a, b, c: a * np.exp(-b * t) + c, T, y, [1.0, 1.0, 0.0])
    found = tfjac.curve_fit(lambda t, a, b, c: a * tf.exp(-b * t) + c, T, y, [1.0, 1.0, 0.0])
    same(found.x, x, rtol=1e-5)
    same(found.covariance(), covariance, rtol=1e-3)


@feature
def named_parameters():
    import scipy.optimize

    def decay(t, amplitude, rate, offset):
        return amplitude * np.exp(-rate * t) + offset

    y = decay(T, *TRUTH) + 0.01 * np.random.default_rng(3).normal(size=30)
    parameters = tfjac.Parameters(amplitude=1.0, rate={"value": 1.0, "min": 0.0}, offset={"value": 0.0, "max": 0.4})
    parameters.add("half_life", expr="log(2)/rate")
    found = tfjac.curve_fit(lambda t, amplitude, rate, offset: amplitude * tf.exp(-rate * t) + offset, T, y, parameters)
    bounds = ([-np.inf, 0.0, -np.inf], [np.inf, np.inf, 0.4])
    x, _ = scipy.optimize.curve_fit(decay, T, y, [1.0, 1.0, 0.0], bounds=bounds, xtol=1e-12, ftol=1e-12)
    same([found.values[name] for name in ("amplitude", "rate", "offset")], x, rtol=1e-4)
    held, _ = scipy.optimize.curve_fit(
        lambda t, a, b: decay(t, a, b, 0.4), T, y, [1.0, 1.0]
    )  # the offset is at its bound
    same(found.values["half_life"], np.log(2) / held[1], rtol=1e-4)
    assert "half_life" in str(found), found


@feature
def many_fits():
    truth = RNG.uniform([1.0, 0.3], [4.0, 2.0], size=(40, 2))
    measured = truth[:, :1] * np.exp(-truth[:, 1:] * T)
    b = tf.Variable(np.ones([40, 2]))
    tfjac.least_squares(lambda b, y: b[:, :1] * tf.exp(-b[:, 1:] * T) - y, b, args=(measured,), batch_dims=1)
    same(b.numpy(), truth, rtol=1e-5)
