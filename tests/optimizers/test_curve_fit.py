"""curve_fit against SciPy's, argument by argument."""

import functools

import matplotlib
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import tensorflow as tf

import tfjac

from . import nist

X = np.linspace(0, 4, 25)
Y = 2.5 * np.exp(-1.3 * X) + 0.5 + 0.05 * np.cos(37 * X)
SIGMA = 0.02 * (1 + X)
COVARIANCE = np.diag(SIGMA**2) + 0.0005 * np.exp(-np.abs(X[:, None] - X))
TIGHT = {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}


def decay(x, amplitude, rate, offset):
    return amplitude * tf.exp(-rate * x) + offset


def decay_numpy(x, amplitude, rate, offset):
    return amplitude * np.exp(-rate * x) + offset


def same(ours, theirs, rtol=1e-6):
    for mine, reference in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, reference, rtol=rtol, atol=rtol * np.abs(reference).max())


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("sigma", [None, 0.1, SIGMA, COVARIANCE], ids=["none", "number", "vector", "matrix"])
def test_sigma(sigma):
    given = np.full(25, sigma) if isinstance(sigma, float) else sigma
    for absolute in (False, True):
        options = {"absolute_sigma": absolute}
        theirs = scipy.optimize.curve_fit(decay_numpy, X, Y, sigma=given, **options, ftol=1e-14, xtol=1e-14)
        same(tfjac.curve_fit(decay, X, Y, sigma=sigma, **options, **TIGHT), theirs, rtol=1e-5)


@pytest.mark.parametrize(("y", "sigma"), [([3.0], [[0.25]]), (3.0, [[0.25]]), ([3.0], [[0.5]])])
def test_a_matrix_of_one_point_is_a_covariance(y, sigma):
    """y = 2a with a variance of v: that of a is v/4. A number, and an array of the shape of y, are deviations."""
    variance = sigma[0][0]
    fit = tfjac.curve_fit(lambda x, a: 2 * a * x, np.ones(1), y, sigma=sigma, absolute_sigma=True)
    np.testing.assert_allclose(fit.pcov, [[variance / 4]], rtol=1e-9)
    for deviation in (variance, [variance]):
        fit = tfjac.curve_fit(lambda x, a: 2 * a * x, np.ones(1), y, sigma=deviation, absolute_sigma=True)
        np.testing.assert_allclose(fit.pcov, [[variance**2 / 4]], rtol=1e-9)


def test_a_matrix_of_another_size_or_that_is_not_symmetric():
    with pytest.raises(ValueError, match=r"sigma of shape \(1, 1\), ydata of shape \(25,\)"):
        tfjac.curve_fit(decay, X, Y, sigma=[[0.25]])
    with pytest.raises(ValueError, match=r"must be symmetric"):
        tfjac.curve_fit(decay, X, Y, sigma=np.triu(COVARIANCE))


def test_masked_values_are_left_out():
    y, x = np.ma.masked_where(X > 3, np.where(X > 3, 1e6, Y)), np.ma.masked_less(X, 0.2)
    kept = (X <= 3) & (X >= 0.2)
    for sigma in (None, SIGMA, COVARIANCE):
        known = sigma if sigma is None else sigma[kept] if sigma.ndim == 1 else sigma[kept][:, kept]
        theirs = scipy.optimize.curve_fit(decay_numpy, X[kept], Y[kept], sigma=known, ftol=1e-14, xtol=1e-14)
        same(tfjac.curve_fit(decay, x, y, sigma=sigma, **TIGHT), theirs, rtol=1e-5)
    same(tfjac.curve_fit(decay, X, np.ma.masked_array(Y), **TIGHT), tfjac.curve_fit(decay, X, Y, **TIGHT), 1e-9)
    with pytest.raises(ValueError, match=r"ydata with 1 values that are NaN"):
        tfjac.curve_fit(decay, x, np.ma.masked_where(X > 3, np.where(X[10] == X, np.nan, Y)))
    with pytest.raises(ValueError, match=r"xdata cannot have missing values"):
        tfjac.curve_fit(decay, X, Y).predict(x)
    with pytest.raises(ValueError, match=r"p0 cannot have missing values"):
        tfjac.curve_fit(decay, X, Y, np.ma.masked_less([1.0, 1.0, 0.0], 0.5))


def test_dates_are_no_numbers():
    dates = np.datetime64("2026-01-01") + np.arange(25)
    for x, y in ((dates, Y), (dates - dates[0], Y), (X, dates), ((X, dates), Y), (dates.tolist(), Y)):
        with pytest.raises(TypeError, match=r"holds dates or durations.*timedelta64\(1, 's'\)"):
            tfjac.curve_fit(lambda x, a: a * x, x, y)


@pytest.mark.by_day(None)
def test_x_of_several_kinds():
    """A matrix of two rows, a tuple, and a dictionary of tensors with an index in it."""
    other = np.cos(X)
    theirs = scipy.optimize.curve_fit(lambda x, a, b: a * x[0] + np.exp(b * x[1]), np.stack([X, other]), Y)
    same(tfjac.curve_fit(lambda x, a, b: a * x[0] + tf.exp(b * x[1]), np.stack([X, other]), Y), theirs, 1e-4)
    same(tfjac.curve_fit(lambda x, a, b: a * x[0] + tf.exp(b * x[1]), (X, other), Y), theirs, 1e-4)
    data = {"x": X.tolist(), "which": tf.constant(np.arange(25) % 2)}
    groups = tfjac.curve_fit(lambda d, a, b: tf.gather(tf.stack([a, b]), d["which"]), data, Y)
    np.testing.assert_allclose(groups.popt, [Y[::2].mean(), Y[1::2].mean()], rtol=1e-6)


def test_integers_count_as_numbers():
    y = [1, 3, 5, 7, 10]
    theirs = np.polyfit(range(5), y, 1)
    np.testing.assert_allclose(tfjac.curve_fit(lambda x, a, b: a * x + b, range(5), y).popt, theirs, rtol=1e-6)


def test_parameters_by_number():
    popt, pcov = tfjac.curve_fit(lambda x, *b: b[0] * x + b[1], X, Y, p0=[1, 1])
    theirs = np.polyfit(X, Y, 1, cov=True)
    same((popt, pcov), theirs)
    result = tfjac.curve_fit(lambda x, slope, *rest: slope * x + rest[0], X, Y, p0=[1, 1])
    assert result.names == ("slope", "p1") and "slope" in result.summary()


def test_a_parabola_through_three_points_has_no_errors():
    with pytest.warns(UserWarning, match="only from more residuals than parameters"):
        popt, pcov = tfjac.curve_fit(lambda x, a, b, c: a * x**2 + b * x + c, [0, 1, 2], [1, 2, 5])
    np.testing.assert_allclose(popt, [1, 0, 1], atol=1e-7)
    assert np.isinf(pcov).all()


def test_undetermined_parameters_have_infinite_errors():
    with pytest.warns(UserWarning, match="do not determine all parameters"):
        _, pcov = tfjac.curve_fit(lambda x, a, b: a * b * x, X, Y)
    assert pcov.shape == (2, 2) and np.isinf(pcov).all()


def test_a_fit_cut_short_says_so():
    with pytest.warns(UserWarning, match=r"Stopped after max_steps.*Received: status MAX_STEPS"):
        assert not tfjac.curve_fit(decay, X, Y, max_steps=1).success


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("name", ["Gauss1", "Nelson"])
def test_certified_errors(name):
    """NIST's standard deviations, by a function of the data and parameters by number; `test_nist` has all problems."""
    problem = nist.load(name)
    y = np.log(problem.y) if name == "Nelson" else problem.y
    fit = tfjac.curve_fit(lambda x, *b: nist.MODELS[name](b, x), problem.x, y, problem.starts[1], ftol=1e-12)
    np.testing.assert_allclose(fit.popt, problem.certified, rtol=1e-5)
    np.testing.assert_allclose(np.sqrt(np.diag(fit.pcov)), problem.deviations, rtol=1e-5)


def test_later_fits_leave_a_result_alone():
    """They share a variable and a graph."""
    first = tfjac.curve_fit(decay, X, Y)
    second = tfjac.curve_fit(decay, X, 2 * Y)
    np.testing.assert_allclose(second.popt, first.popt * [2, 1, 2], rtol=1e-5)
    np.testing.assert_allclose(second.pcov, first.pcov * np.outer([2, 1, 2], [2, 1, 2]), rtol=1e-5)


def test_arguments_that_do_not_fit():
    with pytest.raises(ValueError, match=r"number of parameters does not follow.*pass p0"):
        tfjac.curve_fit(lambda x, *b: b[0] * x, X, Y)
    with pytest.raises(ValueError, match=r"one argument for each parameter. Received: .*p0 of 4 parameters"):
        tfjac.curve_fit(decay, X, Y, [1, 1, 1, 1])
    with pytest.raises(TypeError, match=r"or tfjac.Parameters\(p0\) for names. Received: p0=.'a': 1"):
        tfjac.curve_fit(decay, X, Y, {"a": 1, "b": 1, "c": 1})
    with pytest.raises(ValueError, match=r"ydata must be finite.*1 values that are NaN"):
        tfjac.curve_fit(decay, X, np.where(X == 0, np.nan, Y))
    with pytest.raises(ValueError, match=r"sigma of shape \(3,\), ydata of shape \(25,\)"):
        tfjac.curve_fit(decay, X, Y, sigma=np.ones(3))
    with pytest.raises(ValueError, match=r"standard deviations, which are positive"):
        tfjac.curve_fit(decay, X, Y, sigma=-SIGMA)
    with pytest.raises(ValueError, match=r"must be symmetric and positive definite"):
        tfjac.curve_fit(decay, X, Y, sigma=-COVARIANCE)
    with pytest.raises(TypeError, match=r"tf.exp, not np.exp|compute with TensorFlow"):
        tfjac.curve_fit(decay_numpy, X, Y)
    with pytest.raises(ValueError, match=r"one value for each of ydata. Received: values of \(24,\), ydata of \(25,\)"):
        tfjac.curve_fit(lambda x, a: a * x[1:], X, Y)
    with pytest.raises(TypeError, match=r"f must be a function"):
        tfjac.curve_fit(3, X, Y)
    with pytest.raises(TypeError, match=r"xdata must hold numbers. Received: .*'a'"):
        tfjac.curve_fit(decay, ["a"] * len(Y), Y)
    with pytest.raises(ValueError, match=r"p0 must be finite.*nan"):
        tfjac.curve_fit(decay, X, Y, [np.nan, 1, 1])
    with pytest.raises(TypeError, match=r"loss must compute with TensorFlow.*symbolic"):
        tfjac.curve_fit(decay, X, Y, loss=np.log1p)


def test_numbers_that_are_written_out():
    """As SciPy does."""
    found = tfjac.curve_fit(decay, X.astype(str), Y.astype(str))
    np.testing.assert_allclose(found.popt, tfjac.curve_fit(decay, X, Y).popt, rtol=1e-7)


@pytest.mark.parametrize("y", [2.0, [2.0]])
def test_one_datum_is_refused_and_solved_as_by_scipy(y):
    line = lambda x, a, b: a * x + b  # noqa: E731
    for fit in (tfjac.curve_fit, scipy.optimize.curve_fit):
        with pytest.raises(TypeError, match=r"must not exceed"):
            fit(line, np.ones(np.shape(y)), y, [1.0, 2.0])
    with pytest.warns(UserWarning, match=r"single number|only from more residuals"):
        popt, pcov = tfjac.curve_fit(line, np.ones(np.shape(y)), y, [1.0, 2.0], method="trf")
    np.testing.assert_allclose(popt.sum(), 2.0)
    assert np.isinf(pcov).all()


@pytest.mark.by_day(None)
def test_a_picture_of_the_fit():
    matplotlib.use("Agg")
    result = tfjac.curve_fit(decay, X, Y, sigma=SIGMA, absolute_sigma=True)
    for axes in (tfjac.plot_fit(result, points=50), result.plot(x=[0.5, 2.0])):
        curve = next(line for line in axes.lines if line.get_label() == "fit")
        np.testing.assert_allclose(curve.get_ydata(), decay_numpy(curve.get_xdata(), *result.popt))
        assert len(axes.collections) == 3, "error bars and two bands"
    np.testing.assert_array_equal(curve.get_xdata(), [0.5, 2.0])
    with pytest.raises(TypeError, match="plot_fit draws what"):
        tfjac.plot_fit((1, 2))
    surface = tfjac.curve_fit(lambda x, a: a * x[0] * x[1], np.stack([X, X]), Y)
    with pytest.raises(ValueError, match="Only a curve y"):
        tfjac.plot_fit(surface)


@pytest.mark.parametrize("scale", ["log", "symlog", "later"])
def test_a_line_on_a_logarithmic_axis_follows_the_fit(scale):
    """Between its points the line that is drawn is straight in log x."""
    plt = pytest.importorskip("matplotlib.pyplot")
    x = np.concatenate([[0.0], np.geomspace(1e-3, 1e2, 40)])
    fit = tfjac.curve_fit(lambda x, a, b, c: a + (b - a) / (1 + x / c), x, 1 + 4 / (1 + x / 0.3), p0=[0.5, 4.0, 1.0])
    axes = plt.subplots()[1]
    axes.set_xscale("linear" if scale == "later" else scale, **({"linthresh": 1e-3} if scale == "symlog" else {}))
    line = next(each for each in fit.plot(axes).lines if each.get_label() == "fit")
    places = np.geomspace(1.1e-3, 99, 500)
    seen = line.get_xdata() > 0
    drawn = np.interp(np.log(places), np.log(line.get_xdata()[seen]), line.get_ydata()[seen])
    np.testing.assert_allclose(drawn, 1 + 4 / (1 + places / 0.3), rtol=1e-3)
    plt.close("all")


def test_the_prediction_band_of_a_picture_has_the_deviations_of_the_data():
    """Of a line through the origin with errors of a tenth, from one end of five decades to the other."""
    plt = pytest.importorskip("matplotlib.pyplot")
    x = np.geomspace(0.01, 1000, 12)
    y = 3 * x * (1 + 0.1 * np.random.default_rng(0).normal(size=12))
    axes = tfjac.curve_fit(lambda x, a: a * x, x[::-1], y[::-1], sigma=0.1 * y[::-1]).plot(x=x)
    band = next(each for each in axes.collections if each.get_label() == "95% prediction").get_paths()[0].vertices
    popt, pcov = scipy.optimize.curve_fit(lambda x, a: a * x, x, y, sigma=0.1 * y)
    noise = np.sum(((y - popt[0] * x) / (0.1 * y)) ** 2) / 11 * (0.1 * y) ** 2
    reach = scipy.stats.t.ppf(0.975, 11) * np.sqrt(x**2 * pcov[0, 0] + noise)
    for side in (-1, 1):
        expected = popt[0] * x + side * reach
        found = [band[np.isclose(band[:, 0], each), 1] for each in x]
        assert all(np.isclose(values, height, rtol=1e-4).any() for values, height in zip(found, expected))
    plt.close("all")


def test_what_is_not_determined_is_warned_of_in_the_call():
    with pytest.warns(UserWarning, match=r"do not determine all parameters"):
        fit = tfjac.curve_fit(lambda x, a, b: (a + b) * x, X, Y)
    assert np.isinf(fit.pcov).all()
    with pytest.raises(TypeError, match=r"number of func parameters.*Received: 3 parameters, 2 data"):
        tfjac.curve_fit(decay, X[:2], Y[:2])
    with pytest.warns(UserWarning, match=r"more residuals than parameters"):
        assert tfjac.curve_fit(decay, X[:2], Y[:2], [2.0, 1.0, 0.5], method="trf").cost < 1e-12


@pytest.mark.parametrize("options", [{}, {"bounds": ([0, 0, 0.55], [3, 2, 1])}])
def test_what_scipys_users_read(options):
    ours, theirs = tfjac.curve_fit(decay, X, Y, **options), scipy.optimize.curve_fit(decay_numpy, X, Y, **options)
    same(ours, theirs, rtol=1e-4)
    known = scipy.optimize.least_squares(
        lambda b: decay_numpy(X, *b) - Y, [1.0, 1.0, 0.6], bounds=options.get("bounds", (-np.inf, np.inf)), **TIGHT
    )
    for name in ("x", "cost", "fun", "jac"):
        np.testing.assert_allclose(ours[name], known[name], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(getattr(ours, name), ours[name])
    np.testing.assert_allclose(ours.grad, known.grad, rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(ours.active_mask, known.active_mask)
    assert ours.optimality < 1e-5 and ours.nfev >= 1 and ours.njev >= 1 and set(ours.keys()) <= set(known.keys())
    with pytest.raises(KeyError, match=r"Did you mean 'fun'"):
        _ = ours["funn"]


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("loss", ["huber", "cauchy"])
def test_the_gradient_of_robust_losses_and_priors(loss):
    b = tf.Variable([1.0, 1.0, 0.0], dtype=tf.float64)
    found = tfjac.least_squares(lambda: decay(X, *tf.unstack(b)) - Y, b, loss=loss, loss_scale=0.02, max_steps=2)
    known = scipy.optimize.least_squares(
        lambda p: decay_numpy(X, *p) - Y, found.x, loss=loss, f_scale=0.02, max_nfev=1, jac="3-point"
    )
    np.testing.assert_allclose(found.grad, known.grad, rtol=1e-6)
    np.testing.assert_allclose(found.optimality, known.optimality, rtol=1e-6)
    found = tfjac.least_squares(lambda: b - 1.0, b, prior=(0.5, 2.0), max_steps=1)
    np.testing.assert_allclose(found.gradient(), (found.x - 1) + (found.x - 0.5) / 4, atol=1e-12)


def test_maxfev_of_zero_is_the_default():
    same(tfjac.curve_fit(decay, X, Y, maxfev=0), tfjac.curve_fit(decay, X, Y), 1e-9)


@pytest.mark.parametrize("p0", [[0, 1, 1, 2], [0, 0.5, 1, 2]])
def test_a_dose_response_beside_a_dose_of_zero(p0):
    dose = np.repeat([0, 0.1, 0.5, 1, 5, 10, 50.0], 2)

    def response(x, low, slope, middle, high):
        return high + (low - high) / (1 + (x / middle) ** slope)

    measured = response(dose, 0.1, 0.8, 3.0, 2.0) + 0.01 * np.sin(37 * np.arange(14))
    same(tfjac.curve_fit(response, dose, measured, p0=p0), scipy.optimize.curve_fit(response, dose, measured, p0=p0))


STARTS_IN_ANY_UNIT = {
    "decay": (lambda m, x, a, b, c: a * m.exp(-b * x) + c, [2.5, 1.3, 0.4], [0, 2]),
    "saturation": (lambda m, x, a, b: a * x / (b + x), [2.0, 0.5], [0]),
    "growth": (lambda m, x, a, b, c: a * m.exp(-b * m.exp(-c * x)), [2.0, 3.0, 1.2], [0]),
    "two decays": (lambda m, x, a, b, c, d: a * m.exp(-b * x) + c * m.exp(-d * x), [2.0, 0.3, 3.0, 2.5], [0, 2]),
    "wave": (lambda m, x, a, b, c, d: a * m.sin(b * x + c) + d, [3.0, 1.2, 0.5, 1.0], [0, 3]),
    "parabola": (lambda m, x, a, b, c: a * x**2 + b * x + c, [0.5, -1.0, 2.0], [0, 1, 2]),
}


@pytest.mark.core
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("name", STARTS_IN_ANY_UNIT)
def test_without_a_start_the_unit_of_the_data_does_not_matter(name, unit):
    """From ones, rates run off where data are some hundreds high: SciPy, from the truth, says where the minimum is."""
    function, truth, linear = STARTS_IN_ANY_UNIT[name]
    x, truth = np.linspace(0.1, 6, 40), np.array(truth)
    truth[linear] *= unit
    y = function(np, x, *truth) + 0.02 * unit * np.random.default_rng(3).normal(size=x.size)
    theirs, _ = scipy.optimize.curve_fit(functools.partial(function, np), x, y, truth, ftol=1e-12, xtol=1e-12)
    fit = tfjac.curve_fit(functools.partial(function, tf.math), x, y)
    assert fit.success
    if name == "two decays" and fit.popt[1] > fit.popt[3]:
        theirs = theirs[[2, 3, 0, 1]]
    np.testing.assert_allclose(fit.popt, theirs, rtol=1e-4)
