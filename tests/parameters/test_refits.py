"""Fits done again: profiles, bootstrap, many starts, several data sets; against loops of SciPy's fits."""

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import tensorflow as tf

import tfjac
from tfjac.parameters import fit_together
from tfjac.parameters.starts import drawn

X = np.linspace(0.0, 4.0, 30)
Y = 2.5 * np.exp(-1.3 * X) + 0.5 + np.random.default_rng(0).normal(scale=0.05, size=30)
SIGMA = 0.03 + 0.02 * X


def decay(x, amplitude, rate, offset):
    return amplitude * tf.exp(-rate * x) + offset


def left(b, x=X, y=Y, sigma=SIGMA):
    return (b[0] * np.exp(-b[1] * x) + b[2] - y) / sigma


def by_scipy(**changed):
    return scipy.optimize.least_squares(left, [2.5, 1.3, 0.5], kwargs=changed, xtol=1e-14, ftol=1e-14, gtol=1e-14).x


def params(**given):
    return tfjac.Parameters({"amplitude": 1.0, "rate": 1.0, "offset": 0.0, **given})


def fitted(parameters=None, **options):
    return tfjac.curve_fit(decay, X, Y, p0=parameters or params(), **{"sigma": SIGMA, **options})


# ------------------------------------------------------------------ profiles


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("absolute", [False, True])
def test_at_the_ends_of_an_interval_the_test_is_met(absolute):
    """With the parameter held there, SciPy's fit of the others has the χ² that the level says."""
    fit = fitted(params(half="log(2)/rate"), absolute_sigma=absolute)
    levels = (0.5, 2)
    intervals = fit.conf_interval(["rate", "offset"], sigmas=levels)
    probability = np.array([0.5, scipy.stats.chi2.cdf(4, 1)])
    np.testing.assert_allclose(intervals.levels, probability, rtol=1e-12)
    dof, least = X.size - 3, fit.chi_square
    if absolute:
        target = least + scipy.stats.chi2.ppf(probability, 1)
    else:
        target = least * (1 + scipy.stats.f.ppf(probability, 1, dof) / dof)
    for name, place in (("rate", 1), ("offset", 2)):
        for end, wanted in zip(intervals[name], target):
            assert end[0] < fit.values[name] < end[1]
            for value in end:
                start = np.delete([2.5, 1.3, 0.5], place)
                held = lambda b, place=place, value=value: left(np.insert(b, place, value))  # noqa: E731
                found = scipy.optimize.least_squares(held, start, xtol=1e-12)
                np.testing.assert_allclose(2 * found.cost, wanted, rtol=1e-4)
    with pytest.raises(KeyError, match="half"):
        _ = intervals["half"]
    assert intervals.fits >= 8 and "best" in repr(intervals) and "rate" in intervals.summary(differences=False)


@pytest.mark.by_day(None)
def test_a_bound_that_comes_first_leaves_the_interval_open():
    best = by_scipy()[2]
    fit = fitted(params(offset={"value": 0.6, "min": best - 0.001}, rate={"value": 1.3, "max": 3.0}))
    intervals = fit.conf_interval(["rate", "offset"], sigmas=[0.01, 3])
    assert np.isneginf(intervals["offset"][1, 0]) and np.isfinite(intervals["offset"][0]).all()
    assert np.isfinite(intervals["rate"]).all() and np.isfinite(intervals["offset"][:, 1]).all()


def test_a_parameter_at_its_bound_has_no_profile():
    fit = fitted(params(offset={"value": 0.7, "min": 0.6}))
    assert fit.conf_interval(sigmas=[1, 3]).names == ("amplitude", "rate")
    with pytest.raises(ValueError, match=r"'offset' \(at its lower bound\), free parameters amplitude, rate"):
        fit.conf_interval("offset")


def test_a_better_fit_that_shows_on_the_way_is_told():
    with pytest.warns(UserWarning, match="MAX_STEPS"):
        fit = fitted(max_steps=2)
    with pytest.warns(UserWarning, match=r"not the best fit.*use n_starts. Received: chi-square .* lower by"):
        fit.conf_interval(["rate", "offset"], sigmas=[0.5, 2], max_steps=1)


@pytest.mark.by_day(None)
def test_one_parameter_alone_has_the_interval_of_the_linear_model():
    fit = tfjac.curve_fit(lambda x, a: a * x, X, Y, p0=tfjac.Parameters(a=1.0))
    found = fit.conf_interval(sigmas=[0.95])["a"][0]
    np.testing.assert_allclose(found, fit.confidence_intervals(0.95)["a"], rtol=1e-5)


def test_profiles_of_what_has_none():
    fit = fitted(params(half="log(2)/rate", offset={"value": 0.5, "vary": False}))
    with pytest.raises(
        ValueError, match=r"Only free parameters have profiles.*'half', free parameters amplitude, rate"
    ):
        fit.conf_interval(["half"])
    with pytest.raises(ValueError, match=r"'offset'"):
        fit.conf_interval("offset")
    with pytest.raises(ValueError, match=r"sigmas are positive"):
        fit.conf_interval(sigmas=[-1])
    with pytest.raises(ValueError, match=r"use bootstrap for robust losses"):
        fitted(loss="soft_l1").conf_interval()


# ------------------------------------------------------------------ bootstrap


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("kind", ["residuals", "pairs"])
def test_bootstrap_is_a_loop_of_fits_of_data_drawn_again(kind):
    fit, count = fitted(params(half="log(2)/rate"), ftol=1e-13, xtol=1e-13), 30  # as many as there are data
    found = fit.bootstrap(count, kind, seed=3)
    drawn = np.random.default_rng(3).integers(30, size=[count, 30])
    residuals, curve = fit.residuals(), fit.predict()
    centred = (residuals - residuals.mean()) * np.sqrt(30 / 27)
    for k in range(0, count, 7):
        if kind == "pairs":
            known = by_scipy(x=X[drawn[k]], y=Y[drawn[k]], sigma=SIGMA[drawn[k]])
        else:
            known = by_scipy(y=curve - SIGMA * centred[drawn[k]])
        got = [found.values[name][k] for name in ("amplitude", "rate", "offset")]
        np.testing.assert_allclose(got, known, rtol=1e-5)
    np.testing.assert_allclose(found.values["half"], np.log(2) / found.values["rate"], rtol=1e-12)
    assert found.failed == 0 and "bias" in repr(found)
    errors = found.standard_errors()
    np.testing.assert_allclose(errors["rate"], np.std(found.values["rate"], ddof=1))
    low, high = found.confidence_intervals(0.9)["rate"]
    assert low < fit.values["rate"] < high
    assert found.correlation(["rate", "half"])[0, 1] < -0.99


@pytest.mark.by_day(None)
def test_bootstrap_with_a_prior_and_robust_losses():
    def residuals(p, x, y):
        return [decay(x, **p)[:10] - y[:10], decay(x, **p)[10:] - y[10:]]

    given = params(offset={"value": 0.0, "prior": (0.4, 0.05)})
    fit = tfjac.least_squares(residuals, given, args=(X, Y), loss="huber", loss_scale=0.05, ftol=1e-13, xtol=1e-13)
    found = fit.bootstrap(20, seed=1)
    residuals = fit.residuals()
    centred = centred_by_huber(residuals * np.sqrt(30 / fit.degrees_of_freedom), 0.05)
    drawn = np.random.default_rng(1).integers(30, size=[20, 30])
    changed = Y + residuals - centred[drawn[5]]

    def cost(b):
        size = np.abs(left(b, y=changed, sigma=1.0))
        robust = np.where(size < 0.05, size**2, 2 * 0.05 * size - 0.05**2)
        return np.sum(robust) / 2 + ((b[2] - 0.4) / 0.05) ** 2 / 2

    known = scipy.optimize.minimize(cost, [2.5, 1.3, 0.5], method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose([found.values[name][5] for name in given], known, rtol=1e-4)


def centred_by_huber(residuals, scale):
    influence = lambda c: np.sum(np.clip(residuals - c, -scale, scale))  # noqa: E731
    return residuals - scipy.optimize.brentq(influence, residuals.min(), residuals.max(), xtol=1e-15)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("loss", ["huber", "tukey"])
def test_bootstrap_of_a_robust_fit_is_about_what_the_fit_found(loss):
    """Outliers are drawn too, and count as little as they did: the interval is that of repeated experiments."""
    x, scale, found = np.linspace(0.5, 3, 40), {"huber": 1.5, "tukey": 4.7}[loss], []

    def psi(z):
        return np.clip(z, -scale, scale) if loss == "huber" else z * (1 - np.minimum((z / scale) ** 2, 1)) ** 2

    def experiment(seed):
        y = x + np.random.default_rng(seed).normal(scale=0.05, size=40)
        y[::8] += 5
        return y

    for seed in range(60):
        y = experiment(seed)
        found.append(scipy.optimize.brentq(lambda a, y=y: np.sum(psi((a * x - y) / 0.05) * x), 0.9, 1.1))
    options = {"sigma": 0.05, "loss": loss, "loss_scale": scale}
    again = tfjac.curve_fit(lambda x, a: a * x, x, experiment(0), p0=tfjac.Parameters(a=1.0), **options).bootstrap(100)
    assert again.failed == 0 and abs(again.bias()["a"]) < 0.3 * np.std(found)
    np.testing.assert_allclose(again.standard_errors()["a"], np.std(found), rtol=0.35)
    low, high = again.confidence_intervals()["a"]
    assert low < np.mean(found) < high


def test_residuals_are_drawn_from_those_with_the_same_loss():
    """Those of the second tensor are a thousand times as large, with another loss: none comes into the first."""
    y = np.concatenate([Y[:15], Y[15:] + np.random.default_rng(5).normal(scale=50.0, size=15)])

    def residuals(p):
        return [decay(X, **p)[:15] - y[:15], (decay(X, **p)[15:] - y[15:])]

    given = params(offset={"value": 0.5, "prior": (0.5, 0.1)})
    fit = tfjac.least_squares(residuals, given, loss=[None, "huber"], loss_scale=[None, 0.01])
    again = fit.bootstrap(40)
    assert again.failed < 10 and again.standard_errors()["amplitude"] < 0.2


@pytest.mark.by_day(None)
def test_bootstrap_with_a_covariance_matrix():
    covariance = 0.05**2 * np.exp(-np.abs(X[:, None] - X) / 0.2)
    fit = fitted(sigma=covariance)
    assert fit.bootstrap(10).failed == 0
    with pytest.raises(ValueError, match=r"kind='residuals'"):
        fit.bootstrap(10, "pairs")
    with pytest.raises(ValueError, match=r"at least two fits"):
        fit.bootstrap(1)


# ------------------------------------------------------------------ many starts

WAVES = 1.5 * np.sin(3.1 * X + 0.4) + np.random.default_rng(1).normal(scale=0.05, size=30)
RANGES = {"amplitude": (0.0, 5.0), "frequency": (0.5, 9.0), "shift": (-3.2, 3.2)}


def wave(x, amplitude, frequency, shift):
    return amplitude * tf.sin(frequency * x + shift)


def waves_from(value):
    return tfjac.Parameters({name: {"value": value, "min": low, "max": high} for name, (low, high) in RANGES.items()})


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("way", ["curve_fit", "least_squares"])
def test_many_starts_find_the_basin_that_one_misses(way, tmp_path):
    given = waves_from(0.7)
    if way == "curve_fit":
        one = tfjac.curve_fit(wave, X, WAVES, p0=given)
        fit = tfjac.curve_fit(wave, X, WAVES, p0=given, n_starts=30, seed=2)
    else:
        one = tfjac.least_squares(lambda p: wave(X, **p) - WAVES, given)
        fit = tfjac.least_squares(lambda p: wave(X, **p) - WAVES, given, n_starts=30, seed=2)
    assert fit.cost < one.cost / 5 and one.starts is None
    np.testing.assert_allclose(fit.values["frequency"], 3.1, atol=0.05)
    starts = fit.starts
    assert starts.costs.shape == (30,) and np.array_equal(starts.starts[0], [0.7] * 3)
    low, high = np.transpose(list(RANGES.values()))
    assert np.all((starts.starts >= low) & (starts.starts <= high) & (starts.ends >= low) & (starts.ends <= high))
    np.testing.assert_allclose(starts.costs.min(), fit.cost, rtol=1e-6)
    for end, cost in zip(starts.ends, starts.costs):
        np.testing.assert_allclose(np.sum((end[0] * np.sin(end[1] * X + end[2]) - WAVES) ** 2) / 2, cost, rtol=1e-9)
    basins = starts.basins()
    assert basins.max() >= 2 and np.array_equal(np.argsort(starts.costs[basins == 0]).shape, [np.sum(basins == 0)])
    assert "basins" in repr(starts) and "30 starts" in fit.summary()
    left_axes, right_axes = starts.plot(("frequency", "shift"))
    assert right_axes.get_xlabel() == "frequency" and left_axes.collections
    left_axes.figure.savefig(tmp_path / "basins.png")
    with pytest.raises(ValueError, match=r"a pair of amplitude, frequency, shift"):
        starts.plot(("phase", "shift"))


def test_starts_need_bounds_or_priors():
    given = tfjac.Parameters(
        amplitude={"value": 1, "min": 0, "max": 5}, frequency=1.0, shift={"value": 0, "vary": False}
    )
    with pytest.raises(ValueError, match=r"give the parameter min and max, or a prior. Received: 'frequency'"):
        tfjac.curve_fit(wave, X, WAVES, p0=given, n_starts=5)
    given["frequency"].set(prior=(3.0, 1.0))
    starts = drawn(given.layout(), 500, np.random.default_rng(0))
    assert np.array_equal(starts[0], [1, 1, 0]) and np.all(starts[:, 2] == 0)
    assert starts[:, 0].min() >= 0 and starts[:, 0].max() <= 5 and abs(starts[:, 0].mean() - 2.5) < 0.2
    assert abs(starts[:, 1].mean() - 3) < 0.2 and abs(starts[:, 1].std() - 1) < 0.1
    with pytest.raises(ValueError, match=r"n_starts must be an integer"):
        tfjac.curve_fit(wave, X, WAVES, p0=given, n_starts=0)


# ------------------------------------------------------------------ several data sets


@pytest.mark.by_day(None)
def test_data_sets_of_other_lengths_with_ties_of_their_own():
    rng = np.random.default_rng(4)
    xs = [np.linspace(0, 4, 25), np.linspace(0, 3, 40)]
    ys = [a * np.exp(-1.3 * x) + c + rng.normal(scale=0.05, size=x.size) for x, a, c in zip(xs, (2, 4), (0.5, 1))]
    given = tfjac.Parameters(
        amplitude=1.0, rate=1.0, offset=0.0, total="amplitude + offset", life=lambda rate: 1 / rate
    )
    fit = fit_together(decay, xs, ys, given, shared=["rate", "life"], sigma=[0.05, 0.1])

    def residuals(b):
        first = (b[1] * np.exp(-b[0] * xs[0]) + b[2] - ys[0]) / 0.05
        return np.concatenate([first, (b[3] * np.exp(-b[0] * xs[1]) + b[4] - ys[1]) / 0.1])

    known = scipy.optimize.least_squares(residuals, [1, 1, 0, 1, 0], xtol=1e-14, ftol=1e-14)
    names = ["rate", "amplitude_1", "offset_1", "amplitude_2", "offset_2"]
    np.testing.assert_allclose([fit.values[name] for name in names], known.x, rtol=1e-5)
    covariance = np.linalg.inv(known.jac.T @ known.jac) * 2 * known.cost / 60
    errors = fit.standard_errors()
    np.testing.assert_allclose([errors[name] for name in names], np.sqrt(np.diag(covariance)), rtol=1e-3)
    assert fit.values["total_2"] == fit.values["amplitude_2"] + fit.values["offset_2"]
    assert fit.values["life"] == 1 / fit.values["rate"]
    assert np.isfinite(fit.conf_interval("rate", sigmas=[2])["rate"]).all()
    starts = [params(amplitude=value) for value in (2.0, 4.0)]
    other = fit_together(decay, xs, ys, starts, shared=["rate"], sigma=[0.05, 0.1])
    np.testing.assert_allclose(other.cost, fit.cost, rtol=1e-8)


def test_data_sets_that_do_not_go_together():
    with pytest.raises(ValueError, match=r"Received: 1 xdata, 2 ydata, 2 params, 2 sigma"):
        fit_together(decay, [X], [Y, Y], params(), shared=["rate"])
    with pytest.raises(KeyError, match=r"Did you mean 'rate'"):
        fit_together(decay, [X, X], [Y, Y], params(), shared=["rates"])
