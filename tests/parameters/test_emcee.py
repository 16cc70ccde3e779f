"""Draws from posteriors: those of a straight line are known, Gaussian where σ is, Student's t where it is not."""

import builtins

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

import tfjac
from tfjac import models

X = np.linspace(0.0, 2.0, 12)
Y = 0.7 + 1.9 * X + 0.3 * np.random.default_rng(5).normal(size=12)
ROWS = np.stack([np.ones(12), X], axis=1)


def line(x, offset, slope):
    return offset + slope * x


def params(**more):
    return tfjac.Parameters(offset=0.0, slope={"value": 1.0, **more}, at_two="offset + 2*slope")


@pytest.fixture
def emcee():
    return pytest.importorskip("emcee", reason="the sampler is an optional package")


def known(sigma):
    """Mean and covariance of offset and slope, and of offset + 2 slope behind them."""
    matrix = np.linalg.inv(ROWS.T @ ROWS) * sigma**2
    all_three = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 2.0]])
    best = np.linalg.lstsq(ROWS, Y, rcond=None)[0]
    return all_three @ best, all_three @ matrix @ all_three.T


@pytest.mark.by_day(None)
def test_a_gaussian_posterior(emcee):
    fit = tfjac.curve_fit(line, X, Y, p0=params(), sigma=0.3, absolute_sigma=True)
    found = fit.emcee(400, 120, seed=1)
    mean, matrix = known(0.3)
    draws = np.stack([found.values[name] for name in ("offset", "slope", "at_two")])
    errors = np.sqrt(np.diag(matrix))
    np.testing.assert_allclose((draws.mean(axis=1) - mean) / errors, 0, atol=0.1)
    np.testing.assert_allclose(draws.std(axis=1) / errors, 1, rtol=0.06)
    np.testing.assert_allclose(np.corrcoef(draws)[0, 1], matrix[0, 1] / np.prod(errors[:2]), atol=0.06)
    assert found.chain.shape == (300, 120, 2) and found.names == ("offset", "slope")
    low, high = found.confidence_intervals(0.9)["slope"]
    np.testing.assert_allclose([low, high], mean[1] + errors[1] * scipy.stats.norm.ppf([0.05, 0.95]), atol=0.01)
    again = fit.emcee(100, seed=1), fit.emcee(100, seed=1), fit.emcee(100, seed=2)
    np.testing.assert_array_equal(again[0].chain, again[1].chain)
    assert not np.array_equal(again[0].chain, again[2].chain)


@pytest.mark.by_day(None)
def test_an_unknown_scale_is_integrated_out(emcee):
    """The marginals are Student's t with N − 2 degrees of freedom."""
    fit = tfjac.curve_fit(line, X, Y, p0=params())
    found = fit.emcee(400, 150, seed=3)
    best, matrix = known(1.0)
    sigma = np.sqrt(np.sum((ROWS @ best[:2] - Y) ** 2) / 10)
    for k, name in enumerate(("offset", "slope", "at_two")):
        ends = best[k] + sigma * np.sqrt(matrix[k, k]) * scipy.stats.t.ppf([0.025, 0.25, 0.75, 0.975], 10)
        shares = [np.mean(found.values[name] < end) for end in ends]
        np.testing.assert_allclose(shares, [0.025, 0.25, 0.75, 0.975], atol=0.04)


@pytest.mark.by_day(None)
def test_priors_and_bounds(emcee):
    """A Gaussian prior multiplies; a bound cuts the posterior off: a normal distribution that is cut."""
    given = params(prior=(1.5, 0.1))
    fit = tfjac.curve_fit(line, X, Y, p0=given, sigma=0.3, absolute_sigma=True)
    precision = ROWS.T @ ROWS / 0.09 + np.diag([0.0, 100.0])
    mean = np.linalg.solve(precision, ROWS.T @ Y / 0.09 + np.array([0.0, 150.0]))
    errors = np.sqrt(np.diag(np.linalg.inv(precision)))
    found = fit.emcee(300, 120, seed=4)
    for k, name in enumerate(("offset", "slope")):
        np.testing.assert_allclose((found.values[name].mean() - mean[k]) / errors[k], 0, atol=0.1)
        np.testing.assert_allclose(found.values[name].std() / errors[k], 1, rtol=0.08)

    held = tfjac.Parameters(offset={"value": 0.7, "vary": False}, slope={"value": 1.0, "max": 1.5})
    fit = tfjac.curve_fit(line, X, Y, p0=held, sigma=0.3, absolute_sigma=True)
    assert fit.values["slope"] == 1.5  # at its bound, with no error by the linear model
    found = fit.emcee(300, 120, seed=5).values
    centre, width = X @ (Y - 0.7) / (X @ X), 0.3 / np.sqrt(X @ X)
    cut = scipy.stats.truncnorm(-np.inf, (1.5 - centre) / width, centre, width)
    assert found["slope"].max() <= 1.5 and np.all(found["offset"] == 0.7)
    np.testing.assert_allclose(found["slope"].mean(), cut.mean(), atol=0.15 * cut.std())
    np.testing.assert_allclose(found["slope"].std(), cut.std(), rtol=0.12)


def test_models_residuals_and_what_is_printed(emcee):
    x = np.linspace(0.0, 10.0, 60)
    y = 3 * np.exp(-((x - 4) ** 2) / 2) + 0.1 * np.random.default_rng(6).normal(size=60)
    fit = models.gaussian().fit(x, y)
    found = fit.emcee(400, walkers=20, burn=100, thin=2)
    assert found.chain.shape == (150, 20, 3)
    text = str(found)
    assert "150 steps of 20 walkers" in text and "fwhm" in text and "autocorrelation" in text
    np.testing.assert_allclose(found.standard_errors()["center"], fit.standard_errors()["center"], rtol=0.2)
    residuals = lambda p, x, y: line(x, p["a"], p["b"]) - y  # noqa: E731
    by_residuals = tfjac.least_squares(residuals, tfjac.Parameters(a=0.0, b=1.0), args=(X, Y))
    draws = by_residuals.emcee(200).values["b"]
    np.testing.assert_allclose(np.mean(draws), known(1.0)[0][1], atol=0.05)


def test_short_chains_are_warned_of(emcee):
    fit = tfjac.curve_fit(line, X, Y, p0=params())
    with pytest.warns(UserWarning, match=r"tfjac: the chain of 'offset' is short: 30 steps after burn"):
        fit.emcee(40, burn=10)


def test_what_is_refused(monkeypatch):
    fit = tfjac.curve_fit(line, X, Y, p0=params())
    with pytest.raises(ValueError, match=r"fit first, then draw from the posterior by fit.emcee\(\).*method='emcee'"):
        tfjac.curve_fit(line, X, Y, p0=params(), method="emcee")
    real = builtins.__import__

    def without(name, *rest):
        if name == "emcee":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install emcee. Received: an environment without it"):
        fit.emcee()


def test_what_is_refused_of_options(emcee):
    fit = tfjac.curve_fit(line, X, Y, p0=params())
    for options in ({"walkers": 3}, {"steps": 10, "burn": 10}, {"steps": 10, "burn": 5, "thin": 6}):
        with pytest.raises(ValueError, match=r"twice as many walkers as free parameters, and steps after burn"):
            fit.emcee(**options)
    with pytest.raises(ValueError, match=r"Received: a robust loss"):
        tfjac.curve_fit(line, X, Y, p0=params(), loss="huber").emcee()
    exact = tfjac.curve_fit(lambda x, a: a * tf.ones_like(x), X, np.zeros(12), p0=tfjac.Parameters(a=0.0))
    with pytest.raises(ValueError, match=r"say nothing of the deviations.*Received: chi-square 0, 11 degrees"):
        exact.emcee(10)
