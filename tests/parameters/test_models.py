"""Models: their formulas, guesses, sums and products, against formulas in NumPy and SciPy."""

import inspect

import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

import tfjac
from tfjac import models
from tfjac.parameters import NamedFit

from ..optimizers import nist

X = np.linspace(0.5, 9.5, 181)
PEAK = {"amplitude": 3.0, "center": 4.2, "sigma": 0.8}
Z = (X - 4.2) / 0.8

CURVES = {
    "gaussian": (models.gaussian(), PEAK, 3 * scipy.stats.norm.pdf(X, 4.2, 0.8)),
    "lorentzian": (models.lorentzian(), PEAK, 3 * scipy.stats.cauchy.pdf(X, 4.2, 0.8)),
    "pseudo_voigt": (
        models.pseudo_voigt(),
        {**PEAK, "fraction": 0.3},
        2.1 * scipy.stats.norm.pdf(X, 4.2, 0.8 / np.sqrt(2 * np.log(2))) + 0.9 * scipy.stats.cauchy.pdf(X, 4.2, 0.8),
    ),
    "exponential": (models.exponential(), {"amplitude": 5.0, "decay": 2.5}, 5 * np.exp(-X / 2.5)),
    "powerlaw": (models.powerlaw(), {"amplitude": 2.0, "exponent": -1.5}, 2 * X**-1.5),
    "constant": (models.constant(), {"c": 1.25}, np.full_like(X, 1.25)),
    "linear": (models.linear(), {"slope": -0.5, "intercept": 2.0}, 2 - 0.5 * X),
    "quadratic": (models.quadratic(), {"a": 0.3, "b": -1.0, "c": 2.0}, 0.3 * X**2 - X + 2),
    "polynomial": (
        models.polynomial(3),
        {"c0": 1.0, "c1": -2.0, "c2": 0.5, "c3": 0.1},
        np.polyval([0.1, 0.5, -2.0, 1.0], X),
    ),
    "linear step": (models.step(), {**PEAK, "sigma": 2.0}, 3 * np.clip((X - 4.2) / 2 + 0.5, 0, 1)),
    "erf step": (models.step("erf"), PEAK, 3 * (1 + scipy.special.erf(Z)) / 2),
    "logistic step": (models.step("logistic"), PEAK, 3 * scipy.special.expit(Z)),
    "falling step": (models.step("arctan"), {**PEAK, "sigma": -0.8}, 3 * (0.5 + np.arctan(-Z) / np.pi)),
    "sine": (models.sine(), {"amplitude": 2.0, "frequency": 1.7, "shift": 0.6}, 2 * np.sin(1.7 * X + 0.6)),
}


@pytest.mark.parametrize("name", CURVES)
def test_formulas(name):
    model, values, curve = CURVES[name]
    np.testing.assert_allclose(model(X, **values), curve, rtol=1e-12, atol=1e-14)


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("name", CURVES)
def test_fits_from_guesses(name):
    model, values, curve = CURVES[name]
    noisy = curve + 0.01 * np.random.default_rng(1).normal(size=X.size)
    fit = model.fit(X, noisy)
    assert isinstance(fit, NamedFit) and fit.success
    left = noisy - curve
    assert fit.chi_square <= left @ left * (1 + 1e-9)  # the truth is no better
    errors = fit.standard_errors()
    assert all(abs(fit.values[name] - value) < 5 * errors[name] for name, value in values.items())


@pytest.mark.parametrize("name", ["gaussian", "lorentzian", "pseudo_voigt"])
def test_width_and_height_follow(name):
    model, values, _ = CURVES[name]
    params = model.parameters(**values)
    grid = np.linspace(-5, 13, 200001)
    curve = model(grid, **values).numpy()
    np.testing.assert_allclose(params["height"].value, curve.max(), rtol=1e-6)
    above = grid[curve > curve.max() / 2]
    np.testing.assert_allclose(params["fwhm"].value, above[-1] - above[0], rtol=1e-3)
    assert params["sigma"].min == 0 and not params["height"].is_free


def test_two_peaks_on_a_decay_reach_the_certified_values():
    """NIST's Gauss2, guessed and fitted as lmfit's documentation does."""
    problem = nist.load("Gauss2")
    model = models.exponential(prefix="exp_") + models.gaussian(prefix="g1_") + models.gaussian(prefix="g2_")
    fit = model.fit(problem.x, problem.y, ftol=1e-13, xtol=1e-13)
    np.testing.assert_allclose(fit.chi_square, problem.sum_of_squares, rtol=1e-9)
    b, deviations = problem.certified, problem.deviations
    order = ("g1", "g2") if fit.values["g1_center"] < fit.values["g2_center"] else ("g2", "g1")
    np.testing.assert_allclose(fit.values["exp_decay"], 1 / b[1], rtol=1e-6)
    for peak, (height, center, width), deviation in zip(order, (b[2:5], b[5:8]), (deviations[3], deviations[6])):
        np.testing.assert_allclose(fit.values[f"{peak}_height"], height, rtol=1e-6)
        np.testing.assert_allclose(fit.values[f"{peak}_center"], center, rtol=1e-6)
        np.testing.assert_allclose(fit.values[f"{peak}_sigma"], width / np.sqrt(2), rtol=1e-6)
        np.testing.assert_allclose(fit.params[f"{peak}_center"].stderr, deviation, rtol=1e-5)
    parts = fit.components()
    assert list(parts) == ["exp_", "g1_", "g2_"]
    np.testing.assert_allclose(sum(parts.values()), fit.predict(), rtol=1e-12)


def test_operations():
    left, right = models.gaussian(prefix="g_"), models.linear()
    values = {"g_amplitude": 3.0, "g_center": 4.2, "g_sigma": 0.8, "slope": 0.5, "intercept": 2.0}
    bell, line = CURVES["gaussian"][2], 2 + 0.5 * X
    for model, curve in ((left + right, bell + line), (left - right, bell - line), (left * right, bell * line)):
        np.testing.assert_allclose(model(X, **values), curve, rtol=1e-12)
    np.testing.assert_allclose((left / right)(X, **values), bell / line, rtol=1e-12)
    assert (left + right).names == tuple(values)
    assert repr((left + right) * models.constant()) == "(gaussian(prefix='g_') + linear()) * constant()"
    product = (left * right).fit(
        X, bell * line, (left * right).parameters(**{**values, "slope": {"value": 0.4, "vary": False}})
    )
    assert product.values["slope"] == 0.4


def test_a_function_of_the_users():
    def damped(x, amplitude, rate, power=2.0, kind="none"):
        return amplitude * tf.exp(-rate * x**power)

    model = models.Model(damped, prefix="d_", hints={"rate": {"min": 0.0}}, derived={"life": "1/{rate}"})
    assert model.names == ("d_amplitude", "d_rate", "d_power")
    params = model.parameters(d_amplitude=1.0, d_rate=0.3, d_power={"vary": False})
    assert params["d_power"].value == 2.0 and params["d_rate"].min == 0 and params["d_life"].expr == "1/d_rate"
    fit = model.fit(X, 2 * np.exp(-0.1 * X**2), params)
    np.testing.assert_allclose([fit.values["d_amplitude"], fit.values["d_life"]], [2, 10], rtol=1e-6)
    tied = model.parameters(d_amplitude=1.0, d_rate="d_amplitude/20")
    np.testing.assert_allclose(model.fit(X, 2 * np.exp(-0.1 * X**2), tied).values["d_rate"], 0.1, rtol=1e-6)


def test_a_second_fit_of_a_model_uses_the_graph_of_the_first():
    model = models.gaussian() + models.constant()
    model.fit(X, CURVES["gaussian"][2] + 1)
    kept = len(tfjac.fits.curve_fit._kept.prepared)
    again = models.gaussian() + models.constant()  # another object that is the same model
    again.fit(X, 2 * CURVES["gaussian"][2] + 1)
    assert len(tfjac.fits.curve_fit._kept.prepared) == kept


REFUSED = {
    "the same name twice": (
        lambda: models.gaussian() + models.gaussian(),
        ValueError,
        r"give one a prefix.*Received: amplitude, center, sigma, fwhm, height in gaussian\(\)",
    ),
    "a number": (lambda: models.gaussian() + 3, TypeError, r"models.constant\(\) is a number.*Received: 3 of type int"),
    "a product guessed": (
        lambda: (models.gaussian() * models.linear()).guess(X, X),
        ValueError,
        r"Only sums of models can be guessed.*gaussian\(\) \* linear\(\)",
    ),
    "a function guessed": (
        lambda: models.Model(lambda x, a: a * x).guess(X, X),
        ValueError,
        r"cannot guess: set its values by parameters\(a=…\)",
    ),
    "a misspelt parameter": (lambda: models.gaussian().parameters(sigme=1), ValueError, r"Did you mean 'sigma'"),
    "a call without a value": (lambda: models.Model(lambda x, a: a * x)(X), TypeError, r"Received: no a"),
    "arguments without names": (lambda: models.Model(lambda x, *a: x), ValueError, r"each with a name"),
    "no parameters": (lambda: models.Model(lambda x: x), ValueError, r"at least one parameter"),
    "another form": (lambda: models.step("cubic"), ValueError, r"form must be one of 'linear'"),
    "data with a missing value": (
        lambda: models.gaussian().guess(X, np.where(X > 9, np.nan, X)),
        ValueError,
        r"x and y must be finite",
    ),
    "data of two lengths": (lambda: models.linear().guess(X, X[1:]), ValueError, r"181 and 180 values"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    call, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        call()


def test_a_class_and_its_models_have_signatures():
    assert list(inspect.signature(models.gaussian()).parameters) == ["x", "amplitude", "center", "sigma"]
    assert "self" not in inspect.signature(models.BaseModel).parameters


def test_a_parabola_through_two_points_is_guessed_as_their_line():
    guessed = models.quadratic().guess([1.0, 3.0], [2.0, 8.0]).valuesdict()
    np.testing.assert_allclose([guessed[name] for name in "abc"], [0.0, 3.0, -1.0], atol=1e-12)


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("y", [[2.0], [2.0, 2.0], [2.0, 3.0, 2.0]])
def test_a_curve_has_a_width_where_all_data_are_at_one_place(name, y):
    guess = CURVES[name][0].guess(np.ones(len(y)), y).valuesdict()
    assert np.isfinite(list(guess.values())).all() and guess.get("sigma") != 0


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("name", ["gaussian", "lorentzian", "pseudo_voigt"])
@pytest.mark.parametrize("background", ["none", "linear"])
def test_a_dip_is_guessed_as_one(name, background):
    model, values = getattr(models, name)(), {"amplitude": -3.0, "center": 4.2, "sigma": 0.5}
    noise = 0.005 * np.random.default_rng(0).normal(size=X.size)
    data = model(X, **values).numpy() + noise
    if background == "linear":
        model, data = model + models.linear(), data + 10 + X
    guess = model.guess(X, data)
    assert guess["amplitude"].value < -1 and abs(guess["center"].value - 4.2) < 0.3
    fit = model.fit(X, data)
    assert fit.success
    np.testing.assert_allclose([fit.values[each] for each in values], list(values.values()), rtol=0.1)


def test_a_peak_and_a_dip_are_told_apart():
    model = models.gaussian(prefix="up_") + models.gaussian(prefix="down_") + models.linear()
    data = 2 * scipy.stats.norm.pdf(X, 3.0, 0.4) - 4 * scipy.stats.norm.pdf(X, 6.5, 0.5) + 0.1 * X
    fit = model.fit(X, data)
    assert fit.success
    found = sorted((fit.values[f"{each}_center"], fit.values[f"{each}_amplitude"]) for each in ("up", "down"))
    np.testing.assert_allclose(found, [(3.0, 2.0), (6.5, -4.0)], rtol=1e-4)


def test_a_peak_between_the_data_is_no_success():
    x = np.linspace(-5, 5, 201)
    y = 10 - 3 * np.exp(-(((x - 1) / 0.7) ** 2) / 2) + 0.02 * np.random.default_rng(0).normal(size=x.size)
    model = models.gaussian() + models.constant()
    start = model.parameters(amplitude=13.28, center=-2.6, sigma=2.25, c=9.99)
    with pytest.warns(UserWarning, match=r"The width sigma is below the distance.*start from other values"):
        fit = model.fit(x, y, start)
    assert fit.fit.success and not fit.success and "sigma" in fit.message
    assert model.fit(x, y).success


@pytest.mark.by_day(None)
def test_a_resonance_from_a_start_as_of_lmfits_guess():
    x = np.linspace(0, 10, 101)
    model = models.breit_wigner()
    y = model(x, amplitude=8.484, center=6.792, sigma=0.39, q=0.413).numpy()
    noise = 0.1 * np.random.default_rng(0).normal(size=x.size)
    fit = model.fit(x, y + noise, model.parameters(amplitude=148.4, center=4.9, sigma=5.0, q=1.0))
    assert fit.chi_square < noise @ noise or not fit.success


EDGES = {
    "doniach": {"amplitude": -0.23, "center": 69.0, "sigma": 1.45, "gamma": 0.881},
    "damped_oscillator": {"amplitude": 35.3, "center": 108.0, "sigma": 1.183},
    "breit_wigner": {"amplitude": 0.822, "center": 79.1, "sigma": 1.03, "q": -4.9},
    "lognormal": {"amplitude": 0.217, "center": 1.8, "sigma": 0.945},
    "skewed_gaussian": {"amplitude": 37.9, "center": 82.9, "sigma": 2.4, "gamma": -0.853},
}


@pytest.mark.parametrize("name", EDGES)
def test_guesses_of_lopsided_and_wide_lines(name):
    """Long tails, a top at the end of the data, noise in the place of a minimum, a middle that moves with the skew."""
    x, model = np.linspace(1, 100, 151), getattr(models, name)()
    curve = model(x, **EDGES[name]).numpy()
    noise = 0.01 * np.ptp(curve) * np.random.default_rng(1).normal(size=x.size)
    assert model.fit(x, curve + noise).chi_square <= noise @ noise * (1 + 1e-9)  # the truth is no better


def test_models_are_called_with_tensors_of_a_graph():
    """As in a residual of lmfit's form; parameters and x may come from the graph, x in single precision."""
    model = models.gaussian() + models.voigt(prefix="v_")
    tied = tfjac.Parameters(base=0.5, height="2*base")

    @tf.function
    def curve(x, center):
        return model(x, center=center, v_sigma=tied["height"].value, v_center=0.0)

    found = curve(tf.constant(X, tf.float32), tf.constant(4.0, tf.float32))
    truth = model(X, center=4.0, v_sigma=1.0, v_center=0.0)
    np.testing.assert_allclose(found, truth, rtol=1e-5)
    one = models.gaussian()
    fit = tfjac.least_squares(lambda p, x, y: one(x, **p) - y, one.parameters(center=4.0), args=(X, one(X, **PEAK)))
    np.testing.assert_allclose([fit.values[name] for name in PEAK], list(PEAK.values()), rtol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: tfjac.Parameters(a=a[0]),
        lambda a: models.spline(a),
        lambda a: models.gaussian().components(a, PEAK),
        lambda a: models.gaussian().fit(a, a, PEAK),
        lambda a: tfjac.parameters.fit_many(models.gaussian(), a, a, models.gaussian().parameters()),
        lambda a: tfjac.parameters.fit_together(models.gaussian(), [a], [a], models.gaussian().parameters()),
        lambda a: tfjac.least_squares(lambda v: v, tf.Variable([1.0]), bounds=(a, None)),
        lambda a: tfjac.explanations.smooth_grad(lambda x: x, a),
    ],
)
def test_what_needs_numbers_refuses_tensors_of_a_graph(call):
    with pytest.raises((TypeError, ValueError), match=r"outside of a tf.function|known before anything is run"):
        tf.function(call, autograph=False)(tf.constant([1.0, 2.0]))
