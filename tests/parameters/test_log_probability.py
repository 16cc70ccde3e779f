"""The logarithm of the posterior, which samplers call, beside its formulas in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac import models

X = np.linspace(0.0, 2.0, 12)
Y = 0.7 + 1.9 * X + 0.3 * np.random.default_rng(5).normal(size=12)
DRAWS = np.array([0.7, 1.9]) + 0.4 * np.random.default_rng(6).normal(size=(20, 2))
CHI_SQUARE = np.sum((DRAWS[:, :1] + DRAWS[:, 1:] * X - Y) ** 2, axis=1)


def line(x, offset, slope):
    return offset + slope * x


def params(**more):
    return tfjac.Parameters(offset=0.0, slope={"value": 1.0, **more}, at_two="offset + 2*slope")


def test_known_deviations():
    fit = tfjac.curve_fit(line, X, Y, p0=params(), sigma=0.3, absolute_sigma=True)
    found = fit.log_probability(DRAWS)
    np.testing.assert_allclose(found, -CHI_SQUARE / 0.09 / 2, rtol=1e-12)
    one = fit.log_probability(DRAWS[3])
    assert one.shape == () and one == found[3]


def test_an_unknown_scale_is_integrated_out():
    """Of ∫ σ^(−N−1) exp(−χ²/2σ²) dσ, χ² appears as χ^−N."""
    expected = -len(X) / 2 * np.log(CHI_SQUARE)
    fit = tfjac.curve_fit(line, X, Y, p0=params())
    np.testing.assert_allclose(fit.log_probability(DRAWS), expected, rtol=1e-12)
    residuals = lambda p, x, y: line(x, p["offset"], p["slope"]) - y  # noqa: E731
    fit = tfjac.least_squares(residuals, params(), args=(X, Y))
    np.testing.assert_allclose(fit.log_probability(DRAWS), expected, rtol=1e-12)


def test_priors_bounds_and_fixed_parameters():
    given = params(prior=(1.5, 0.1), max=2.0)
    fit = tfjac.curve_fit(line, X, Y, p0=given, sigma=0.3, absolute_sigma=True)
    expected = -CHI_SQUARE / 0.09 / 2 - ((DRAWS[:, 1] - 1.5) / 0.1) ** 2 / 2
    outside = DRAWS[:, 1] > 2.0
    assert 0 < outside.sum() < len(outside)
    np.testing.assert_allclose(fit.log_probability(DRAWS), np.where(outside, -np.inf, expected), rtol=1e-12)
    held = tfjac.Parameters(offset={"value": 0.7, "vary": False}, slope=1.0)
    fit = tfjac.curve_fit(line, X, Y, p0=held, sigma=0.3, absolute_sigma=True)
    found = fit.log_probability(DRAWS[:, 1:])
    np.testing.assert_allclose(found, -np.sum((0.7 + DRAWS[:, 1:] * X - Y) ** 2, axis=1) / 0.18, rtol=1e-12)


def test_complex_data_and_what_is_not_finite():
    y = (1.5 + 0.5j) * X + 0.1
    fit = tfjac.curve_fit(lambda x, a, b: tf.complex(a * x, b * x), X, y, p0=tfjac.Parameters(a=1.0, b=1.0))
    expected = -len(X) * np.log(np.sum(np.abs((DRAWS @ [1, 1j])[:, None] * X - y) ** 2, axis=1))
    np.testing.assert_allclose(fit.log_probability(DRAWS), expected, rtol=1e-12)
    fit = tfjac.curve_fit(lambda x, a: tf.sqrt(a) * x, X, Y, p0=tfjac.Parameters(a=2.0))
    assert fit.log_probability([-1.0]) == -np.inf and np.isfinite(fit.log_probability([1.0]))


@pytest.mark.by_day(None)
def test_emcee_samples_it():
    emcee = pytest.importorskip("emcee", reason="the sampler is an optional package")
    x = np.linspace(0.0, 10.0, 60)
    y = 3 * np.exp(-((x - 4) ** 2) / 2) + 0.1 * np.random.default_rng(6).normal(size=60)
    fit = models.gaussian().fit(x, y)
    names, errors = fit.free_names(), fit.standard_errors()
    best, spread = ([of[name] for name in names] for of in (fit.values, errors))
    sampler = emcee.EnsembleSampler(40, 3, fit.log_probability, vectorize=True)
    sampler.random_state = np.random.RandomState(1).get_state()
    sampler.run_mcmc(np.random.default_rng(0).normal(best, spread, size=(40, 3)), 600)
    chain = sampler.get_chain(discard=100, flat=True)
    np.testing.assert_allclose((chain.mean(axis=0) - best) / spread, 0, atol=0.15)
    np.testing.assert_allclose(chain.std(axis=0), spread, rtol=0.1)


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"let emcee draw by fit.log_probability.*method='emcee'"):
        tfjac.curve_fit(line, X, Y, p0=params(), method="emcee")
    with pytest.raises(ValueError, match=r"Received: values of shape \(20, 1\), 2 free parameters"):
        tfjac.curve_fit(line, X, Y, p0=params()).log_probability(DRAWS[:, :1])
    with pytest.raises(ValueError, match=r"Received: a robust loss"):
        tfjac.curve_fit(line, X, Y, p0=params(), loss="huber").log_probability(DRAWS)
    exact = tfjac.curve_fit(lambda x, a: a * tf.ones_like(x), X, np.zeros(12), p0=tfjac.Parameters(a=0.0))
    with pytest.raises(ValueError, match=r"say nothing of the deviations.*Received: chi-square 0, 11 degrees"):
        exact.log_probability([0.0])
