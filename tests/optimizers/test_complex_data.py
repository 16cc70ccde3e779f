"""Complex data and residuals: both parts are fitted. The oracle is SciPy's fit of the parts, one after the other."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

import tfjac
from tfjac.parameters import fit_together

X = np.linspace(0.0, 3.0, 30)
NOISE = np.random.default_rng(0)
Y = 2.0 * np.exp((-0.7 + 2j) * X) + 0.05 * (NOISE.normal(size=30) + 3j * NOISE.normal(size=30))
START = [1.0, 1.0, 1.5]
WIDTHS = 0.05 + 0.02 * X
TIGHT = {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}


def ringing(x, height, rate, frequency):
    return tf.cast(height, tf.complex128) * tf.exp(tf.complex(-rate, frequency) * tf.cast(x, tf.complex128))


def stacked(b, y=Y, x=X):
    left = b[0] * np.exp((-b[1] + 1j * b[2]) * x) - y
    return np.concatenate([left.real, left.imag])


def by_scipy(whiten, absolute, y=Y, x=X):
    found = scipy.optimize.least_squares(lambda b: whiten @ stacked(b, y, x), START, **TIGHT)
    variance = 1 if absolute else 2 * found.cost / (found.fun.size - 3)
    return found.x, variance * np.linalg.inv(found.jac.T @ found.jac)


def whitening(covariance):
    return np.linalg.inv(np.linalg.cholesky(covariance))


ALONG = 0.05**2 * np.exp(-np.abs(X[:, None] - X))
BOTH = np.kron(np.array([[1.0, 0.4], [0.4, 9.0]]), ALONG)
SIGMAS = {
    "none": (None, np.eye(60)),
    "number": (0.1, np.eye(60) / 0.1),
    "of each value": (WIDTHS, np.diag(np.tile(1 / WIDTHS, 2))),
    "of each part": (WIDTHS + 3j * WIDTHS, np.diag(1 / np.concatenate([WIDTHS, 3 * WIDTHS]))),
    "covariance of either part": (ALONG, whitening(np.kron(np.eye(2), ALONG))),
    "covariance of both parts": (BOTH, whitening(BOTH)),
}


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_curve_fit(sigma, absolute):
    given, whiten = SIGMAS[sigma]
    popt, pcov = by_scipy(whiten, absolute)
    fit = tfjac.curve_fit(ringing, X, Y, START, given, absolute, **TIGHT)
    np.testing.assert_allclose(fit.popt, popt, rtol=1e-6)
    np.testing.assert_allclose(fit.pcov, pcov, rtol=1e-4, atol=1e-6 * pcov.max())
    np.testing.assert_allclose(fit.predict([0.5]), popt[0] * np.exp((-popt[1] + 1j * popt[2]) * np.array([0.5])))


def test_what_is_told_of_the_curve():
    fit = tfjac.curve_fit(ringing, X, Y, START, **TIGHT)
    left = np.abs(stacked(fit.popt) ** 2).sum()
    np.testing.assert_allclose(fit.r_squared(), 1 - left / np.sum(np.abs(Y - Y.mean()) ** 2), rtol=1e-9)
    lower, upper = fit.confidence_band(level=0.95)
    slopes = scipy.optimize.approx_fprime(fit.popt, stacked, 1e-7)
    reach = scipy.stats.t.ppf(0.975, 57) * np.sqrt(np.einsum("ri,ij,rj->r", slopes, fit.pcov, slopes))
    np.testing.assert_allclose(np.concatenate([(upper - lower).real, (upper - lower).imag]) / 2, reach, rtol=1e-3)
    wider, _ = fit.prediction_band(sigma=0.1 + 0.2j)
    assert np.iscomplexobj(wider) and np.all(wider.real < lower.real) and fit.ydata is not None
    with pytest.raises(ValueError, match="Complex values are no curve"):
        tfjac.plot_fit(fit)


def test_a_single_number_and_functions_of_arrays():
    """1 + 2i for all values of f; and an f that NumPy computes from x."""
    fit = tfjac.curve_fit(lambda x, a, b: tf.complex(a * np.sin(x), b * np.cos(x)), X, 1 + 2j)
    known = np.sum(np.sin(X)) / np.sum(np.sin(X) ** 2), 2 * np.sum(np.cos(X)) / np.sum(np.cos(X) ** 2)
    np.testing.assert_allclose(fit.popt, known, rtol=1e-6)


@pytest.mark.by_day(None)
def test_named_parameters_and_data_sets():
    given = tfjac.Parameters(height=1.0, rate=1.0, frequency=1.5)
    popt, pcov = by_scipy(np.eye(60), False)
    fit = tfjac.curve_fit(ringing, X, Y, p0=given, **TIGHT)
    np.testing.assert_allclose(list(fit.values.values()), popt, rtol=1e-6)
    for kind in ("residuals", "pairs"):
        errors = fit.bootstrap(60, kind).standard_errors()
        np.testing.assert_allclose(list(errors.values()), np.sqrt(np.diag(pcov)), rtol=0.5)
    both = fit_together(ringing, [X[:18], X[18:]], [Y[:18], Y[18:]], given, shared=list(given), **TIGHT)
    np.testing.assert_allclose(list(both.values.values()), popt, rtol=1e-6)
    np.testing.assert_allclose(list(both.standard_errors().values()), np.sqrt(np.diag(pcov)), rtol=1e-4)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_residuals(dtype):
    """Also as one tensor of several, for many fits at once, with the data as an argument, and by parts."""
    popt, _ = by_scipy(np.eye(60), False)
    rtol = 1e-3 if dtype == tf.float32 else 1e-6
    kind = tf.complex64 if dtype == tf.float32 else tf.complex128

    def left(b, x, y):
        rate = tf.complex(-b[..., 1:2], b[..., 2:3])
        return tf.cast(b[..., :1], kind) * tf.exp(rate * tf.cast(x, kind)) - y

    b = tf.Variable(START, dtype=dtype)
    found = tfjac.least_squares(lambda y: [left(b, X, y), 1e-9 * b], b, args=(Y,))
    np.testing.assert_allclose(found.x, popt, rtol=rtol)
    assert found.num_residuals == 63
    many = tf.Variable(np.tile(START, [3, 1]), dtype=dtype)
    factors = np.array([1.0, 2.0, -1.0])[:, None]
    found = tfjac.least_squares(lambda b, y: left(b, X, y), many, args=(factors * Y,), batch_dims=1)
    np.testing.assert_allclose(found.x, popt * np.concatenate([factors, np.ones([3, 2])], axis=1), rtol=rtol)
    b.assign(popt)
    sums = tfjac.normal_equations(lambda y: left(b, X, y), b, args=(Y,))
    np.testing.assert_allclose(2 * sums.cost, np.sum(stacked(popt) ** 2), rtol=1e-5)


def test_what_is_of_the_other_kind_is_refused():
    real = Y.real
    with pytest.raises(TypeError, match=r"Received: real ydata, f of complex128"):
        tfjac.curve_fit(ringing, X, real, START)
    with pytest.raises(TypeError, match=r"Received: complex ydata, f of float64"):
        tfjac.curve_fit(lambda x, a, b: a * x + b, X, Y)
    with pytest.raises(TypeError, match=r"p0 must be real numbers"):
        tfjac.curve_fit(ringing, X, Y, [1j, 1, 1])
    with pytest.raises(TypeError, match=r"sigma must be real numbers"):
        tfjac.curve_fit(lambda x, a, b: a * x + b, X, real, sigma=WIDTHS + 1j)
    with pytest.raises(ValueError, match=r"a real matrix is the covariance of either part"):
        tfjac.curve_fit(ringing, X, Y, START, sigma=ALONG.astype(complex))
    with pytest.raises(ValueError, match=r"deviations, which are positive"):
        tfjac.curve_fit(ringing, X, Y, START, sigma=WIDTHS.astype(complex))
    b = tf.Variable([1.0, 1.0])
    with pytest.raises(TypeError, match=r"bounds must be real numbers"):
        tfjac.least_squares(lambda: b - 1.0, b, bounds=(None, 1j))
    with pytest.raises(ValueError, match=r"ydata must be finite"):
        tfjac.curve_fit(ringing, X, np.where(X > 2, complex(0, np.nan), Y), START)
