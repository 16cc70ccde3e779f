"""`max_steps=0`: what is known of the start, without a step. The oracle is NumPy."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac.optimizers import Status, least_squares

T = np.linspace(0.0, 2.0, 12)
Y = 2 * np.exp(-T) + 0.1 * np.sin(9 * T)
START = np.array([1.5, 0.7])


def expected():
    """The cost, the gradient's largest element, J, and the covariance at the start."""
    jacobian = np.stack([np.exp(-START[1] * T), -START[0] * T * np.exp(-START[1] * T)], axis=1)
    residuals = START[0] * np.exp(-START[1] * T) - Y
    covariance = np.linalg.inv(jacobian.T @ jacobian) * (residuals @ residuals) / (len(T) - 2)
    return residuals @ residuals / 2, np.abs(jacobian.T @ residuals).max(), jacobian, covariance


OPTIONS = {
    "native or not": {},
    "radius": {"damping": "radius"},
    "window": {"window": 4},
    "compiled": {"jit_compile": True},
    "seen": {"callback": lambda state: None, "verbose": 1},
}


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name", OPTIONS)
def test_what_is_known_of_the_start(name):
    w = tf.Variable(START)
    result = least_squares(lambda: w[0] * tf.exp(-w[1] * T) - Y, w, max_steps=0, **OPTIONS[name])
    cost, gradient, jacobian, covariance = expected()
    assert result.status is Status.MAX_STEPS and not result.success
    assert result.steps == result.evaluations == 0 and len(result.history.cost) == 0
    np.testing.assert_array_equal(w.numpy(), START)
    np.testing.assert_allclose([result.cost, result.gradient_norm], [cost, gradient], rtol=1e-10)
    np.testing.assert_allclose(result.jacobian(), jacobian, rtol=1e-10)
    np.testing.assert_allclose(result.covariance(), covariance, rtol=1e-8)


@pytest.mark.by_day(None)
def test_in_a_graph():
    w = tf.Variable(START)

    @tf.function(autograph=False)
    def evaluated():
        return least_squares(lambda: w[0] * tf.exp(-w[1] * T) - Y, w, max_steps=0)

    outcome = evaluated()
    cost, gradient, *_ = expected()
    assert int(outcome.status) == Status.MAX_STEPS and int(outcome.steps) == 0
    np.testing.assert_array_equal(w.numpy(), START)
    np.testing.assert_allclose([outcome.cost, outcome.gradient_norm], [cost, gradient], rtol=1e-10)


@pytest.mark.filterwarnings("ignore:tfjac.curve_fit. Stopped after max_steps")
def test_of_a_curve_and_of_what_cannot_be():
    fit = tfjac.curve_fit(lambda t, a, b: a * tf.exp(-b * t), T, Y, p0=START, max_steps=0)
    np.testing.assert_array_equal(fit.popt, START)
    np.testing.assert_allclose(fit.pcov, expected()[-1], rtol=1e-8)
    outside = tf.Variable(START)
    with pytest.raises(ValueError, match="bounds"):
        least_squares(lambda: outside - 1, outside, bounds=(2.0, 3.0), max_steps=0)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("bounds", [None, (0.0, 3.0)])
def test_of_many_fits(bounds):
    """Five of them, three at once, one of which begins where nothing is finite."""
    starts = START * np.array([[1.0], [1.1], [0.9], [1.2], [0.8]])
    starts[3, 0] = np.nan if bounds is None else 2.0
    w, data = tf.Variable(starts), np.tile(Y, (5, 1))
    residuals = lambda y: w[:, :1] * tf.exp(-w[:, 1:] * T) - y  # noqa: E731
    options = {} if bounds is None else {"bounds": bounds}
    result = least_squares(residuals, w, args=(data,), batch_dims=1, max_steps=0, **options)
    np.testing.assert_array_equal(w.numpy(), starts)
    cost = np.sum((starts[:, :1] * np.exp(-starts[:, 1:] * T) - Y) ** 2, axis=1) / 2
    np.testing.assert_allclose(result.cost, cost, rtol=1e-10)
    finite = np.isfinite(cost)
    assert (np.asarray(result.status)[finite] == Status.MAX_STEPS).all() and not np.any(result.success)
    assert (np.asarray(result.steps) == 0).all()
