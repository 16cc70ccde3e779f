"""What ends with the curvature of residuals is a minimum: SciPy goes nowhere from there."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from tfjac.optimizers import LeastSquaresProblem, TrustRegionDamping, curve_fit, least_squares

T = np.linspace(0.1, 4.0, 30)
LOWER, UPPER = -1.5, 2.0


class Loop(TrustRegionDamping):
    """The default, which the native op does not know by this name."""


MODELS = {
    "decays": (4, lambda x, xp: x[0] * xp.exp(-x[1] * T) + x[2] * xp.exp(-x[3] * T)),
    "ratio": (4, lambda x, xp: (x[0] + x[1] * T) / (1 + x[2] ** 2 * T + x[3] ** 2 * T * T)),
    "squares": (3, lambda x, xp: (x[0] * T - 1) ** 2 + (x[1] * T - x[2]) ** 2),
}


def numpy_residuals(name, data):
    return lambda x: MODELS[name][1](x, np) - data


def runs(name, damping, spread, bounds, number=4):
    """Yield results from random starts on noise, which no model meets, and the residuals in NumPy's numbers."""
    size, model = MODELS[name]
    rng = np.random.default_rng(len(name))
    x, data, scale = (tf.Variable(np.zeros(n), dtype=tf.float64) for n in (size, len(T), size))
    options = {"bounds": (LOWER, UPPER)} if bounds else {}
    residuals = lambda: model(tf.unstack(x * scale), tf) - data  # noqa: E731
    problem = LeastSquaresProblem(residuals, x, max_steps=300, damping=damping(), **options)
    for _ in range(number):
        noise, start, scales = (
            3 * rng.normal(size=len(T)),
            rng.normal(size=size),
            10 ** rng.uniform(-spread, spread, size),
        )
        data.assign(noise)
        scale.assign(scales)
        x.assign(np.clip(start, LOWER, UPPER) / scales)
        result = problem.solve()
        yield result, np.asarray(result.x) * scales, numpy_residuals(name, noise)


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    ("spread", "bounds", "damping"),
    [(0, False, TrustRegionDamping), (6, False, TrustRegionDamping), (0, True, TrustRegionDamping), (6, False, Loop)],
    ids=["free", "scaled", "bounds", "loop"],
)
@pytest.mark.parametrize("name", MODELS)
def test_scipy_goes_nowhere_from_where_it_ends(name, spread, bounds, damping):
    box = {"bounds": (LOWER, UPPER)} if bounds else {}
    ended = 0
    for result, x, residuals in runs(name, damping, spread, bounds):
        cost = np.sum(residuals(x) ** 2) / 2
        assert np.all(np.diff(result.history.cost) <= 1e-14 * cost)
        np.testing.assert_allclose(result.cost, cost, rtol=1e-9)
        if result.success:
            ended += 1
            further = scipy.optimize.least_squares(
                residuals, np.clip(x, LOWER, UPPER) if bounds else x, "3-point", **box
            )
            assert further.cost > (1 - 1e-5) * cost
    assert ended >= 2


def wrong(x):
    """The square root has no value left of 0.8, nor has its slope one there."""
    return x[0] * tf.sqrt(x[1] - 0.8) + x[2] * tf.exp(-x[3] * T) + x[1] * T - 9 * np.cos(2 * T)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("damping", [TrustRegionDamping, Loop])
def test_steps_to_where_there_is_no_number_are_taken_back(damping):
    x = tf.Variable([2.0, 1.5, 1.0, 0.3], dtype=tf.float64)
    found = least_squares(wrong, x, damping=damping(), max_steps=300)
    assert np.all(np.diff(found.history.cost) <= 0)
    assert x.numpy()[1] >= 0.8
    np.testing.assert_array_equal(x, found.x)
    other = least_squares(wrong, tf.Variable([2.0, 1.5, 1.0, 0.3], dtype=tf.float64), max_steps=300)
    np.testing.assert_allclose(found.cost, other.cost, rtol=1e-5)


def test_errors_of_a_curve_are_those_of_scipy():
    """They are of J alone, with sigma, also where S took the steps."""
    rng = np.random.default_rng(3)
    sigma, data = rng.uniform(0.5, 2, len(T)), 4 * np.sin(3 * T) + 3 * np.cos(7 * T) + rng.normal(size=len(T))
    model = lambda t, a, b, c: a * tf.cos(b * t + c)  # noqa: E731
    found, errors = curve_fit(model, T, data, [1.0, 2.5, 0.2], sigma=sigma)[:2]
    by_numpy = lambda t, a, b, c: a * np.cos(b * t + c)  # noqa: E731
    expected, covariance = scipy.optimize.curve_fit(by_numpy, T, data, np.asarray(found), sigma)
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    np.testing.assert_allclose(errors, covariance, rtol=1e-2)
