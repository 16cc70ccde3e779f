"""All shapes that lmfit has: values, derivatives and derived quantities beside lmfit's, and fits from guesses.

`shapes.json` was written with lmfit 1.3.4; its derivatives are central differences, extrapolated.
"""

import json
import pathlib
import pickle

import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

from tfjac import models
from tfjac.parameters.expressions import parsed

GIVEN = json.loads((pathlib.Path(__file__).parents[1] / "data" / "lmfit" / "shapes.json").read_text())
X = np.array(GIVEN["x"])
CASES = GIVEN["cases"]
GRID = np.linspace(0.5, 9.5, 181)
ARGUMENTS = {
    "spline": ([0.5, 2.0, 3.0, 5.0, 7.0, 9.5],),
    "expression": ("off + amp*exp(-x/t)*sin(x*freq)",),
}


def model_of(case):
    name, _, form = case.partition(", ")
    arguments = ARGUMENTS.get(name, (form,) if form and form != "tied" else ())
    return getattr(models, name)(*arguments)


@pytest.mark.parametrize("case", CASES)
def test_values_and_derivatives_are_lmfits(case):
    model, given = model_of(case), CASES[case]
    values = {name: tf.constant(value, tf.float64) for name, value in given["values"].items()}
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(values)
        curve = model(X, **values)
    np.testing.assert_allclose(curve, given["y"], rtol=1e-12, atol=1e-14)
    for name, slopes in given["slopes"].items():
        found = tape.jacobian(curve, values[name])
        np.testing.assert_allclose(found, slopes, rtol=1e-7, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("case", [case for case, given in CASES.items() if given["derived"]])
def test_derived_quantities_are_lmfits(case):
    params = model_of(case).parameters(**CASES[case]["values"])
    for name, value in CASES[case]["derived"].items():
        np.testing.assert_allclose(params[name].value, value, rtol=2e-7, err_msg=name)


HELD = {"thermal_distribution": "center", "breit_wigner": None}


@pytest.mark.parametrize("case", CASES)
def test_fits_from_guesses_reach_the_truth(case):
    if case == "expression":
        pytest.skip("a function of the user's is not guessed")
    model, values = model_of(case), CASES[case]["values"]
    curve = model(GRID, **values).numpy()
    noise = 1e-3 * np.ptp(curve) * np.random.default_rng(1).normal(size=GRID.size)
    params = model.guess(GRID, curve + noise)
    held = HELD.get(case.partition(",")[0])
    if held:  # the data do not determine amplitude and center both
        factor = np.exp((params[held].value - values[held]) / params["kt"].value)
        params["amplitude"].value /= factor
        params[held].set(value=values[held], vary=False)
    if "gamma" in values and params["gamma"].expr:
        params["gamma"].set(value=params["sigma"].value, expr=None, min=0.0)
    fit = model.fit(GRID, curve + noise, params)
    assert fit.success
    assert fit.chi_square <= noise @ noise * (1 + 1e-9)  # the truth is no better


FAR = np.concatenate([np.linspace(-12, 12, 3001), np.geomspace(1e-6, 1e6, 500)])


@pytest.mark.parametrize("y", [0.0, 1e-9, 1e-3, 0.3, 1.0, 4.0, 6.2, 7.0, 50.0, 1e4])
def test_voigts_function_against_scipys(y):
    truth = scipy.special.wofz(FAR + 1j * y).real
    unit = models.voigt()(FAR, amplitude=np.sqrt(np.pi), sigma=np.sqrt(0.5), center=0.0, gamma=y).numpy()
    seen = truth > 1e-290
    np.testing.assert_allclose(unit[seen], truth[seen], rtol=5e-13)
    np.testing.assert_allclose(unit, truth, atol=1e-14)


def test_erfcx_and_the_gamma_ratio_in_expressions():
    for x in (-3.0, 0.0, 0.7, 30.0):
        found = parsed("erfcx(x)").function({"x": tf.constant(x, tf.float64)})
        np.testing.assert_allclose(found, scipy.special.erfcx(x), rtol=1e-13)
    for a, b in ((0.6, 2.0), (3.0, -0.4), (200.0, 40.0)):
        found = parsed("log_gamma_ratio(a, b)").function(
            {"a": tf.constant(a, tf.float64), "b": tf.constant(b, tf.float64)}
        )
        truth = 2 * (scipy.special.loggamma(a + 1j * b).real - scipy.special.gammaln(a))
        np.testing.assert_allclose(found, truth, rtol=1e-11)


def test_an_exponential_gaussian_does_not_overflow():
    """lmfit's formula is infinity times zero here."""
    curve = models.exponential_gaussian()(GRID, amplitude=2.0, center=5.0, sigma=3.0, gamma=20.0).numpy()
    np.testing.assert_allclose(curve, 2 * scipy.stats.exponnorm.pdf(GRID, 1 / 60, 5.0, 3.0), rtol=1e-10)


def test_voigts_width_is_tied_until_it_is_freed():
    model = models.voigt(prefix="v_")
    assert model.parameters()["v_gamma"].expr == "v_sigma" and model.names[-1] == "v_gamma"
    freed = model.parameters(v_gamma={"value": 0.3, "min": 0.0})["v_gamma"]
    assert freed.expr is None and freed.value == 0.3 and freed.is_free
    assert model.parameters(v_gamma=0.2)["v_gamma"].is_free


def test_complex_data_and_two_arrays():
    z = (1.5 - 0.5j) + np.random.default_rng(0).normal(scale=0.01, size=40)
    fit = models.complex_constant().fit(np.arange(40.0), z)
    np.testing.assert_allclose([fit.values["re"], fit.values["im"]], [z.real.mean(), z.imag.mean()], rtol=1e-8)
    x, y = (each.ravel() for each in np.meshgrid(np.linspace(-2, 2, 21), np.linspace(-1, 3, 23)))
    truth = {"amplitude": 3.0, "centerx": 0.3, "centery": 1.1, "sigmax": 0.5, "sigmay": 0.8}
    bell = 3 * scipy.stats.norm.pdf(x, 0.3, 0.5) * scipy.stats.norm.pdf(y, 1.1, 0.8)
    fit = models.gaussian_2d().fit((x, y), bell + 0.2 * 0)
    np.testing.assert_allclose([fit.values[name] for name in truth], list(truth.values()), rtol=1e-6)
    np.testing.assert_allclose(fit.values["height"], 3 / (2 * np.pi * 0.4), rtol=1e-6)


def test_peaks_are_guessed_from_left_to_right():
    model = sum((models.lorentzian(prefix=f"p{k}_") for k in (2, 3)), models.lorentzian(prefix="p1_")) + models.linear()
    centres = [2.0, 4.5, 7.5]
    y = sum(a * scipy.stats.cauchy.pdf(GRID, c, 0.3) for a, c in zip((1.0, 3.0, 2.0), centres)) + 0.1 * GRID
    fit = model.fit(GRID, y)
    np.testing.assert_allclose([fit.values[f"p{k}_center"] for k in (1, 2, 3)], centres, rtol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_models_can_be_pickled(case):
    model = model_of(case) + models.linear(prefix="line_")
    again = pickle.loads(pickle.dumps(model))
    values = {**CASES[case]["values"], "line_slope": 2.0, "line_intercept": 1.0}
    assert repr(again) == repr(model) and again.names == model.names
    np.testing.assert_array_equal(again(X, **values), model(X, **values))


def test_a_spline_needs_four_places():
    with pytest.raises(ValueError, match=r"four or more numbers, increasing. Received: xknots of shape \(3,\)"):
        models.spline([0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"has an x in it. Received: 'a\*2'"):
        models.expression("a*2")
