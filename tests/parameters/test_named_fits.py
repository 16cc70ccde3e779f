"""Fits of named parameters, against SciPy and the formulas written out; and the mistakes that people make first."""

import copy
import json
import math
import pickle
import warnings

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import tensorflow as tf

import tfjac

X = np.linspace(0.0, 4.0, 40)
Y = 2.5 * np.exp(-1.3 * X) + 0.5 + np.random.default_rng(0).normal(scale=0.05, size=40)
TIGHT = {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}


def decay(x, amplitude, rate, offset):
    return amplitude * tf.exp(-rate * x) + offset


def residuals(p, x, y):
    return decay(x, p["amplitude"], p["rate"], p["offset"]) - y


def by_scipy(f, p0, **options):
    return scipy.optimize.curve_fit(f, X, Y, p0, ftol=1e-14, xtol=1e-14, gtol=1e-14, **options)


@pytest.mark.parametrize("way", ["curve_fit", "least_squares"])
def test_the_same_as_by_position_with_statistics_by_name(way):
    params = tfjac.Parameters(offset=0.0, amplitude=1.0, rate={"value": 1.0, "min": 0.0})
    if way == "curve_fit":
        fit = tfjac.curve_fit(decay, X, Y, p0=params, **TIGHT)
    else:
        fit = tfjac.least_squares(residuals, params, args=(X, Y), **TIGHT)
    popt, pcov = by_scipy(lambda x, offset, amplitude, rate: amplitude * np.exp(-rate * x) + offset, [0, 1, 1])
    assert fit.success and fit.names == ("offset", "amplitude", "rate")
    np.testing.assert_allclose(list(fit.values.values()), popt, rtol=1e-7)
    errors = fit.standard_errors()
    np.testing.assert_allclose([errors[name] for name in fit.names], np.sqrt(np.diag(pcov)), rtol=1e-6)
    np.testing.assert_allclose(
        fit.correlations()["rate"]["offset"], pcov[2, 0] / np.sqrt(pcov[0, 0] * pcov[2, 2]), rtol=1e-5
    )
    left = popt[1] * np.exp(-popt[2] * X) + popt[0] - Y
    chi_square, count = left @ left, X.size
    np.testing.assert_allclose(fit.chi_square, chi_square, rtol=1e-10)
    np.testing.assert_allclose(fit.reduced_chi_square, chi_square / (count - 3), rtol=1e-10)
    np.testing.assert_allclose(fit.aic, count * np.log(chi_square / count) + 6, rtol=1e-10)
    np.testing.assert_allclose(fit.bic, count * np.log(chi_square / count) + 3 * np.log(count), rtol=1e-10)
    observed = [] if way == "curve_fit" else [Y]
    np.testing.assert_allclose(fit.r_squared(*observed), 1 - chi_square / np.sum((Y - Y.mean()) ** 2), rtol=1e-10)
    found = fit.params["rate"]
    assert found.value == fit.values["rate"] and found.stderr == errors["rate"] and found.init_value == 1.0
    assert params["rate"].value == 1.0 and params["rate"].stderr is None  # what was given stays
    again, covariance = fit
    assert np.array_equal(again, list(fit.values.values())) and np.array_equal(covariance, fit.covariance())


def test_errors_of_tied_parameters_are_carried_over():
    """Their values and errors are those of another parametrisation."""
    params = tfjac.Parameters(amplitude=1.0, life=1.0, rate="1/life", offset=0.0, total="amplitude*life + offset")
    fit = tfjac.curve_fit(decay, X, Y, p0=params, **TIGHT)
    popt, pcov = by_scipy(lambda x, a, t, c: a * np.exp(-x / t) + c, [1, 1, 0])
    slopes = np.array([[1, 0, 0], [0, 1, 0], [0, -1 / popt[1] ** 2, 0], [0, 0, 1], [popt[1], popt[0], 1]])
    np.testing.assert_allclose(fit.covariance(), slopes @ pcov @ slopes.T, rtol=2e-6)
    np.testing.assert_allclose(fit.params["total"].stderr ** 2, (slopes @ pcov @ slopes.T)[4, 4], rtol=2e-6)
    assert fit.values["rate"] == 1 / fit.values["life"]
    assert fit.free_names() == ["amplitude", "life", "offset"]


def test_a_tie_takes_a_degree_of_freedom_away():
    params = tfjac.Parameters(amplitude=1.0, rate=1.0, offset="amplitude/5")
    fit = tfjac.curve_fit(decay, X, Y, p0=params, **TIGHT)
    popt, pcov = by_scipy(lambda x, a, r: a * np.exp(-r * x) + a / 5, [1, 1])
    np.testing.assert_allclose([fit.values["amplitude"], fit.values["rate"]], popt, rtol=1e-7)
    np.testing.assert_allclose(fit.covariance()[:2, :2], pcov, rtol=1e-6)
    assert fit.degrees_of_freedom == X.size - 2


def test_a_function_as_a_tie_and_a_fixed_parameter():
    params = tfjac.Parameters(amplitude=1.0, rate=lambda offset: 1.0 + offset, offset={"value": 0.3, "vary": False})
    fit = tfjac.least_squares(residuals, params, args=(X, Y))
    bell = np.exp(-1.3 * X)
    np.testing.assert_allclose(fit.values["amplitude"], bell @ (Y - 0.3) / (bell @ bell), rtol=1e-8)
    errors = fit.standard_errors()
    assert errors["offset"] == 0 == errors["rate"] and errors["amplitude"] > 0
    assert "fixed" in fit.summary() and "tied by a function" in fit.summary()


def test_bounds_and_priors():
    params = tfjac.Parameters(amplitude=1.0, rate={"value": 0.5, "max": 1.0}, offset={"value": 0, "prior": (0.0, 0.2)})
    fit = tfjac.curve_fit(decay, X, Y, p0=params, sigma=0.05, absolute_sigma=True, **TIGHT)

    def with_prior(b):
        return np.append((b[0] * np.exp(-b[1] * X) + b[2] - Y) / 0.05, b[2] / 0.2)

    known = scipy.optimize.least_squares(
        with_prior, [1, 0.5, 0], bounds=([-9, -9, -9], [9, 1.0, 9]), method="dogbox", xtol=1e-14, ftol=1e-14, gtol=1e-12
    )
    np.testing.assert_allclose(list(fit.values.values()), known.x, rtol=1e-5)
    assert fit.values["rate"] == 1.0 and fit.standard_errors()["rate"] == 0
    free = known.jac[:, [0, 2]]
    np.testing.assert_allclose(fit.covariance()[np.ix_([0, 2], [0, 2])], np.linalg.inv(free.T @ free), rtol=1e-4)
    assert "at its upper bound" in fit.summary() and "prior 0 ± 0.2" in fit.summary()
    assert "3 free parameters, 1 of them at a bound" in fit.summary()
    assert all(type(end) is float for ends in fit.confidence_intervals().values() for end in ends)


@pytest.mark.by_day(None)
def test_weights_by_sigma_and_lists_of_residuals():
    sigma = 0.02 * (1 + X)
    params = tfjac.Parameters(amplitude=1.0, rate=1.0, offset=0.0)
    one = tfjac.curve_fit(decay, X, Y, p0=params, sigma=sigma, **TIGHT)
    parts = [lambda p, k=k: (residuals(p, X, Y) / sigma)[k::2] for k in range(2)]
    two = tfjac.least_squares(parts, params, **TIGHT)
    _, pcov = by_scipy(lambda x, a, r, c: a * np.exp(-r * x) + c, [1, 1, 0], sigma=sigma)
    for fit in (one, two):
        np.testing.assert_allclose(fit.covariance(), pcov, rtol=1e-5)


def test_a_second_fit_does_not_call_the_function_again():
    calls = []

    def line(x, a, b):
        return a * x + b

    def counted(x, a, b):
        calls.append(1)
        return a * x + b

    params = tfjac.Parameters(a=1.0, b="2*a + c", c=0.0)
    tfjac.curve_fit(counted, X, Y, p0=params)
    assert calls
    first = tfjac.curve_fit(line, X, Y, p0=params)
    kept = len(tfjac.fits.curve_fit._kept.prepared)
    second = tfjac.curve_fit(line, X, 2 * Y, p0=tfjac.Parameters(a=3.0, b="2*a + c", c=0.0))
    assert len(tfjac.fits.curve_fit._kept.prepared) == kept  # the graph of the first
    np.testing.assert_allclose(second.values["a"], 2 * first.values["a"], rtol=1e-9)


def test_the_curve():
    fit = tfjac.curve_fit(decay, X, Y, p0=tfjac.Parameters(amplitude=1.0, rate=1.0, offset=0.0))
    np.testing.assert_allclose(fit.predict(), decay(X, **fit.values), rtol=1e-12)
    lower, upper = fit.confidence_band(np.array([5.0]))
    assert lower < fit.values["offset"] + 0.01 < upper
    wider = fit.prediction_band(np.array([5.0]))
    assert wider[0] < lower and upper < wider[1]
    assert "R²" in repr(fit) and "AIC" in repr(fit) and "rate, offset" in repr(fit)
    low, high = fit.confidence_intervals()["rate"]
    assert low < fit.values["rate"] < high
    with pytest.raises(ValueError, match=r"Only models"):
        fit.components()
    residual_fit = tfjac.least_squares(residuals, tfjac.Parameters(amplitude=1.0, rate=1.0, offset=0.0), args=(X, Y))
    with pytest.raises(ValueError, match=r"use curve_fit"):
        residual_fit.predict()
    with pytest.raises(ValueError, match=r"R² compares"):
        residual_fit.r_squared()
    np.testing.assert_allclose(residual_fit.residuals(), fit.residuals(), atol=1e-6)


def test_data_that_do_not_determine_a_parameter():
    params = tfjac.Parameters(a=1.0, b=1.0)
    fit = tfjac.least_squares(lambda p: p["a"] * X - Y, params)
    assert "not determined" in fit.summary() and fit.params["b"].stderr is None
    with pytest.raises(ValueError, match="do not determine"):
        fit.standard_errors()


# ------------------------------------------------------------------ the mistakes that people make first

MISTAKES = {
    "an unknown name in an expression": (
        {"amplitude": 1.0, "rate": "2*amplitud", "offset": 0.0},
        r"tie of 'rate' reads 'amplitud', and there is no such parameter.*Did you mean 'amplitude'\?.*at position 2",
    ),
    "no value to start from": (
        {"amplitude": 1.0, "rate": None, "offset": 0.0},
        r"needs a value to start from: params\['name'\].value.*'rate' without a value",
    ),
    "a parameter that the function takes is not there": (
        {"amplitude": 1.0, "rate": 1.0},
        r"f takes 'offset', and there is no such parameter: params.add\('offset', value\).*decay\(x, amplitude, rate",
    ),
    "a parameter that the function does not take": (
        {"amplitude": 1.0, "rate": 1.0, "offset": 0.0, "phase": 0.0},
        r"f takes no 'phase', and no tie reads it: del params\['phase'\]",
    ),
    "a misspelt parameter": ({"amplitude": 1.0, "rate": 1.0, "ofset": 0.0}, r"f takes 'offset'.*Did you mean 'ofset'"),
    "all are fixed": (
        {name: {"value": 1.0, "vary": False} for name in ("amplitude", "rate", "offset")},
        r"No parameter is free to move.*vary=True.*Received: amplitude, rate, offset",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_natural_mistake_is_named(case):
    given, message = MISTAKES[case]
    with pytest.raises(ValueError, match=message):
        tfjac.curve_fit(decay, X, Y, p0=tfjac.Parameters(given))


def test_a_value_that_was_moved_outside_of_its_bounds():
    params = tfjac.Parameters(amplitude=1.0, rate=1.0, offset={"value": 0.0, "min": -1.0})
    params["offset"].value = -2.0
    with pytest.raises(
        ValueError, match=r"'offset' must be within its bounds: change either. Received: value=-2, min=-1"
    ):
        tfjac.curve_fit(decay, X, Y, p0=params)


OPTIONS = {
    "bounds": (0.0, 1.0),
    "fixed": [True, False, False],
    "prior": (0.0, 1.0),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_parameters_say_themselves(name):
    params = tfjac.Parameters(amplitude=1.0, rate=1.0, offset=0.0)
    with pytest.raises(TypeError, match=rf"With Parameters, there is no {name}: "):
        tfjac.curve_fit(decay, X, Y, p0=params, **{name: OPTIONS[name]})
    with pytest.raises(TypeError, match=r"there is no batch_dims: .*several data sets"):
        tfjac.least_squares(residuals, params, args=(X, Y), batch_dims=1)
    with pytest.raises(TypeError, match=r"no such option. Did you mean 'max_steps'"):
        tfjac.curve_fit(decay, X, Y, p0=params, max_step=3)


def test_a_name_that_residuals_misspell():
    params = tfjac.Parameters(amplitude=1.0, rate=1.0)
    with pytest.raises(KeyError, match=r"Did you mean 'rate'\?.*'rates'"):
        tfjac.least_squares(lambda p: p["rates"] * X - Y, params)
    with pytest.raises(TypeError, match=r"residuals is a function"):
        tfjac.least_squares(3, params)


def test_no_convergence_warns_as_ever():
    params = tfjac.Parameters(amplitude=1.0, rate=1.0, offset=0.0)
    with pytest.warns(UserWarning, match="MAX_STEPS"):
        fit = tfjac.curve_fit(decay, X, Y, p0=params, max_steps=1)
    assert not fit.success
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        json.dumps(fit.values)


def test_a_function_that_takes_arrays_alone_and_one_with_a_branch():
    bell = np.exp(-X)

    def of_arrays(x, a, b):
        return a * np.exp(-x) + b

    def branching(x, a, b):
        curve = a * x + b
        if a > 0:  # the value of a tensor
            curve = a * tf.exp(-x) + b
        return curve

    slopes = np.stack([bell, np.ones_like(X)], axis=1)
    known = np.linalg.lstsq(slopes, Y, rcond=None)[0]
    for f in (of_arrays, branching):
        fit = tfjac.curve_fit(f, X, Y, p0=tfjac.Parameters(a=1.0, b=0.0))
        np.testing.assert_allclose(list(fit.values.values()), known, rtol=1e-7)
    fit = tfjac.curve_fit(of_arrays, X, Y, p0=tfjac.Parameters(a=1.0, b=0.0))
    drawn = fit.bootstrap(4, "pairs", seed=0)
    rows = np.random.default_rng(0).integers(X.size, size=[4, X.size])[2]
    np.testing.assert_allclose(
        drawn.values["a"][2], np.linalg.lstsq(slopes[rows], Y[rows], rcond=None)[0][0], rtol=1e-6
    )


def test_a_call_in_a_graph_is_refused():
    @tf.function
    def fit():
        return tfjac.least_squares(lambda p: p["a"] * X - Y, tfjac.Parameters(a=1.0))

    with pytest.raises(ValueError, match=r"outside of a tf.function: use variables there"):
        fit()


@pytest.mark.by_day(None)
def test_several_data_and_a_grid():
    """x of two arrays, y of two axes."""
    u, v = np.meshgrid(np.linspace(0, 1, 6), np.linspace(0, 2, 7))
    y = 2 * u - 3 * v + 1
    fit = tfjac.curve_fit(lambda x, a, b, c: a * x[0] + b * x[1] + c, (u, v), y, p0=tfjac.Parameters(a=1, b=1, c=0))
    np.testing.assert_allclose(list(fit.values.values()), [2, -3, 1], rtol=1e-8)
    noisy = y + np.random.default_rng(0).normal(scale=0.1, size=y.shape)
    fit = tfjac.curve_fit(lambda x, a, b, c: a * x[0] + b * x[1] + c, (u, v), noisy, p0=fit.params)
    assert set(fit.bootstrap(5).values) == {"a", "b", "c"}


@pytest.fixture(name="fit", scope="module")
def fixture_fit():
    return tfjac.curve_fit(decay, X, Y, p0=tfjac.Parameters(amplitude=1.0, rate=1.0, offset=0.0))


def test_curves_at_a_number_and_at_arrays_by_turns(fit):
    expected = fit.values["amplitude"] * np.exp(-fit.values["rate"] * 0.5) + fit.values["offset"]
    for x in (0.5, [0.5, 0.5], 0.5, [[0.5]], None, 0.5):
        shape = X.shape if x is None else np.shape(x)
        assert np.shape(fit.predict(x)) == shape
        assert np.shape(fit.prediction_band(x)[0]) == shape
        if x is not None:
            np.testing.assert_allclose(fit.predict(x), expected)


def test_a_copy_of_a_fit_is_a_fit(fit):
    fit.predict(0.5)
    again = copy.deepcopy(fit)
    assert again.values == fit.values and again.values is not fit.values and again.fit.x is not fit.fit.x
    np.testing.assert_array_equal(again.covariance(), fit.covariance())
    np.testing.assert_array_equal(again.predict(X), fit.predict(X))
    assert copy.copy(fit).values is fit.values
    with pytest.raises(TypeError, match=r"holds a graph of TensorFlow.*fit\.params"):
        pickle.dumps(fit.fit)
    assert pickle.loads(pickle.dumps(fit.params)).valuesdict() == fit.params.valuesdict()


@pytest.mark.by_day(None)
def test_one_level_of_an_interval_may_be_a_number(fit):
    one, listed = fit.conf_interval(sigmas=2), fit.conf_interval(sigmas=[2])
    np.testing.assert_array_equal(one["rate"], listed["rate"])
    assert one["rate"].shape == (1, 2)


def test_reports_are_alike_with_p0_and_with_parameters():
    """Statistics, values, errors by SciPy, and the ends of their intervals; starts and ties are of names alone."""
    x = np.linspace(0.0, 4.0, 50)
    y = 2.5 * np.exp(-1.3 * x) + np.random.default_rng(0).normal(scale=0.05, size=50)
    params = tfjac.Parameters(height=1.0, rate=1.0, half="log(2)/rate")
    reports = [tfjac.curve_fit(_falling, x, y, p0=p0).summary() for p0 in ([1.0, 1.0], params)]
    plain, named = ([" ".join(line.split()) for line in text.splitlines()] for text in reports)
    assert plain[2:4] == named[2:4] and "2 free parameters, rank 2, 48 degrees" in plain[2]
    for line in plain[5:7]:
        assert any(each.startswith(line + " 1") for each in named)
    popt, pcov = scipy.optimize.curve_fit(lambda x, height, rate: height * np.exp(-rate * x), x, y, p0=[1.0, 1.0])
    values = [*popt, np.log(2) / popt[1]]
    errors = np.sqrt([*np.diag(pcov), np.log(2) ** 2 / popt[1] ** 4 * pcov[1, 1]])
    for name, value, error in zip(("height", "rate", "half"), values, errors):
        (line,) = (each for each in named if each.startswith(f"{name} "))
        numbers = [float(each.strip("()%[],")) for each in line.split()[1:6]]
        reach = scipy.stats.t.ppf(0.975, 48) * error
        expected = [value, error, 100 * error / value, value - reach, value + reach]
        np.testing.assert_allclose(numbers, expected, rtol=1e-3, atol=6e-3)
    assert "correlations" not in tfjac.curve_fit(_falling, x, y, p0=[1.0, 1.0]).summary(min_correlation=1.0)


def _falling(x, height, rate):
    return height * tf.exp(-rate * x)


def test_a_fit_without_degrees_of_freedom_has_no_reduced_chi_square():
    fit = tfjac.models.linear().fit([0.0, 1.0], [1.0, 3.0])
    assert fit.degrees_of_freedom == 0 and math.isnan(fit.reduced_chi_square)
    assert "0 degrees of freedom" in fit.summary()


@pytest.mark.parametrize(
    "call",
    [
        lambda fit: tfjac.curve_fit(decay, X, Y, p0=fit.params),
        lambda fit: tfjac.curve_fit(decay, X, Y, p0=[1.0, 1.0, 0.0]),
        lambda fit: fit.predict(X),
        lambda fit: tfjac.models.gaussian().guess(X, Y),
    ],
)
def test_arrays_are_not_fitted_while_a_function_is_traced(fit, call):
    fit.params  # noqa: B018
    with pytest.raises(ValueError, match=r"outside of a tf\.function"):
        tf.function(lambda: call(fit))()
