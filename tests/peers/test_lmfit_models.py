"""lmfit's own models, fitted by lmfit and by tfjac from the same start to the same data.

lmfit takes derivatives by differences, so its standard errors are good to three digits or so. By night each model is
fitted in its first form; with --all-peers in every form, and to other noise.
"""

import numpy as np
import pytest

from tests.peers import hold_comparisons
from tfjac import models

lmfit = pytest.importorskip("lmfit.models")

pytestmark = pytest.mark.by_day(None)

TIGHT = {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}
X = np.linspace(0.5, 9.5, 181)
SAME_AS_A_FORM = {"Bose-Einstein Distribution", "Fermi-Dirac Distribution"}
NAMES = [name for name in lmfit.lmfit_models if name not in SAME_AS_A_FORM]
ARGUMENTS = {
    "Spline": [[0.5, 2.0, 3.0, 5.0, 7.0, 9.5]],
    "Polynomial": [3, 5],
    "Expression": ["off + amp*exp(-x/t)*sin(x*freq)"],
}
TRUTH = {
    "amplitude": 3.0, "center": 4.2, "sigma": 0.8, "gamma": 0.5, "skew": 0.7, "fraction": 0.3, "beta": 1.7, "q": 1.6,
    "expon": 1.8, "sigma_r": 1.4, "kt": 2.0, "decay": 2.5, "exponent": 1.3, "frequency": 1.7, "shift": 0.6,
    "center1": 2.6, "sigma1": 0.6, "center2": 6.5, "sigma2": 0.9, "centerx": 4.0, "centery": -1.0, "sigmax": 1.5,
    "sigmay": 2.0, "slope": 1.5, "intercept": -2.0, "a": 0.4, "b": -1.0, "c": 2.0, "re": 1.0, "im": -2.0,
    "off": 1.0, "amp": 2.0, "t": 3.0, "freq": 2.1, "s0": 1.0, "s1": 2.5, "s2": -1.0, "s3": 0.5, "s4": 3.0, "s5": 2.0,
    "c0": 1.0, "c1": -0.5, "c2": 0.3, "c3": -0.1, "c4": 0.02, "c5": -0.001,
}  # fmt: skip
TRUTH_OF = {
    "Log-Normal": {"center": 1.2, "sigma": 0.4},
    "Damped Oscillator": {"sigma": 0.15},
    "Doniach": {"gamma": 0.15},
    "Thermal Distribution": {"center": -0.5},
}
HELD = {"Thermal Distribution": {"center"}}
"""What the data do not determine beside the others."""


@pytest.mark.parametrize("name", NAMES)
def test_values_and_standard_errors(name, request, record_property):
    every, outcomes = request.config.getoption("--all-peers"), []
    forms = ARGUMENTS.get(name) or lmfit.lmfit_models[name].valid_forms or [None]
    for form in forms if every else forms[:1]:
        for seed in (1, 2, 3) if every else (1,):
            outcomes.append(_compare(name, form, np.random.default_rng(seed)))
    hold_comparisons(outcomes, record_property)


def _compare(name, form, rng):
    """Fit one model to a curve with noise of a hundredth of its height, and hold what tfjac finds against lmfit's."""
    kind = lmfit.lmfit_models[name]
    theirs = kind(form=form) if kind.valid_forms and name != "Polynomial" else kind(*filter(None, [form]))
    ours = _shape(kind)(*filter(None, [form]))
    x = {"x": X, "y": rng.permutation(X) - 5} if name == "Gaussian-2D" else {"x": X}
    truth = {each: TRUTH_OF.get(name, {}).get(each, TRUTH[each]) for each in ours.names}
    curve = theirs.eval(**x, **truth)
    noise = rng.normal(size=X.size) + (1j * rng.normal(size=X.size) if np.iscomplexobj(curve) else 0)
    y = curve + 0.01 * np.max(np.abs(curve)) * noise
    start = {each: value * rng.uniform(0.97, 1.03) for each, value in truth.items()}
    held = HELD.get(name, set())

    params = theirs.make_params(**start)
    for each in ours.names:
        params[each].set(expr="", vary=each not in held)
    expected = theirs.fit(y, params, **x, fit_kws=TIGHT)

    params = ours.parameters(**start)
    for each in ours.names:
        params[each].set(expr=None, vary=each not in held)
    found = ours.fit(tuple(x.values()) if len(x) > 1 else X, y, params, **TIGHT)

    errors = found.standard_errors()
    assert found.success and expected.success
    np.testing.assert_allclose(found.chi_square, expected.chisqr, rtol=1e-8)
    for each in set(ours.names) - held:
        given = expected.params[each]
        np.testing.assert_allclose(found.values[each], given.value, atol=2e-3 * given.stderr, err_msg=each)
        np.testing.assert_allclose(errors[each], given.stderr, rtol=5e-3, err_msg=f"error of {each}")
    return "compared"


def _shape(kind):
    """Return what makes tfjac's model of that shape: names differ by capitals and underscores."""
    shapes = {each.replace("_", ""): each for each in models.__all__}
    return getattr(models, shapes[kind.__name__.removesuffix("Model").lower()])
