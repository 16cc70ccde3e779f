"""Examples of lmfit's gallery, ported: values, errors and bands agree with lmfit's.

`python -m benchmarks.lmfit_gallery` made the figures, in an environment with lmfit 1.3.4. Its errors come from
differences. Other examples of lmfit's are in test_lmfit.py.
"""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac import models

KNOWN = json.loads((pathlib.Path(__file__).parents[1] / "data" / "lmfit" / "gallery.json").read_text())
TIGHT = {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}


def data(name):
    return np.array(KNOWN[name]["x"]), np.array(KNOWN[name]["y"])


def agree(fit, name, names=None, rtol=1e-5):
    known = KNOWN[name]
    errors = fit.standard_errors()
    for parameter in names or known["values"]:
        value, error = known["values"][parameter], known["errors"][parameter]
        np.testing.assert_allclose(fit.values[parameter], value, rtol=rtol, err_msg=parameter)
        np.testing.assert_allclose(errors[parameter], error, rtol=2e-3, atol=1e-12, err_msg=f"error of {parameter}")
    for statistic in ("chi_square", "reduced_chi_square", "aic", "bic"):
        np.testing.assert_allclose(getattr(fit, statistic), known[statistic], rtol=1e-7, err_msg=statistic)


def resonator(f, f_0, Q, Q_e_real, Q_e_imag):
    inverse = 1 / tf.complex(Q_e_real, Q_e_imag)
    detuning = tf.complex(tf.ones_like(f), 2 * Q * (f - f_0) / f_0)
    return 1 - tf.complex(Q, tf.zeros_like(Q)) * inverse / detuning


def errors_of_resonator(f, y, values):
    """Standard errors by central differences; lmfit's one-sided ones are 3 % off for f_0, whose step is a wide one."""

    def parts(given):
        f_0, quality, real, imaginary = given
        z = 1 - quality / (real + 1j * imaginary) / (1 + 2j * quality * (f - f_0) / f_0) - y
        return np.concatenate([z.real, z.imag])

    steps = 1e-6 * np.diag(values) * [1e-2, 1, 1, 1]
    slopes = np.stack([(parts(values + h) - parts(values - h)) / (2 * h.sum()) for h in steps], axis=1)
    variance = np.sum(parts(values) ** 2) / (2 * f.size - 4)
    return np.sqrt(variance * np.diag(np.linalg.inv(slopes.T @ slopes)))


@pytest.mark.parametrize("way", ["model", "residuals"])
def test_complex_resonator(way):
    known = KNOWN["complex_resonator"]
    f, y = np.array(known["x"]), np.array(known["y_real"]) + 1j * np.array(known["y_imag"])
    start = {"f_0": 100.0, "Q": 8000.0, "Q_e_real": 8000.0, "Q_e_imag": -8000.0}
    if way == "model":
        fit = models.Model(resonator).fit(f, y, **start, **TIGHT)
    else:
        fit = tfjac.least_squares(
            lambda p, f, y: resonator(f, **p.valuesdict()) - y, tfjac.Parameters(start), args=(f, y), **TIGHT
        )
    lmfits, found = (np.array([each[name] for name in start]) for each in (known["values"], fit.values))
    errors = errors_of_resonator(f, y, lmfits)
    np.testing.assert_allclose((found - lmfits) / errors, 0, atol=0.05)  # where lmfit stops short
    assert fit.chi_square <= known["chi_square"]
    np.testing.assert_allclose(fit.chi_square, known["chi_square"], rtol=1e-4)
    np.testing.assert_allclose([fit.standard_errors()[name] for name in start], errors, rtol=1e-4)
    np.testing.assert_allclose(list(known["errors"].values()), errors, rtol=0.05)


@pytest.mark.by_day(None)
def test_complex_residuals_are_drawn_by_both_parts():
    rng = np.random.default_rng(2)
    x = np.linspace(0.0, 3.0, 40)
    y = 1.5 * np.exp(1j * 0.9 * x) + 0.05 * (rng.normal(size=40) + 1j * rng.normal(size=40))

    def residual(p, x, y):
        return tf.complex(p["size"] * tf.cos(p["rate"] * x), p["size"] * tf.sin(p["rate"] * x)) - y

    params = tfjac.Parameters(size={"value": 1.0, "min": 0.1, "max": 4.0}, rate={"value": 1.0, "min": -3.0, "max": 3.0})
    fit = tfjac.least_squares(residual, params, args=(x, y), **TIGHT)
    errors = fit.standard_errors()
    slopes = np.exp(1j * fit.values["rate"] * x)
    slopes = np.stack([slopes, 1j * x * fit.values["size"] * slopes], axis=1)
    slopes = np.concatenate([slopes.real, slopes.imag])
    known = np.sqrt(fit.reduced_chi_square * np.diag(np.linalg.inv(slopes.T @ slopes)))
    np.testing.assert_allclose([errors["size"], errors["rate"]], known, rtol=1e-5)
    drawn = fit.bootstrap(200, seed=1).standard_errors()
    np.testing.assert_allclose([drawn["size"], drawn["rate"]], known, rtol=0.25)


def test_two_dimensional_peak():
    known = KNOWN["two_dimensional_peak"]
    x, y, z = (np.array(known[name]) for name in "xyz")
    model = models.gaussian_2d()
    params = model.parameters(amplitude=20, centerx=2, centery=-1, sigmax=2, sigmay=2)
    agree(model.fit((x, y), z, params, sigma=np.full(300, 0.02), **TIGHT), "two_dimensional_peak")


def bell_of_two(x, y, amplitude, centerx, centery, sigmax, sigmay):
    far = ((x - centerx) / sigmax) ** 2 + ((y - centery) / sigmay) ** 2
    return amplitude / (2 * np.pi * sigmax * sigmay) * tf.exp(-far / 2)


def test_a_function_of_two_variables():
    known = KNOWN["two_dimensional_peak"]
    x, y, z = (np.array(known[name]) for name in "xyz")
    model = models.Model(bell_of_two, independent_vars=["x", "y"])
    assert model.variables == ("x", "y")
    start = {"amplitude": 20, "centerx": 2, "centery": -1, "sigmax": 2, "sigmay": 2}
    fit = model.fit((x, y), z, model.parameters(**start), sigma=np.full(300, 0.02), **TIGHT)
    agree(fit, "two_dimensional_peak", tuple(start))


def test_the_variable_need_not_come_first():
    x, y = data("with_derivatives")
    model = models.Model(lambda a, t, b, c=10.0: a * tf.exp(-b * t) + c, independent_vars=["t"])
    agree(model.fit(x, y, a=10.0, b=10.0, **TIGHT), "with_derivatives")


def test_derivatives_are_exact_without_a_function_for_them():
    def residual(p, x, y):
        return p["a"] * tf.exp(-p["b"] * x) + p["c"] - y

    args = data("with_derivatives")
    agree(tfjac.least_squares(residual, tfjac.Parameters(a=10, b=10, c=10), args=args, **TIGHT), "with_derivatives")
    with pytest.raises(TypeError, match=r"no option Dfun: leave it out, derivatives are exact. Received"):
        tfjac.least_squares(residual, tfjac.Parameters(a=10, b=10, c=10), args=args, Dfun=len)


def peaks(x, amp_g, cen_g, wid_g, amp_l, cen_l, wid_l):
    gaussian = amp_g / (np.sqrt(2 * np.pi) * wid_g) * tf.exp(-((x - cen_g) ** 2) / (2 * wid_g**2))
    return gaussian + amp_l / (np.pi * wid_l) / (1 + ((x - cen_l) / wid_l) ** 2)


def test_inequality_constraint():
    params = tfjac.Parameters()
    params.add("amp_g", value=10)
    params.add("amp_l", value=10)
    params.add("cen_g", value=8)
    params.add("peak_split", value=1.0, min=0, max=5, vary=True)
    params.add("cen_l", expr="peak_split+cen_g")
    params.add("wid_g", value=1)
    params.add("wid_l", expr="2*wid_g")

    def residual(p, x, y):
        return peaks(x, *(p[f"{each}_{of}"] for of in "gl" for each in ("amp", "cen", "wid"))) + 0.5 + 0.05 * x - y

    name = "inequality_constraint"
    agree(tfjac.least_squares(residual, params, args=data(name), **TIGHT), name)


def test_algebraic_constraint():
    params = tfjac.Parameters(total_amplitude=30, amp_g=15, amp_l="total_amplitude - amp_g", cen_g=8, cen_l="1.5+cen_g")
    params.add("wid_g", value=1)
    params.add("wid_l", expr="2*wid_g")
    params.add("line_slope", value=0.0)
    params.add("line_off", value=0.0)

    def curve(x, line_slope, line_off, **of_peaks):
        return peaks(x, **{name: of_peaks[name] for name in ("amp_g", "cen_g", "wid_g", "amp_l", "cen_l", "wid_l")}) + (
            line_off + line_slope * x
        )

    name = "algebraic_constraint"
    agree(tfjac.curve_fit(curve, *data(name), p0=params, **TIGHT), name)


def test_expression_model():
    x, y = data("expression_model")
    model = models.expression("amp * exp(-(x-cen)**2 /(2*wid**2))/(sqrt(2*pi)*wid)")
    agree(model.fit(x, y, amp=5, cen=1, wid=1, **TIGHT), "expression_model")


def test_leave_one_out_is_one_call():
    x, y = data("leave_one_out")
    model = models.Model(lambda x, a, b, c: 1 / (a * x) + b + c * tf.sin(x))
    rows = np.ma.masked_array(np.tile(y, [40, 1]), np.eye(40, dtype=bool))
    fits = model.fit(x, rows, model.parameters(a=0.2, b=1.5, c=0.2), batch_dims=1, **TIGHT)
    known = KNOWN["leave_one_out"]["without"]
    for name in "abc":
        np.testing.assert_allclose(fits.values[name], known[name], rtol=1e-5)
    np.testing.assert_allclose(2 * fits.cost, known["chi_square"], rtol=1e-8)
    assert set(np.argsort(fits.cost)[:2]) == {15, 25}


def test_uncertainty_of_a_composite_model():
    x, y = data("uncertainty_of_parts")
    model = models.gaussian(prefix="g_") + models.exponential(prefix="e_")
    params = model.parameters(g_amplitude=3, g_center=5.8, g_sigma=0.6, e_amplitude=4, e_decay=2)
    fit = model.fit(x, y, params, **TIGHT)
    agree(fit, "uncertainty_of_parts")
    known = KNOWN["uncertainty_of_parts"]
    places = np.array(known["places"])
    np.testing.assert_allclose(fit.eval_uncertainty(x=places, sigma=3), known["band"], rtol=2e-3)
    low, high = fit.prediction_band(places, level=0.9973002039)
    np.testing.assert_allclose((high - low) / 2, known["predicted"], rtol=2e-3)
    for name, part in known["parts"].items():
        np.testing.assert_allclose(fit.components(places)[name], part, rtol=1e-4, atol=1e-8)


def convolved(step, kernel):
    padded = tf.concat([tf.repeat(step[:1], 100), step, tf.repeat(step[-1:], 100)], 0)
    found = tf.nn.conv1d(padded[None, :, None], (kernel / tf.reduce_sum(kernel))[::-1, None, None], 1, "VALID")
    return found[0, :, 0]


def test_models_joined_by_a_function():
    x, y = data("convolved_step")
    step = models.Model(lambda x, low, high: tf.where(x > 4.0, high, low), name="step")
    model = models.CompositeModel(step, convolved, models.gaussian())
    assert repr(model) == "step() convolved gaussian()"
    params = model.parameters(low=0, high=5, amplitude=1, center=5, sigma=0.8)
    params["amplitude"].vary = params["center"].vary = False
    agree(model.fit(x, y, params, **TIGHT), "convolved_step", ["low", "high", "sigma"])
    with pytest.raises(TypeError, match="stands between the models"):
        models.CompositeModel(step, models.gaussian(), convolved)


@pytest.mark.by_day(None)
def test_a_grid_of_starts():
    x, y = data("global_minimum")
    params = tfjac.Parameters(
        size={"value": 1, "min": 0.5, "max": 3},
        frequency={"value": 1, "min": 0.5, "max": 9},
        shift={"value": 0, "min": -3.2, "max": 3.2},
    )

    def residual(p, x, y):
        return p["size"] * tf.sin(p["frequency"] * x + p["shift"]) - y

    agree(tfjac.least_squares(residual, params, args=(x, y), n_starts=60, **TIGHT), "global_minimum")
    with pytest.raises(ValueError, match=r"give n_starts=, or let scipy.*method='brute'"):
        tfjac.least_squares(residual, params, args=(x, y), method="brute")
