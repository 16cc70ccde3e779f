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


@pytest.mark.by_day(None)
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


@pytest.mark.by_day(one_in=3)
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


FORMS = {"step": ("linear", "erf", "logistic", "arctan"), "thermal_distribution": ("bose", "maxwell", "fermi")}
FORMS["rectangle"] = FORMS["step"]
# Scales that models leave without a bound; users give them one at zero.
SCALES = {
    "voigt": "gamma",
    "skewed_voigt": "gamma",
    "step": "sigma",
    "exponential": "decay",
    "thermal_distribution": "kt",
}
SHAPES = set(models.__all__) - {"BaseModel", "Model", "CompositeModel", "expression", "polynomial", "spline"}
POSITIVE = ("exponential", "lognormal")  # x, that is


def at_bounds():
    """Return each model at each bound: a title, the model, x, values, the parameter, and the way inside."""
    found = []
    for name, form in [(each, form) for each in sorted(SHAPES) for form in FORMS.get(each, ("",))]:
        model = getattr(models, name)(*filter(None, [form]))
        params = model.parameters()
        values = {each: 1.13 * (params[each].value or 0.0) + 0.07 for each in model.names}
        ends = [(each, params[each].min, 1) for each in model.names] + [(each, params[each].max, -1) for each in values]
        ends += [(SCALES[name], 0.0, 1)] if name in SCALES else []
        x = np.array([0.83, 0.2, 0.41, 2.9] if name in POSITIVE else [-1.7, 0.0, 0.41, 2.9])
        x = (x, x[::-1].copy()) if name == "gaussian_2d" else x
        for each, end, inside in ends:
            if np.isfinite(end):
                found.append((f"{name} {form} at {each} = {end}", model, x, {**values, each: end}, each, inside))
    return found


def weighed(model, x, values):
    """Return a sum of the curve, each place with another weight."""
    return tf.tensordot(model(x, **values), tf.constant([1.3, -0.4, 0.7, 2.1], tf.float64), 1)


def test_derivatives_at_bounds_are_one_sided_differences():
    """A width of zero, γ of a cold oscillator, a fraction of one: a fit that comes there must see the way back."""
    wrong = []
    for title, model, x, values, name, inside in at_bounds():
        end, step = tf.constant(values[name], tf.float64), inside * 1e-5 * max(1.0, abs(values[name]))
        with tf.GradientTape() as tape:
            tape.watch(end)
            at_end = weighed(model, x, {**values, name: end})
        away = (weighed(model, x, {**values, name: end + k * step}) for k in (1, 2, 4))
        one, two, four = (float(each - at_end) / (k * step) for k, each in zip((1, 2, 4), away))
        slope, truth = float(tape.gradient(at_end, end)), (8 * one - 6 * two + four) / 3
        if not np.isclose(slope, truth, rtol=1e-4, atol=1e-4):
            wrong.append(f"{title}: {slope} for {truth}")
    assert not wrong, "\n".join(wrong)


def test_a_cold_oscillator_warms_again():
    """At gamma = 0 its curve depends on gamma at x = 0 alone."""
    x = np.linspace(-4, 4, 17)
    model = models.damped_harmonic_oscillator()
    y = model(x, amplitude=3.0, center=1.2, sigma=0.8, gamma=0.4).numpy()
    params = model.parameters(amplitude=3.0, center=1.2, sigma=0.8, gamma=1e-19)
    np.testing.assert_allclose(model.fit(x, y, params).values["gamma"], 0.4, rtol=1e-6)


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
        at = tf.constant(x, tf.float64)
        with tf.GradientTape() as tape:
            tape.watch(at)
            found = parsed("erfcx(x)").function({"x": at})
        truth = scipy.special.erfcx(x)
        np.testing.assert_allclose(found, truth, rtol=1e-13)
        np.testing.assert_allclose(tape.gradient(found, at), 2 * x * truth - 2 / np.sqrt(np.pi), rtol=1e-9)
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


def test_images_with_missing_values():
    """By grids, open ones, and a residual; what is missing is left out of the guess too."""
    x, y = np.meshgrid(np.linspace(-2, 2, 21), np.linspace(-1, 3, 23), indexing="ij", sparse=True)
    bell = 3 * scipy.stats.norm.pdf(x, 0.3, 0.5) * scipy.stats.norm.pdf(y, 1.1, 0.8)
    lost = np.random.default_rng(1).random(bell.shape) < 0.2
    for image, options in (
        (np.ma.masked_array(bell + lost, lost), {}),
        (np.where(lost, np.nan, bell), {"nan_policy": "omit"}),
    ):
        fit = models.gaussian_2d().fit((x, y), image, **options)
        np.testing.assert_allclose(list(fit.values.values())[:5], [3.0, 0.3, 1.1, 0.5, 0.8], rtol=1e-6)
        assert fit.num_residuals == np.sum(~lost)


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
