"""What programs written for SciPy's `curve_fit` and `least_squares` rely on, with SciPy itself as the oracle.

The behaviours are those that SciPy's own tests hold; programs, data and words are ours.
"""

import functools
import warnings

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

import tfjac

X = np.linspace(0, 4, 50)
Y = 2.5 * np.exp(-1.3 * X) + 0.5 + 0.2 * np.random.default_rng(7).normal(size=50)
PLANE = np.stack([X, np.cos(X)])
TIGHT = {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}
LARGE = np.inf


def decay(x, a, b, c):
    return a * tf.exp(-b * x) + c


def line(x, a, b):
    return a * x + b


def power(x, a, b):
    return b * x**a


def rows(x, a, b):
    first, second = x
    return a * first + b * second


def roots(x, a, b):
    return a * np.sqrt(x) + b * np.mean(x)


def axes(x, a, b):
    return a * x[..., 0, :] + b + x[..., 1, :]


def numpy_of(f):
    """Return a model of TensorFlow's as one of NumPy's."""
    return functools.wraps(f)(lambda x, *p: np.asarray(f(x, *map(np.float64, p))))


def both(f, x, y, p0=None, scipy=None, **options):
    """Return what tfjac and SciPy find, `popt, pcov` each; `scipy` are options for SciPy alone."""
    ours = tfjac.curve_fit(f, x, y, p0, **{**TIGHT, **options})
    theirs = scipy_fit(
        numpy_of(f), x, y, p0, **{"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15, **options, **(scipy or {})}
    )
    return ours, theirs


def scipy_fit(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return scipy.optimize.curve_fit(*args, **options)


def same(f, x, y, p0=None, rtol=1e-5, **options):
    ours, theirs = both(f, x, y, p0, **options)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=rtol, atol=1e-7)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=10 * rtol, atol=1e-9 * np.abs(theirs[1]).max())


FOUR = np.array([1.0, 2.0, 3.0, 4.0])
VALUES = np.array([1.0, 3.2, 9.5, 13.7])
SIX, NOISY = np.arange(6.0), np.array([1.0, 1, 5, 7, 8, 12])
DOUBLE = np.tile([1.0, 2.0], 3)

FITS = {
    "one parameter": (lambda x, a: x**a, FOUR, VALUES),
    "two parameters": (power, FOUR, VALUES),
    "the documentation's": (decay, X, Y),
    "within bounds": (decay, X, Y, None, {"bounds": (0, [3.0, 1.0, 0.5])}),
    "from one bound": (decay, X, Y, None, {"bounds": ([0, 0, -LARGE], [LARGE, LARGE, 2])}),
    "by a sequence": (line, [1, 2, 3, 4], [3, 5, 7, 10]),
    "of integers": (line, np.arange(-3, 5), np.arange(8) ** 2),
    "of float32": (line, np.arange(-3, 5, dtype="float32"), np.arange(8, dtype="float32") ** 2),
    "several deviations": (line, SIX, NOISY, [2, 0], {"sigma": DOUBLE}),
    "absolute ones": (line, SIX, NOISY, [2, 0], {"sigma": 3 * DOUBLE, "absolute_sigma": True}),
    "one deviation": (line, FOUR, VALUES, None, {"sigma": 2.0, "absolute_sigma": True}),
    "a covariance": (line, SIX, NOISY, None, {"sigma": np.diag(DOUBLE) + 0.5, "absolute_sigma": True}),
    "two rows": (rows, PLANE, Y),
    "NumPy of the data": (roots, X, Y),
    "y is zero": (lambda x, a, b: a * x**2 + b * x - Y, X, 0),
    "any number of parameters": (lambda x, *p: p[0] * x + p[1], X, Y, [1.0, 5.0]),
    "robust": (decay, X, Y, None, {"loss": "soft_l1", "f_scale": 0.1, "method": "trf"}),
    "squares by name": (decay, X, Y, None, {"loss": "linear", "method": "trf"}),
    "scales from derivatives": (decay, X, Y, None, {"x_scale": "jac", "method": "trf"}),
    "scales of one": (decay, X, Y, None, {"x_scale": 1.0, "method": "trf"}),
    "evaluations, as MINPACK says": (decay, X, Y, None, {"maxfev": 1000}),
    "evaluations": (decay, X, Y, None, {"max_nfev": 1000, "method": "trf"}),
    "steps by differences": (decay, X, Y, None, {"jac": "3-point", "method": "dogbox"}),
}


OF_OUR_OWN = {"within bounds", "robust"}
"""Covariances are not SciPy's: a parameter that a bound holds counts as known, and Huber's are those of outliers."""


@pytest.mark.by_day(one_in=12)
@pytest.mark.parametrize("name", FITS)
def test_fits(name):
    f, x, y, p0, options = (*FITS[name], None, {})[:5] if len(FITS[name]) == 3 else (*FITS[name], {})[:5]
    if name in OF_OUR_OWN:
        ours, theirs = both(f, x, y, p0, **options)
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
    else:
        same(f, x, y, p0, **options)


@pytest.mark.parametrize("method", ["lm", "trf", "dogbox", None])
def test_methods_by_name(method):
    same(decay, X, Y, method=method)


@pytest.mark.parametrize("absolute", [False, True])
def test_deviations_as_a_vector_and_as_a_matrix(absolute):
    sigma = 0.2 * (1 + X)
    vector = tfjac.curve_fit(decay, X, Y, sigma=sigma, absolute_sigma=absolute, **TIGHT)
    matrix = tfjac.curve_fit(decay, X, Y, sigma=np.diag(sigma**2), absolute_sigma=absolute, **TIGHT)
    np.testing.assert_allclose(vector[0], matrix[0], rtol=1e-6)
    np.testing.assert_allclose(vector[1], matrix[1], rtol=1e-5)


def test_peaks_far_from_zero():
    """Positions of 574 with a width of 0.01: differences would drown in rounding."""
    x = 574.142 + np.linspace(0, 0.103, 10)
    y = np.array([859.0, 997, 1699, 2604, 2013, 1964, 2435, 1550, 949, 841])
    guess = [574.1861428571428, 574.2155714285715, 1302.0, 1302.0, 0.0035019999999983615, 859.0]

    def peaks(x, first, second, high, higher, width, ground):
        return sum(h * tf.exp(-((x - p) ** 2) / (2 * width**2)) for h, p in ((high, first), (higher, second))) + ground

    ours, theirs = both(peaks, x, y, guess, scipy={"maxfev": 10000})
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
    np.testing.assert_allclose(np.diag(ours[1]), np.diag(theirs[1]), rtol=1e-2)


def test_a_method_of_an_object():
    class Holder:
        def model(self, x, a, b):
            return power(x, a, b)

    theirs = scipy_fit(power, FOUR, VALUES)
    np.testing.assert_allclose(tfjac.curve_fit(Holder().model, FOUR, VALUES)[0], theirs[0], rtol=1e-4)


def test_no_xdata_at_all():
    assert tfjac.curve_fit(lambda _, a: a * np.arange(10), None, 2 * np.arange(10))[0] == pytest.approx(2)


BOX = ([1.0, 0], [1.5, 3.0])


@pytest.mark.parametrize("bounds", [BOX, list(BOX), np.array(BOX), scipy.optimize.Bounds(*BOX)], ids=type)
def test_forms_of_bounds(bounds):
    x = np.linspace(0, 1, 11)
    ours, theirs = both(lambda x, a, b: a * tf.exp(-b * x), x, 2 * np.exp(-2 * x), bounds=bounds)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
    assert ours[0][0] == 1.5


def test_a_start_is_not_forgotten_within_bounds():
    x = np.linspace(-2 * np.pi, 2 * np.pi, 40)
    found = tfjac.curve_fit(lambda x, a: tf.sin(x + a), x, np.sin(x), 2.1 * np.pi, bounds=(-3 * np.pi, 3 * np.pi))
    np.testing.assert_allclose(found[0], 2 * np.pi)


WITH_NAN = np.array([1.0, 2, np.nan, 3, 5, np.nan, 10])
LINES = np.array([[2.0, 3, 4, 4, np.nan, 6, 5], [2, 3, 4, 5, 4, 4, 7]])


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("case", [(line, LINES[0]), (axes, LINES), (axes, LINES[None])], ids=["1-D", "2-D", "3-D"])
def test_missing_values(case):
    f, x = case
    options = {"nan_policy": "omit", "sigma": np.linspace(1, 2, 7), "p0": [1, 1]}
    theirs = scipy_fit(lambda x, a, b: numpy_of(f)(x, a, b).reshape(-1), x, WITH_NAN, **options)
    found = tfjac.curve_fit(lambda x, a, b: tf.reshape(f(x, a, b), [-1]), x, WITH_NAN, **options)
    np.testing.assert_allclose(found[0], theirs[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], theirs[1], rtol=1e-4)
    for refused in ({}, {"check_finite": True}, {"nan_policy": "raise"}, {"nan_policy": "propagate"}):
        with pytest.raises(ValueError, match=r"finite|nan_policy"):
            tfjac.curve_fit(f, x, WITH_NAN, **refused)
    with pytest.warns(UserWarning, match=r"not finite|NaN|infinit"):
        assert not tfjac.curve_fit(line, LINES[0], WITH_NAN, check_finite=False).success


def test_missing_values_with_a_covariance():
    sigma = np.diag(np.linspace(1, 2, 7)) + 0.1
    options = {"nan_policy": "omit", "sigma": sigma, "absolute_sigma": True}
    for ours, theirs in zip(
        tfjac.curve_fit(line, LINES[0], WITH_NAN, **options), scipy_fit(line, LINES[0], WITH_NAN, **options)
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_what_it_unpacks_to():
    found = tfjac.curve_fit(decay, X, Y)
    assert len(found) == 2 and len(found[:]) == 2
    popt, pcov = found
    assert found[0] is popt and found[-1] is pcov and popt is found.x
    with pytest.raises(IndexError):
        found[2]
    popt, pcov, infodict, mesg, ier = tfjac.curve_fit(decay, X, Y, full_output=True)
    theirs = scipy_fit(numpy_of(decay), X, Y, full_output=True)
    np.testing.assert_allclose(infodict["fvec"], theirs[2]["fvec"], atol=1e-5)
    assert infodict["nfev"] > 0 and isinstance(mesg, str) and ier in (1, 2, 3, 4)
    with pytest.warns(UserWarning, match="max_steps"):
        assert tfjac.curve_fit(decay, X, Y, maxfev=1, full_output=True)[4] == 5


def test_bands_of_a_model_that_takes_arrays():
    found = tfjac.curve_fit(rows, PLANE, Y)
    np.testing.assert_allclose(found.predict(PLANE[:, :3]), found[0] @ PLANE[:, :3])
    spread = np.sqrt(np.einsum("ix,ij,jx->x", PLANE, found[1], PLANE))
    lower, upper = found.confidence_band()
    np.testing.assert_allclose((upper - lower) / spread, 2 * scipy.stats.t.ppf(0.975, 48))


def test_columns_of_objects():
    columns = X.astype(object), Y.astype(object)
    theirs, _ = scipy.optimize.curve_fit(line, *columns)
    np.testing.assert_allclose(tfjac.curve_fit(line, *columns).popt, theirs, rtol=1e-6)


REFUSED = {
    "no data": (lambda: tfjac.curve_fit(line, [], []), ValueError, "nothing to fit"),
    "no parameters": (lambda: tfjac.curve_fit(lambda x: x, [1, 2], [3, 4]), ValueError, "pass p0"),
    "a method that there is not": (lambda: tfjac.curve_fit(line, X, Y, method="unknown"), ValueError, "'dogbox'"),
    "lm with bounds": (lambda: tfjac.curve_fit(line, X, Y, method="lm", bounds=(0, 1)), ValueError, "leave method out"),
    "a Jacobian": (lambda: tfjac.curve_fit(line, X, Y, jac=lambda x, a, b: x), TypeError, "derivatives of f are exact"),
    "more arguments": (lambda: tfjac.curve_fit(line, X, Y, args=(1,)), TypeError, "lambda x, a, b"),
    "scales": (lambda: tfjac.curve_fit(line, X, Y, x_scale=[1, 2]), TypeError, "choose by scaling"),
    "differences": (lambda: tfjac.curve_fit(line, X, Y, epsfcn=1e-3), TypeError, "derivatives are exact"),
    "start outside": (lambda: tfjac.curve_fit(line, X, Y, [9, 9], bounds=(0, 1)), ValueError, "p0 must be within"),
    "a pair for each of two": (
        lambda: tfjac.curve_fit(line, X, Y, bounds=[(0, 5), (0, 5)]), ValueError, r"no parameter free.*zip\(\*bounds\)",
    ),
    "a pair for each of three": (
        lambda: tfjac.curve_fit(decay, X, Y, bounds=[(0, 5)] * 3), ValueError, r"a pair \(lower, upper\).*zip",
    ),
    "bounds of others": (lambda: tfjac.curve_fit(line, X, Y, bounds=([0] * 3, [1] * 3)), ValueError, "one for each"),
    "a pair for each of two, crossed": (
        lambda: tfjac.curve_fit(line, X, Y, bounds=[(0, 5), (0, 1)]), ValueError, r"a pair \(lower, upper\).*zip",
    ),
    "many rows": (lambda: tfjac.curve_fit(line, X, [Y, Y], batch_dims=1), TypeError, r"batch_dims.*Parameters\(a="),
    "many starts": (lambda: tfjac.curve_fit(line, X, Y, n_starts=5), TypeError, r"n_starts.*Parameters\(a="),
    "a misspelt argument": (lambda: tfjac.curve_fit(line, X, Y, absolut_sigma=1), TypeError, "mean 'absolute_sigma'"),
    "a misspelt option": (lambda: tfjac.curve_fit(line, X, Y, max_step=1), TypeError, "mean 'max_steps'"),
    "few numbers in p0": (lambda: tfjac.curve_fit(decay, X, Y, [1, 1]), ValueError, r"decay\(x, a, b, c\), p0 of 2"),
    "many numbers in p0": (lambda: tfjac.curve_fit(decay, X, Y, [1] * 4), ValueError, r"decay\(x, a, b, c\), p0 of 4"),
    "NumPy of parameters": (
        lambda: tfjac.curve_fit(lambda x, a: np.exp(-a * x), X, Y), TypeError, "tf.exp, not np.exp",
    ),
    "an error of the model's": (lambda: tfjac.curve_fit(lambda x, a: a * {}["c"], X, Y), KeyError, "c"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, kind, says = REFUSED[name]
    with pytest.raises(kind, match=says) as raised:
        call()
    assert "inner_factory" not in str(raised.value)


# ------------------------------------------------------------------ least_squares


def rosenbrock(x):
    return tf.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def boundary_value(x):
    u = tf.pad(tf.reshape(x, [4, 4]), [[1, 1], [1, 1]])
    inner = tf.reshape(x, [4, 4])
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * inner + inner**3


def broyden(x):
    return (3 - x) * x + 1 - tf.concat([[0.0], x[:-1]], 0) - 2 * tf.concat([x[1:], [0.0]], 0)


def minimised(f, start, **options):
    variable = tf.Variable(np.asarray(start, np.float64))
    return tfjac.least_squares(lambda: f(variable), variable, **options)


def scipy_minimised(f, start, **options):
    options = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15, **options}
    return scipy.optimize.least_squares(lambda x: np.ravel(f(tf.constant(x))), start, **options)


STARTS = {
    "free": ([-2.0, 1.0], None),
    "below": ([-2.0, 1.0], ([-LARGE, -1.5], LARGE)),
    "active below": ([2.0, 2.0], ([-LARGE, 1.5], LARGE)),
    "from the other side": ([-2.0, 2.0], ([-LARGE, 1.5], LARGE)),
    "two sides": ([0.0, 2.0], ([-LARGE, 1.5], [1.0, LARGE])),
    "in a box": ([2.0, 2.0], ([1.0, 1.5], [3.0, 3.0])),
    "active above": ([-1.2, 1.0], ([-50.0, 0.0], [0.5, 100.0])),
}


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("name", STARTS)
def test_rosenbrock_within_bounds(name):
    start, bounds = STARTS[name]
    found = minimised(rosenbrock, start, bounds=bounds, **TIGHT)
    theirs = scipy_minimised(rosenbrock, start, bounds=bounds or (-LARGE, LARGE))
    assert found.cost <= theirs.cost * (1 + 1e-6) + 1e-12
    np.testing.assert_allclose(found.x, theirs.x, atol=1e-4)
    np.testing.assert_array_equal(found.active, theirs.active_mask)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize(
    "bounds", [(0.5, 3.0), (-1.0, 3.0), scipy.optimize.Bounds(lb=1.0), scipy.optimize.Bounds(ub=-1.0)], ids=str
)
def test_a_bound_that_holds(bounds):
    start = -3.0 if getattr(bounds, "ub", 0) == -1 else 2.0
    f = lambda x: (x + 5) ** 2 * 0 + x**2 + 5.0  # noqa: E731 - its residual is least at zero
    theirs = scipy_minimised(f, [start], bounds=bounds)
    np.testing.assert_allclose(minimised(f, [start], bounds=bounds).x, theirs.x, atol=1e-3)


@pytest.mark.parametrize("tolerance", ["ftol", "xtol", "gtol"])
def test_one_tolerance_alone(tolerance):
    options = {"ftol": 0, "xtol": 0, "gtol": 0, tolerance: 1e-8}
    np.testing.assert_allclose(minimised(rosenbrock, [-2.0, 1.0], **options).x, [1, 1])


@pytest.mark.by_day(None)
def test_systems_of_equations():
    for f, start in ((boundary_value, np.ones(16)), (broyden, -np.ones(100))):
        found = minimised(f, start)
        assert found.cost < 1e-10
    np.testing.assert_allclose(found.x, scipy_minimised(broyden, -np.ones(100)).x, atol=1e-6)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("loss", ["huber", "soft_l1", "cauchy", "arctan"])
def test_outliers(loss):
    x = np.linspace(-1, 1, 11)
    y = 1 + np.exp(0.1 * x) + 0.1 * np.random.default_rng(3).normal(size=11)
    y[4] += 4
    f = lambda p: p[0] + tf.exp(p[1] * x) - y  # noqa: E731
    found = minimised(f, [0.0, 0.0], loss=loss, loss_scale=0.1, **TIGHT)
    theirs = scipy_minimised(f, [0.0, 0.0], loss=loss, f_scale=0.1)
    np.testing.assert_allclose(found.x, theirs.x, atol=1e-5)
    assert np.linalg.norm(found.x - [1, 0.1]) < np.linalg.norm(scipy_minimised(f, [0.0, 0.0]).x - [1, 0.1])


def test_single_precision():
    generator = np.random.default_rng(5)
    x, y = np.linspace(0, 1, 100, dtype="float32"), generator.random(100, dtype="float32")
    p = tf.Variable([-1.0, -1.0])
    found = tfjac.least_squares(lambda: p[0] + p[1] * x - y, p)
    np.testing.assert_allclose(found.x, np.polyfit(x, y, 1)[::-1], atol=1e-4)


def test_next_to_the_solution():
    """A tiny unknown, whose residual is far below rounding of one: the end is no farther than the start."""
    found = minimised(lambda x: (x - 1e-12) ** 2, [1.1e-12], gtol=1e-15, bounds=(0, LARGE))
    assert abs(found.x[0] - 1e-12) <= 1e-13 and found.success


def test_a_start_at_its_bound():
    t = 0.1 * np.arange(120)
    y = np.round(0.02 * np.exp(0.7 * (t - 1)))
    f = lambda p: p[0] * tf.exp(p[1] * (t - p[2])) - y  # noqa: E731
    found = minimised(f, [0.01, 1.0, 5.0], bounds=([0.01, 0, 0], [LARGE, 10, 20.9]))
    theirs = scipy_minimised(f, [0.01, 1.0, 5.0], bounds=([0.01, 0, 0], [LARGE, 10, 20.9]), ftol=1e-10, xtol=1e-10)
    assert found.success and found.cost <= theirs.cost * (1 + 1e-4)
