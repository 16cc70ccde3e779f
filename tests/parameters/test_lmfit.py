"""lmfit's documentation examples, ported: values, errors, correlations and statistics agree with lmfit's.

`python -m benchmarks.lmfit_peer` made the figures, in an environment with lmfit. Its errors come from differences.
"""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from benchmarks.named_parameters import two_peaks
from tfjac import models
from tfjac.parameters import fit_together

from ..optimizers import nist

KNOWN = json.loads((pathlib.Path(__file__).parents[1] / "data" / "lmfit" / "examples.json").read_text())
TIGHT = {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}


def data(name):
    return np.array(KNOWN[name]["x"]), np.array(KNOWN[name]["y"])


def agree(fit, name, rtol=1e-5, errors_to=1e-3):
    """Hold a fit against lmfit's figures."""
    known = KNOWN[name]
    assert fit.success
    assert set(fit.values) == set(known["values"])
    errors = fit.standard_errors()
    for parameter, value in known["values"].items():
        np.testing.assert_allclose(fit.values[parameter], value, rtol=rtol, atol=1e-12, err_msg=parameter)
        expected = known["errors"][parameter]
        np.testing.assert_allclose(errors[parameter], expected, rtol=errors_to, err_msg=f"error of {parameter}")
    correlations = fit.correlations()
    for one, others in known["correlations"].items():
        for other, value in others.items():
            np.testing.assert_allclose(correlations[one][other], value, atol=errors_to)
    for statistic in ("chi_square", "reduced_chi_square", "aic", "bic"):
        np.testing.assert_allclose(getattr(fit, statistic), known[statistic], rtol=1e-7, err_msg=statistic)
    if "r_squared" in known:
        np.testing.assert_allclose(fit.r_squared(), known["r_squared"], rtol=1e-8)


def test_gaussian_data():
    def peak(x, amp, cen, wid):
        return amp / (np.sqrt(2 * np.pi) * wid) * tf.exp(-((x - cen) ** 2) / (2 * wid**2))

    x, y = data("gaussian_peak")
    fit = tfjac.curve_fit(peak, x, y, p0=tfjac.Parameters(amp=5, cen=5, wid=1), **TIGHT)
    agree(fit, "gaussian_peak")
    lower, upper = fit.confidence_band(np.array([5.0, 8.0]), level=0.954499736)  # two standard deviations
    np.testing.assert_allclose((upper - lower) / 2, KNOWN["gaussian_peak"]["band_2_sigma"], rtol=1e-3)


def test_two_peaks_and_an_exponential_background():
    problem, (model, params) = nist.load("Gauss2"), two_peaks()
    agree(tfjac.curve_fit(model, problem.x, problem.y, p0=params, **TIGHT), "two_peaks")


def test_a_step_and_a_line():
    x, y = data("step_and_line")
    step, line = models.step("erf", prefix="step_"), models.linear(prefix="line_")
    params = line.parameters(line_intercept=y.min(), line_slope=0) + step.guess(x, y)
    agree(tfjac.curve_fit(step + line, x, y, p0=params, **TIGHT), "step_and_line")


def test_residuals_with_bounds_and_a_fixed_parameter():
    x, y = data("damped_sine")
    params = tfjac.Parameters()
    params.add("amp", value=10, min=0)
    params.add("decay", value=0.1)
    params.add("shift", value=0.0, min=-np.pi / 2, max=np.pi / 2)
    params.add("omega", value=2.05, min=0)
    params.add("offset", value=0.0, vary=False)

    def residual(p, x, y):
        return p["amp"] * tf.sin(x * p["omega"] + p["shift"]) * tf.exp(-x * x * p["decay"]) + p["offset"] - y

    agree(tfjac.least_squares(residual, params, args=(x, y), **TIGHT), "damped_sine")


def test_mathematical_constraints():
    x, y = data("shared_amplitude")
    params = tfjac.Parameters()
    params.add("amp_tot", value=15)
    params.add("frac", value=0.5, min=0, max=1)
    params.add("amp1", expr="amp_tot*frac")
    params.add("amp2", expr="amp_tot*(1 - frac)")
    params.add("tau1", value=1.0)
    params.add("delta", value=1.0, min=0)
    params.add("tau2", expr="tau1 + delta")
    params.add("mean_life", expr="(amp1*tau1**2 + amp2*tau2**2)/(amp1*tau1 + amp2*tau2)")

    def residual(p, x, y):
        return p["amp1"] * tf.exp(-x / p["tau1"]) + p["amp2"] * tf.exp(-x / p["tau2"]) - y

    agree(tfjac.least_squares(residual, params, args=(x, y), **TIGHT), "shared_amplitude")


def test_fit_using_bounds():
    x, y = data("bounded_sine")
    params = tfjac.Parameters()
    params.add("amp", value=13.0, max=20, min=0.0)
    params.add("period", value=5.2, max=10, min=2)
    params.add("shift", value=0.0, max=np.pi / 2.0, min=-np.pi / 2.0)
    params.add("decay", value=0.02, max=0.10, min=0.00)

    def wave(x, amp, period, shift, decay):
        return amp * tf.sin(shift + x / period) * tf.exp(-x * x * decay**2)

    agree(tfjac.curve_fit(wave, x, y, p0=params, **TIGHT), "bounded_sine")


INTERVALS = {
    "profile_of_a_hyperbola": (
        tfjac.Parameters(a=0.1, b=1.0),
        lambda x, a, b: 1 / (a * x) + b,
        (1, 2, 3),
    ),
    "profile_of_two_decays": (
        tfjac.Parameters(a1=4, a2=-5, t1=3, t2=9),
        lambda x, a1, a2, t1, t2: a1 * tf.exp(-x / t1) + a2 * tf.exp(-(x - 0.1) / t2),
        (1, 2),
    ),
}


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", INTERVALS)
def test_confidence_intervals_by_profiles(name):
    params, curve, sigmas = INTERVALS[name]
    x, y = data(name)
    fit = tfjac.curve_fit(curve, x, y, p0=params, **TIGHT)
    agree(fit, name, errors_to=5e-3)
    intervals = fit.conf_interval(sigmas=sigmas)
    for parameter, known in KNOWN[name]["intervals"].items():
        lower, (_, best), upper = known[: len(sigmas)][::-1], known[len(sigmas)], known[len(sigmas) + 1 :]
        np.testing.assert_allclose(intervals.levels, [level for level, _ in upper], rtol=1e-12)
        found = intervals[parameter]
        # lmfit seeks the ends to 5e-5 of their values
        np.testing.assert_allclose(found[:, 0], [end for _, end in lower], rtol=2e-4)
        np.testing.assert_allclose(found[:, 1], [end for _, end in upper], rtol=2e-4)
        np.testing.assert_allclose(fit.values[parameter], best, rtol=1e-5)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("way", ["ties", "together"])
def test_several_data_sets(way):
    x, sets = data("several_data_sets")
    bell = lambda x, amp, cen, sig: amp * tf.exp(-((x - cen) ** 2) / (2 * sig**2))  # noqa: E731
    one = tfjac.Parameters(
        amp={"value": 5.0, "min": 0.0, "max": 200},
        cen={"value": 0.4, "min": -2.0, "max": 2.0},
        sig={"value": 0.3, "min": 0.01, "max": 3.0},
    )
    if way == "ties":
        params = one.for_data_sets(5)
        for k in range(2, 6):
            params[f"sig_{k}"].set(expr="sig_1", min=None, max=None)

        def residual(p):
            return [bell(x, p[f"amp_{k}"], p[f"cen_{k}"], p[f"sig_{k}"]) - sets[k - 1] for k in range(1, 6)]

        fit = tfjac.least_squares(residual, params, **TIGHT)
        agree(fit, "several_data_sets")
        np.testing.assert_allclose(fit.r_squared(sets), 1 - fit.chi_square / np.sum((sets - sets.mean()) ** 2))
        return
    fit = fit_together(bell, [x] * 5, list(sets), one, shared=["sig"], **TIGHT)
    known = KNOWN["several_data_sets"]
    for name, value in fit.values.items():
        of = "sig_1" if name == "sig" else name
        np.testing.assert_allclose(value, known["values"][of], rtol=1e-6)
        np.testing.assert_allclose(fit.params[name].stderr, known["errors"][of], rtol=1e-3)
    np.testing.assert_allclose(fit.bic, known["bic"], rtol=1e-8)


@pytest.mark.parametrize("absolute", [False, True])
def test_a_decay_with_weights(absolute):
    name = "weighted_decay_absolute" if absolute else "weighted_decay"
    x, y = data(name)
    model = models.exponential() + models.constant()
    params = model.parameters(amplitude=300, decay=5, c=10)
    agree(model.fit(x, y, params, sigma=np.sqrt(y), absolute_sigma=absolute, **TIGHT), name)


def test_a_pseudo_voigt_peak():
    x, y = data("voigt_like_peak")
    agree(models.pseudo_voigt().fit(x, y, **TIGHT), "voigt_like_peak")
