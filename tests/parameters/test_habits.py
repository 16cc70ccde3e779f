"""Habits of lmfit: ways to fit, deviations, uncertainty, pictures, pickling; and what to do in the place of others."""

import pickle

import matplotlib
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import tensorflow as tf

import tfjac
from tfjac import models

matplotlib.use("Agg")
X = np.linspace(0.0, 10.0, 101)
NOISE = 0.05 * np.random.default_rng(3).normal(size=X.size)
Y = 4 * scipy.stats.norm.pdf(X, 4.0, 0.7) + 0.3 + 0.1 * X + NOISE


def curve(x, amplitude, center, sigma, slope, intercept):
    return amplitude * scipy.stats.norm.pdf(x, center, sigma) + slope * x + intercept


MODEL = models.gaussian() + models.linear()
START = MODEL.guess(X, Y)
WEIGHTS = 1 / (0.05 * (1 + 0.1 * X))

WAYS = {
    "x, y, params": lambda: MODEL.fit(X, Y, START),
    "all named": lambda: MODEL.fit(x=X, y=Y, params=START),
    "guessed": lambda: MODEL.fit(X, Y),
    "with a value": lambda: MODEL.fit(X, Y, center=3.5),
    "with parameters and a value": lambda: MODEL.fit(X, Y, START, center=3.5),
    "with deviations": lambda: MODEL.fit(X, Y, START, sigma=0.05),
}


@pytest.fixture(scope="module")
def truth():
    return scipy.optimize.curve_fit(curve, X, Y, p0=[4, 4, 0.7, 0.1, 0.3], ftol=1e-14, xtol=1e-14)


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_fit(way, truth):
    fit = WAYS[way]()
    np.testing.assert_allclose([fit.values[name] for name in MODEL.names], truth[0], rtol=1e-6)


def test_deviations_as_they_are():
    found = scipy.optimize.curve_fit(curve, X, Y, [4, 4, 0.7, 0.1, 0.3], 1 / WEIGHTS, absolute_sigma=True)
    fit = MODEL.fit(X, Y, START, sigma=1 / WEIGHTS, absolute_sigma=True)
    np.testing.assert_allclose([fit.values[name] for name in MODEL.names], found[0], rtol=1e-5)
    errors = fit.standard_errors()
    np.testing.assert_allclose([errors[name] for name in MODEL.names], np.sqrt(np.diag(found[1])), rtol=1e-4)


def decaying(t, size, rate=1.0):
    return size * tf.exp(-rate * t)


def test_a_function_of_the_users_with_its_own_variable():
    model = models.Model(decaying)
    t, y = np.linspace(0, 3, 30), 2 * np.exp(-1.7 * np.linspace(0, 3, 30))
    for fit in (model.fit(t, y, model.parameters(size=1.0)), model.fit(t, y, size=1.0)):
        np.testing.assert_allclose([fit.values["size"], fit.values["rate"]], [2, 1.7], rtol=1e-6)


REFUSED = {
    "lmfit's order": (lambda: MODEL.fit(Y, START), TypeError, r"fit\(x, y, params\).*Received: y of type Parameters"),
    "a guess in it": (lambda: MODEL.guess(Y, START), TypeError, r"guess\(x, y\).*Received: y of type Parameters"),
    "params of another type": (lambda: MODEL.fit(X, Y, [1.0]), TypeError, r"params of type list"),
    "lmfit's order, x named": (lambda: MODEL.fit(Y, START, x=X), TypeError, r"multiple values for argument 'x'"),
    "weights": (lambda: MODEL.fit(X, Y, weights=WEIGHTS), TypeError, r"no option weights: .*sigma=1/weights"),
    "scale_covar": (lambda: MODEL.fit(X, Y, scale_covar=False), TypeError, r"no option scale_covar: .*absolute_sigma"),
    "a search": (
        lambda: MODEL.fit(X, Y, START, method="nelder"),
        ValueError,
        r"n_starts=, or let scipy.optimize find one. Received: method='nelder'",
    ),
    "axes and a panel": (
        lambda: MODEL.fit(X, Y, START).plot(axes=object(), residuals=True),
        ValueError,
        r"leave axes out",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    call, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        call()


def test_eval_uncertainty(truth):
    """Student's t times the error of the curve, by differences of SciPy's fit."""
    fit = MODEL.fit(X, Y, START)
    slopes = [(curve(X, *(truth[0] + h)) - curve(X, *(truth[0] - h))) / 2e-5 for h in 1e-5 * np.eye(5)]
    spread = np.sqrt(np.einsum("in,ij,jn->n", slopes, truth[1], slopes))
    for sigma, level in ((1, 0.6826894921), (2, 0.9544997361), (0.9, 0.9)):
        reach = scipy.stats.t.ppf((1 + level) / 2, X.size - 5)
        np.testing.assert_allclose(fit.eval_uncertainty(sigma=sigma), reach * spread, rtol=1e-4)
    assert fit.eval_uncertainty(x=[1.0, 2.0]).shape == (2,)


def test_pictures():
    import matplotlib.pyplot as plt

    fit = MODEL.fit(X, Y, START)
    axes = fit.plot()
    panel = axes.figure.axes[1]
    shown = panel.lines[-1].get_xydata()
    np.testing.assert_allclose(shown, np.stack([X, fit.predict() - Y], axis=1))
    labels = [each.get_label() for each in axes.lines]
    assert "gaussian" in labels and "linear" in labels
    alone = fit.plot(components=False, residuals=False)
    assert len(alone.figure.axes) == 1 and "linear" not in [each.get_label() for each in alone.lines]
    given = plt.subplots()[1]
    assert fit.plot(axes=given) is given and len(given.figure.axes) == 1
    parts = {each.get_label(): each for each in tfjac.plot_fit(fit, x=[1.0, 2.0]).lines}
    np.testing.assert_allclose(parts["linear"].get_ydata(), fit.components(np.array([1.0, 2.0]))["linear"])
    plt.close("all")


def residuals(p, x, y):
    return decaying(x, p["size"], p["rate"]) - y


def fits():
    yield MODEL.fit(X, Y, START, loss="huber")
    params = tfjac.Parameters(size={"value": 1.0, "min": 0.0, "unit": "V"}, rate="size/2", both="size + rate")
    yield tfjac.least_squares(residuals, params, args=(X, 2 * np.exp(-0.9 * X)))


def test_results_can_be_pickled():
    for fit in fits():
        again = pickle.loads(pickle.dumps(fit))
        assert str(again) == str(fit) and again.values == fit.values and again.status is fit.status
        np.testing.assert_array_equal(again.fit.history.cost, fit.fit.history.cost)
        np.testing.assert_allclose(again.covariance(), fit.covariance(), rtol=1e-10)
        assert again.params["size" if "size" in fit.names else "sigma"].init_value is not None
        np.testing.assert_array_equal(again.residuals(), fit.residuals())
        assert len(again.bootstrap(5).values) == len(fit.names)
