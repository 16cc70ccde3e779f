"""Gaussian priors: the same problem with the prior written as more residuals, through SciPy, and NumPy's formulas."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from tfjac.optimizers import Status, curve_fit, least_squares

T = np.linspace(0, 4, 30)
NOISE = 0.05
Y = 3.0 * np.exp(-0.7 * T) + 0.2 + NOISE * np.cos(37 * T)
MEAN, DEVIATION = np.array([2.5, np.nan, 0.5]), np.array([0.1, np.inf, 0.02])
START = [1.0, 0.1, 0.0]
TIGHT = {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}


def decay(t, a, rate, offset):
    return a * np.exp(-rate * t) + offset


def residuals(x):
    return (x[0] * tf.exp(-x[1] * T) + x[2] - Y) / NOISE


def extended(x):
    """The residuals, and one more for each prior."""
    return np.concatenate([(decay(T, *x) - Y) / NOISE, ((x - MEAN) / DEVIATION)[[0, 2]]])


PRIOR = ([2.5, None, 0.5], [0.1, None, 0.02])
X = tf.Variable(START, dtype=tf.float64)
"""That all fits share, and with it the trace of those with the same options."""


def fit(start=START, **options):
    X.assign(start)
    return least_squares(lambda: residuals(X), X, **{"prior": PRIOR, **TIGHT, **options})


REFERENCE = scipy.optimize.least_squares(extended, START, "3-point", ftol=1e-14, xtol=1e-14, gtol=1e-14)


def slopes(x):
    falling = np.exp(-x[1] * T)
    return np.stack([falling, -x[0] * T * falling, np.ones_like(T)], axis=1) / NOISE


@pytest.mark.by_day(None)
@pytest.mark.parametrize("solver", ["kernel", "lsmr"])
def test_the_minimum_with_more_residuals(solver):
    """Of variables by themselves, so that the kernel takes the prior too; and of solvers that know r but not g."""
    a, rate, offset = (tf.Variable(value, dtype=tf.float64) for value in START)
    variables = {"a": a, "rest": [rate, offset]}
    prior = ({"a": 2.5, "rest": [None, 0.5]}, {"a": 0.1, "rest": [None, 0.02]})
    found = least_squares(
        lambda: residuals([a, rate, offset]), variables, prior=prior, solver=solver, damping="nielsen", **TIGHT
    )
    np.testing.assert_allclose([found.x["a"], *found.x["rest"]], REFERENCE.x, rtol=1e-6)
    np.testing.assert_allclose(found.cost, REFERENCE.cost, rtol=1e-10)


@pytest.mark.by_day(None)
def test_covariance_and_effective_parameters():
    found = fit()
    jacobian, precision = slopes(REFERENCE.x), np.array([100.0, 0.0, 2500.0])
    posterior = np.linalg.inv(jacobian.T @ jacobian + np.diag(precision))
    effective = np.trace(jacobian.T @ jacobian @ posterior)
    chi_square = np.sum(np.square((decay(T, *REFERENCE.x) - Y) / NOISE))
    variance = chi_square / (30 - effective)
    np.testing.assert_allclose(found.effective_parameters, effective, rtol=1e-5)
    np.testing.assert_allclose(found.degrees_of_freedom, 30 - effective, rtol=1e-5)
    np.testing.assert_allclose(found.reduced_chi_square, variance, rtol=1e-5)
    np.testing.assert_allclose(found.covariance(), variance * posterior, rtol=1e-4, atol=1e-12)
    assert 1 < effective < 2.5 and f"{effective:.4g}"[:4] in found.summary() and "effective" in found.summary()

    plain = fit(prior=None)
    assert plain.effective_parameters == plain.rank == 3 and "effective" not in plain.summary()


def test_curve_fit_has_the_covariance_of_scipys_extended_fit():
    """With absolute deviations the posterior is exactly that of the prior as measurements."""
    model = lambda t, a, rate, offset: a * tf.exp(-rate * t) + offset  # noqa: E731
    popt, pcov = curve_fit(model, T, Y, START, sigma=NOISE, absolute_sigma=True, prior=PRIOR, **TIGHT)
    values, deviations = np.concatenate([Y, [2.5, 0.5]]), np.concatenate([np.full(30, NOISE), [0.1, 0.02]])
    both = lambda t, *b: np.concatenate([decay(t, *b), [b[0], b[2]]])  # noqa: E731
    expected = scipy.optimize.curve_fit(both, T, values, START, deviations, True, ftol=1e-14, xtol=1e-14, gtol=1e-14)
    np.testing.assert_allclose(popt, expected[0], rtol=1e-6)
    np.testing.assert_allclose(pcov, expected[1], rtol=1e-4, atol=1e-12)


@pytest.mark.by_day(None)
def test_with_bounds_fixed_and_robust_losses():
    start, upper = [2.0, 0.1, 0.3], [np.inf, np.inf, 0.4]
    found = fit(start, bounds=(None, upper))
    expected = scipy.optimize.least_squares(extended, start, "3-point", (-np.inf, upper), xtol=1e-14)
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-6)
    jacobian = slopes(found.x)[:, :2]
    effective = np.trace(jacobian.T @ jacobian @ np.linalg.inv(jacobian.T @ jacobian + np.diag([100.0, 0.0])))
    np.testing.assert_allclose(found.effective_parameters, effective, rtol=1e-6)

    found = fit(start, fixed=[False, False, True], loss="cauchy")

    def cost(b):
        pull = (b[0] - 2.5) / 0.1
        return np.log1p(np.square((decay(T, *b, 0.3) - Y) / NOISE)).sum() / 2 + pull**2 / 2 + 50  # of the fixed one

    expected = scipy.optimize.minimize(cost, found.x[:2], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    np.testing.assert_allclose(found.x[:2], expected.x, rtol=1e-6)
    np.testing.assert_allclose(found.cost, expected.fun, rtol=1e-9)


@pytest.mark.by_day(None)
def test_what_only_the_prior_determines():
    """Residuals of a sum alone; and residuals without weight, which leave the means."""
    x = tf.Variable([5.0, -3.0], dtype=tf.float64)
    found = least_squares(lambda: x[0] + x[1] - tf.constant([1.0, 1.2], tf.float64), x, prior=([0, 0], 2.0), **TIGHT)
    np.testing.assert_allclose(found.x, np.full(2, 0.5 * 2 * 1.1 / (2 + 0.125)), rtol=1e-9)
    assert found.rank == 2 and not found.undetermined.any()
    np.testing.assert_allclose(found.effective_parameters, 4 / (4 + 0.25), rtol=1e-9)
    found = least_squares(lambda: 0.0 * x, x, prior=([3.0, 1e3], [1e-3, 1e2]), **TIGHT)
    np.testing.assert_allclose(found.x, [3.0, 1e3], rtol=1e-9)
    assert found.success


@pytest.mark.by_day(None)
def test_in_a_graph_with_derivatives_and_resumed(tmp_path):
    @tf.function
    def fitted(y):
        X.assign(START)
        outcome = least_squares(lambda y: (residuals(X) * NOISE + Y - y) / NOISE, X, args=(y,), prior=PRIOR, **TIGHT)
        return outcome, tf.gradients(tf.reduce_sum(outcome.x), y)[0]

    outcome, gradient = fitted(tf.constant(Y))
    np.testing.assert_allclose(outcome.x, REFERENCE.x, rtol=1e-6)

    def moved(size):
        shifted = lambda b: extended(b) - np.concatenate([size / NOISE * (np.arange(30) == 7), [0, 0]])  # noqa: E731
        return scipy.optimize.least_squares(shifted, REFERENCE.x, "3-point", ftol=1e-15, xtol=1e-15, gtol=1e-15).x.sum()

    np.testing.assert_allclose(gradient[7], (moved(1e-3) - moved(-1e-3)) / 2e-3, rtol=1e-3)

    assert fit(max_steps=3, checkpoint=tmp_path / "run").status is Status.MAX_STEPS
    rest, whole = fit(checkpoint=tmp_path / "run"), fit()
    assert rest.x.tobytes() == whole.x.tobytes() and rest.steps == whole.steps
    with pytest.raises(ValueError, match="another problem"):
        fit(prior=(0.0, 1.0), checkpoint=tmp_path / "run")


def test_bad_priors():
    x = tf.Variable(START, name="x")
    fit = lambda **options: least_squares(lambda: x - 1.0, x, **options)  # noqa: E731
    with pytest.raises(ValueError, match=r"pair \(mean, standard deviation\).*Received: prior=3"):
        fit(prior=3)
    with pytest.raises(ValueError, match=r"must be positive.*Received: prior with deviation 0.0 for x:0\[1\]"):
        fit(prior=(0.0, [1.0, 0.0, 1.0]))
    with pytest.raises(ValueError, match=r"one for each of its elements. Received: \[1, 2\] for x"):
        fit(prior=([1, 2], 1.0))
    with pytest.raises(ValueError, match="must not be NaN"):
        fit(prior=(np.nan, 1.0))
    with pytest.raises(ValueError, match=r"weigh all elements of a variable alike"):
        fit(prior=(0.0, [1.0, 2.0, 3.0]), solver="kernel")
