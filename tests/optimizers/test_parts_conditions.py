"""least_squares_by_parts within bounds, with a prior, and with robust losses; the oracle is SciPy."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

import tfjac

X = np.linspace(0.0, 4.0, 60)
Y = 2.5 * np.exp(-1.3 * X) + 0.5 + np.random.default_rng(0).normal(scale=0.05, size=60)
TIGHT = {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}
B = tf.Variable([1.0, 1.0, 0.0], dtype=tf.float64)


def left(b, x=X, y=Y):
    return b[0] * np.exp(-b[1] * x) + b[2] - y


def residuals(x, y):
    return B[0] * tf.exp(-B[1] * x) + B[2] - y


def total_of(y=Y, **options):
    def total(position):
        B.assign(position)
        parts = [slice(0, 20), slice(20, 45), slice(45, 60)]
        return sum(tfjac.normal_equations(residuals, B, args=(X[part], y[part]), **options) for part in parts)

    return total


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    "bounds",
    [((0.0, 0.0, 0.6), (3.0, 2.0, 1.0)), ((0.0, 0.0, -1.0), (2.0, 1.2, 1.0)), (-5.0, 5.0), (None, (2.0, 5.0, 0.55))],
)
def test_bounds(bounds):
    lower, upper = (np.full(3, np.inf * side) if each is None else each for side, each in zip((-1, 1), bounds))
    start = np.clip([1.0, 1.0, 0.0], lower, upper)
    known = scipy.optimize.least_squares(
        left, np.clip(start, np.add(lower, 1e-3), np.subtract(upper, 1e-3)), bounds=(lower, upper), **TIGHT
    )
    found = tfjac.least_squares_by_parts(total_of(), start, bounds=bounds, **TIGHT)
    assert tfjac.Status(found.status).converged
    np.testing.assert_allclose(found.x, known.x, rtol=1e-5, atol=1e-7)
    assert np.all(found.x >= lower) and np.all(found.x <= upper) and found.gradient_norm < 1e-5
    np.testing.assert_allclose(found.cost, known.cost, rtol=1e-9)


def test_prior():
    mean, deviation = np.array([np.inf, 1.0, 0.3]), np.array([np.inf, 0.1, 0.02])

    def with_prior(b):
        return np.concatenate([left(b) / 0.05, (b[1:] - mean[1:]) / deviation[1:]])

    def total(position):
        B.assign(position)
        return tfjac.normal_equations(lambda: residuals(X, Y) / 0.05, B)

    known = scipy.optimize.least_squares(with_prior, [1.0, 1.0, 0.0], **TIGHT)
    prior = ([None, 1.0, 0.3], [None, 0.1, 0.02])
    found = tfjac.least_squares_by_parts(total, [1.0, 1.0, 0.0], prior=prior, **TIGHT)
    np.testing.assert_allclose(found.x, known.x, rtol=1e-6)
    np.testing.assert_allclose(found.cost, known.cost, rtol=1e-9)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("loss", ["huber", "soft_l1", "cauchy"])
def test_robust_losses_within_bounds(loss):
    y = Y.copy()
    y[::9] += 2.0
    bounds = ((0.0, 0.0, 0.0), (2.4, 5.0, 5.0))
    known = scipy.optimize.least_squares(
        lambda b: left(b, y=y), [1.0, 1.0, 0.1], loss=loss, f_scale=0.1, bounds=bounds, **TIGHT
    )
    found = tfjac.least_squares_by_parts(total_of(y, loss=loss, loss_scale=0.1), [1.0, 1.0, 0.1], bounds=bounds)
    np.testing.assert_allclose(found.cost, known.cost, rtol=1e-6)
    np.testing.assert_allclose(found.x, known.x, rtol=1e-3)


def test_what_is_refused():
    with pytest.raises(ValueError, match="must start within their bounds"):
        tfjac.least_squares_by_parts(total_of(), [1.0, 1.0, 0.0], bounds=(0.5, 5.0))
    with pytest.raises(ValueError, match="bounds must hold one number"):
        tfjac.least_squares_by_parts(total_of(), [1.0, 1.0, 0.0], bounds=([0.0], 5.0))
    with pytest.raises(ValueError, match="Unknown loss"):
        total_of(loss="hubre")(np.ones(3))
    with pytest.raises(TypeError, match="start must be real numbers"):
        tfjac.least_squares_by_parts(total_of(), np.array([1j, 1.0, 0.0]))
