"""Many fits by name: each as curve_fit of that row alone finds it, errors as by SciPy's Jacobian."""

import re
import sys

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import tensorflow as tf

import tfjac
from tfjac import models
from tfjac.parameters import fit_many

X = np.linspace(0.0, 4.0, 30)
NOISE = np.random.default_rng(0)
HEIGHTS, RATES = NOISE.uniform(2, 4, 5), NOISE.uniform(0.5, 1.5, 5)
SIGMA = 0.03 + 0.02 * X
Y = HEIGHTS[:, None] * np.exp(-RATES[:, None] * X) + SIGMA * NOISE.normal(size=(5, 30))


def decay(x, height, rate):
    return height * tf.exp(-rate * x)


def params(**given):
    return tfjac.Parameters({"height": 1.0, "rate": {"value": 1.0, "min": 0.0}, "half": "log(2)/rate", **given})


def by_scipy(row, x=X, sigma=SIGMA, absolute=False, **options):
    left = lambda b: (b[0] * np.exp(-b[1] * x) - row) / sigma  # noqa: E731
    found = scipy.optimize.least_squares(left, [3.0, 1.0], xtol=1e-14, ftol=1e-14, gtol=1e-14, **options)
    curve = np.exp(-found.x[1] * x) / sigma
    slopes = np.stack([curve, -found.x[0] * x * curve])
    gram = np.linalg.inv(slopes @ slopes.T)
    variance = 1.0 if absolute else np.sum(left(found.x) ** 2) / (x.size - 2)
    return found.x, gram * variance, left(found.x)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("absolute", [False, True])
def test_values_and_errors(absolute):
    fits = fit_many(decay, X, Y, params(), SIGMA, absolute, ftol=1e-13, xtol=1e-13)
    assert fits.success.all() and fits.names == ("height", "rate", "half") and "5 fits" in repr(fits)
    assert [line.split()[0] for line in repr(fits).splitlines()[-4:]] == ["cost", "steps", "height", "rate"]
    for k in range(5):
        (height, rate), covariance, _ = by_scipy(Y[k], absolute=absolute)
        np.testing.assert_allclose(
            [fits.values[name][k] for name in fits.names], [height, rate, np.log(2) / rate], rtol=1e-5
        )
        slopes = np.array([[1, 0], [0, 1], [0, -np.log(2) / rate**2]])
        np.testing.assert_allclose(fits.covariance()[k], slopes @ covariance @ slopes.T, rtol=1e-3, atol=1e-8)
        dof = np.inf if absolute else 28
        reach = scipy.stats.t.ppf(0.975, dof) * np.sqrt(covariance[0, 0])
        np.testing.assert_allclose(
            fits.confidence_intervals()["height"][k], [height - reach, height + reach], rtol=1e-3
        )


@pytest.mark.by_day(None)
def test_masks_x_of_each_fit_starts_and_parameters_that_are_held():
    x = X * np.linspace(0.8, 1.2, 5)[:, None]
    y = np.ma.masked_where(np.arange(30) % 7 == np.arange(5)[:, None], Y)
    y.data[y.mask] = 1e6
    fits = fit_many(decay, x, y, params(), SIGMA, starts={"height": HEIGHTS, "rate": 1.0}, ftol=1e-13, xtol=1e-13)
    for k in range(5):
        kept = ~y.mask[k]
        known, covariance, _ = by_scipy(Y[k, kept], x[k, kept], SIGMA[kept])
        np.testing.assert_allclose([fits.values["height"][k], fits.values["rate"][k]], known, rtol=1e-5)
        np.testing.assert_allclose(fits.standard_errors()["rate"][k], np.sqrt(covariance[1, 1]), rtol=1e-3)
    held = fit_many(decay, X, Y, params(rate={"value": 1.0, "vary": False}), SIGMA)
    np.testing.assert_array_equal(held.values["rate"], 1.0)
    np.testing.assert_array_equal(held.standard_errors()["half"], 0.0)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("loss", ["huber", "cauchy"])
def test_errors_of_robust_fits(loss):
    """Huber's: Σψ²/(rows − p)/(Σψ′/rows)² (JᵀJ)⁻¹, by hand."""
    y = Y.copy()
    y[:, ::9] += 2
    fits = fit_many(decay, X, y, params(), SIGMA, loss=loss, loss_scale=1.5, ftol=1e-13, xtol=1e-13, gtol=1e-13)
    for k in range(5):
        known, gram, left = by_scipy(y[k], absolute=True, loss=loss, f_scale=1.5)
        z = (left / 1.5) ** 2
        if loss == "huber":
            psi, bend = np.clip(left, -1.5, 1.5), (z <= 1).astype(float)
        else:
            psi, bend = left / (1 + z), (1 - z) / (1 + z) ** 2
        variance = np.sum(psi**2) / 28 / np.mean(bend) ** 2
        np.testing.assert_allclose([fits.values["height"][k], fits.values["rate"][k]], known, rtol=1e-4)
        np.testing.assert_allclose(fits.standard_errors()["rate"][k], np.sqrt(variance * gram[1, 1]), rtol=1e-3)
        alone = tfjac.curve_fit(decay, X, y[k], [3.0, 1.0], SIGMA, loss=loss, loss_scale=1.5, ftol=1e-13, xtol=1e-13)
        np.testing.assert_allclose(np.sqrt(variance * gram[1, 1]), alone.standard_errors()[1], rtol=1e-3)


@pytest.mark.by_day(None)
def test_a_model_from_its_guesses():
    model = tfjac.models.gaussian() + tfjac.models.constant()
    centers = np.array([1.0, 2.0, 2.5])
    y = np.exp(-((X - centers[:, None]) ** 2) / 0.18) + 0.2 + 0.01 * NOISE.normal(size=(3, 30))
    guesses = [model.guess(X, row).valuesdict() for row in y]
    starts = {name: [each[name] for each in guesses] for name in ("amplitude", "center", "sigma", "c")}
    fits = fit_many(model, X, y, model.guess(X, y[0]), starts=starts)
    for k in range(3):
        alone = model.fit(X, y[k])
        for name in fits.names:
            np.testing.assert_allclose(fits.values[name][k], alone.values[name], rtol=1e-4)
            np.testing.assert_allclose(fits.standard_errors()[name][k], alone.standard_errors()[name], rtol=1e-2)


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"no priors"):
        fit_many(decay, X, Y, params(height={"value": 1.0, "prior": (3.0, 1.0)}))
    with pytest.raises(ValueError, match=r"a row for each fit"):
        fit_many(decay, X, Y[0], params())
    with pytest.raises(ValueError, match=r"sigma of shape \(5,\), ydata of shape \(5, 30\)"):
        fit_many(decay, X, Y, params(), sigma=np.ones(5))
    with pytest.raises(ValueError, match=r"Received: 'half', parameters height, rate"):
        fit_many(decay, X, Y, params(), starts={"half": 1.0})
    with pytest.raises(ValueError, match=r"ydata must be finite"):
        fit_many(decay, X, np.where(Y > 3, np.nan, Y), params())
    with pytest.raises(ValueError, match=r"one for each fit, \[5\]. Received: 'rate' of shape \(2,\)"):
        fit_many(decay, X, Y, params(), starts={"rate": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"nothing to fit. Received: y of shape \(0, 30\)"):
        models.exponential().fit(X, Y[:0], batch_dims=1)


def test_a_row_that_is_masked_wholly_has_no_residuals():
    y = np.ma.array(Y, mask=np.arange(5)[:, None] == np.full([5, 30], 2))
    fits = fit_many(decay, X, y, params(), SIGMA)
    np.testing.assert_array_equal(fits.success, [True, True, False, True, True])
    assert tfjac.Status(fits.status[2]) is tfjac.Status.NO_RESIDUALS and fits.fit.num_residuals[2] == 0
    np.testing.assert_allclose(fits.values["rate"][3], by_scipy(Y[3])[0][1], rtol=1e-4)


def test_curve_fit_and_models_take_rows():
    expected = fit_many(decay, X, Y, params(), SIGMA)
    found = tfjac.curve_fit(decay, X, Y, params(), SIGMA, batch_dims=1)
    np.testing.assert_array_equal(found.values["half"], expected.values["half"])
    with pytest.raises(TypeError, match=r"With batch_dims=1 there is no n_starts: leave it out. Received: 3"):
        tfjac.curve_fit(decay, X, Y, params(), batch_dims=1, n_starts=3)


@pytest.mark.by_day(None)
def test_each_row_of_a_model_has_its_guess_and_a_loss():
    """Peaks far from one another: one start would not reach all; each is as by itself."""
    x = np.linspace(0.0, 20.0, 101)
    centres = np.linspace(3.0, 17.0, 6)
    rows = (
        3 * scipy.stats.norm.pdf(x, centres[:, None], 0.5) + 0.2 + 0.01 * np.random.default_rng(1).normal(size=(6, 101))
    )
    rows[:, 50] += 5.0
    model = tfjac.models.gaussian() + tfjac.models.constant()
    options = {"loss": "cauchy", "loss_scale": 0.02}
    fits = model.fit(x, rows, batch_dims=1, **options)
    np.testing.assert_allclose(fits.values["center"], centres, atol=0.02)
    start = model.parameters(amplitude=3.0, center=centres[2], sigma=0.5, c=0.2)
    one = model.fit(x, rows[2], start, ftol=1e-12, **options)
    np.testing.assert_allclose(fits.values["center"][2], one.values["center"], rtol=1e-5)
    np.testing.assert_allclose(fits.standard_errors()["center"][2], one.standard_errors()["center"], rtol=1e-2)


def test_tables():
    pandas = pytest.importorskip("pandas", reason="tables are for those who have pandas")
    fits = fit_many(decay, X, Y, params(), SIGMA)
    table = fits.to_dataframe()
    assert isinstance(table, pandas.DataFrame) and len(table) == 5
    np.testing.assert_array_equal(table["half_stderr"], fits.standard_errors()["half"])
    assert set(table["status"]) <= {status.name for status in tfjac.Status}
    fit = tfjac.curve_fit(decay, X, Y[0], params())
    table = fit.to_dataframe()
    assert list(table.index) == ["height", "rate", "half"] and table.loc["half", "expr"] == "log(2)/rate"
    np.testing.assert_allclose(table["stderr"], list(fit.standard_errors().values()))


def test_tables_need_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install pandas.*standard_errors\(\) of a fit are dicts"):
        tfjac.curve_fit(decay, X, Y[0], params()).to_dataframe()


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    ("name", "here"), [("params", "values and standard_errors()"), ("best_values", "values"), ("covar", "covariance()")]
)
def test_names_of_lmfit_say_what_they_are_here(name, here):
    fits = fit_many(decay, X, Y[:2], params(), SIGMA)
    with pytest.raises(AttributeError, match=f"What lmfit calls so is here: {re.escape(here)}"):
        getattr(fits, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        fits.nonsense  # noqa: B018
    for what in ("values", "standard_errors", "covariance", "cost", "names", "to_dataframe"):  # as the errors say
        assert hasattr(fits, what)


def test_guesses_of_many_rows_are_those_of_each_alone():
    """So many rows are guessed in one call; rows with other masks have other lengths."""
    x = np.linspace(0, 20, 80)
    rng = np.random.default_rng(2)
    centres = rng.uniform(5, 8, size=(120, 1))
    rows = 8 * np.exp(-((x - centres) ** 2)) + 5 * np.exp(-((x - centres - 6) ** 2) / 2) + 0.2 * x + 1
    rows = np.ma.masked_array(rows + 0.05 * rng.normal(size=rows.shape), np.zeros(rows.shape, bool))
    rows[100:, 10:13] = np.ma.masked
    rows[-1, 40:50] = np.ma.masked
    model = models.voigt(prefix="a_") + models.gaussian(prefix="b_") + models.linear()
    params, starts = model._guesses(x, rows, {"slope": 0.2})
    assert set(starts) == {"a_amplitude", "a_center", "a_sigma", "b_amplitude", "b_center", "b_sigma", "intercept"}
    for k in (0, 57, 99, 100, 118, 119):
        alone = model.guess(x, rows[k], slope=0.2)
        for name, values in starts.items():
            np.testing.assert_allclose(values[k], alone[name].value, rtol=1e-12)
    assert params["slope"].value == 0.2
