"""Data sets that are fitted together: deviations of their own, and values that are missing."""

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import tensorflow as tf

import tfjac
from tfjac.parameters import fit_together

XS = [np.linspace(0.0, 4.0, 40), np.linspace(0.0, 3.0, 25)]
NOISE = np.random.default_rng(0)
SIGMA = [np.linspace(0.02, 0.1, 40), np.linspace(0.2, 0.05, 25)]
YS = [height * np.exp(-1.3 * x) + NOISE.normal(size=x.size) * s for height, x, s in zip((2.5, 4.0), XS, SIGMA)]


def decay(x, height, rate):
    return height * tf.exp(-rate * x)


def params():
    return tfjac.Parameters(height=1.0, rate=1.0)


def test_each_data_set_has_deviations_of_its_own_length():
    fit = fit_together(decay, XS, YS, params(), shared=["rate"], sigma=SIGMA)

    def joined(v):
        return np.concatenate([(v[1 + k] * np.exp(-v[0] * XS[k]) - YS[k]) / SIGMA[k] for k in range(2)])

    known = scipy.optimize.least_squares(joined, [1.0, 1.0, 1.0], xtol=1e-14, ftol=1e-14, gtol=1e-14)
    variance = 2 * known.cost / (known.fun.size - 3)
    errors = np.sqrt(variance * np.diag(np.linalg.inv(known.jac.T @ known.jac)))
    for name, value, error in zip(("rate", "height_1", "height_2"), known.x, errors):
        np.testing.assert_allclose(fit.values[name], value, rtol=1e-5)
        np.testing.assert_allclose(fit.standard_errors()[name], error, rtol=1e-4)


def test_values_that_are_missing_are_refused_by_the_number_of_the_data_set():
    ys = [YS[0], np.where(XS[1] > 2.9, np.nan, YS[1])]
    with pytest.raises(ValueError, match=r"ydata must be finite.*Received: ydata with 1 values .* in data set 2"):
        fit_together(decay, XS, ys, params(), shared=["rate"])
    with pytest.raises(ValueError, match=r"deviations, which are positive. Received: .* in data set 1"):
        fit_together(decay, XS, YS, params(), shared=["rate"], sigma=[0 * SIGMA[0], SIGMA[1]])


@pytest.mark.parametrize("kept", [20, 1])
def test_x_and_y_of_other_lengths_are_refused_by_the_number_of_the_data_set(kept):
    message = rf"one value for each of ydata.*data set 2, values of \(25,\), ydata of \({kept},\)"
    with pytest.raises(ValueError, match=message):
        fit_together(decay, XS, [YS[0], YS[1][:kept]], params(), shared=["rate"])


def joined(v, whiten):
    left = [v[1 + k] * np.exp(-v[0] * XS[k]) - YS[k] for k in range(2)]
    return np.concatenate([matrix @ each for matrix, each in zip(whiten, left)])


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("kind", ["deviations", "covariance"])
def test_deviations_as_they_are_and_covariances(kind, absolute):
    sigma, whiten = SIGMA, [np.diag(1 / each) for each in SIGMA]
    if kind == "covariance":
        second = 0.1**2 * np.exp(-np.abs(XS[1][:, None] - XS[1]))
        sigma, whiten = [SIGMA[0], second], [whiten[0], np.linalg.inv(np.linalg.cholesky(second))]
    known = scipy.optimize.least_squares(joined, [1.0, 1.0, 1.0], args=(whiten,), xtol=1e-14, ftol=1e-14, gtol=1e-14)
    variance = 1.0 if absolute else 2 * known.cost / (known.fun.size - 3)
    errors = np.sqrt(variance * np.diag(np.linalg.inv(known.jac.T @ known.jac)))
    fit = fit_together(decay, XS, YS, params(), shared=["rate"], sigma=sigma, absolute_sigma=absolute)
    for name, value, error in zip(("rate", "height_1", "height_2"), known.x, errors):
        np.testing.assert_allclose(fit.values[name], value, rtol=1e-5)
        np.testing.assert_allclose(fit.standard_errors()[name], error, rtol=1e-4)
    reach = scipy.stats.norm.ppf(0.975) if absolute else scipy.stats.t.ppf(0.975, known.fun.size - 3)
    low, high = fit.confidence_intervals()["rate"]
    np.testing.assert_allclose((high - low) / 2, reach * errors[0], rtol=1e-4)
    low, high = fit.conf_interval("rate", sigmas=[0.95])["rate"][0]
    np.testing.assert_allclose((high - low) / 2, reach * errors[0], rtol=0.02)
    if kind == "covariance":
        with pytest.raises(ValueError, match="kind='residuals'"):
            fit.bootstrap(5, "pairs")


def test_a_function_of_numpy_arrays_and_what_belongs_to_no_number():
    def by_numpy(x, height, rate):
        return height * tf.exp(-rate * np.sort(x))

    fit = fit_together(by_numpy, XS, YS, params(), shared=["rate"])
    known = fit_together(decay, XS, YS, params(), shared=["rate"])
    np.testing.assert_allclose(list(fit.values.values()), list(known.values.values()), rtol=1e-9)
    with pytest.raises(TypeError, match=r"dates or durations.*in data set 1"):
        fit_together(decay, [XS[0].astype("datetime64[D]"), XS[1]], YS, params(), shared=["rate"])
