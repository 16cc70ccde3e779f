"""Minima where columns of J vanish: with one residual, the cosine of its angle with J is one wherever that is."""

import functools
import warnings

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac.optimizers import Status, least_squares

MINIMA = {
    "square": (lambda x: x**2 + 5, [0.0]),
    "square elsewhere": (lambda x: (x - 1) ** 2 + 3, [1.0]),
    "fourth power": (lambda x: x**4 + 1, [0.0]),
    "hyperbolic cosine": (lambda x: tf.cosh(x - 0.3), [0.3]),
    "two residuals": (lambda x: tf.concat([x**2 + 1, x**2 + 2], axis=0), [0.0]),
}


@pytest.mark.by_day(one_in=15)
@pytest.mark.parametrize("name", MINIMA)
@pytest.mark.parametrize("start", [2.0, -7.0])
@pytest.mark.parametrize("damping", [None, "radius", "nielsen"])
def test_such_a_minimum_is_success(name, start, damping):
    function, known = MINIMA[name]
    x = tf.Variable([start], dtype=tf.float64)
    result = least_squares(lambda: function(x), x, damping=damping)
    assert result.success, result.status
    np.testing.assert_allclose(x.numpy(), known, atol=1e-3 if name == "fourth power" else 1e-7)
    assert result.undetermined.all()


@pytest.mark.filterwarnings("ignore:tfjac. residuals returned a single number")
def test_two_parameters_of_one_residual():
    x = tf.Variable([2.0, 1.0], dtype=tf.float64)
    result = least_squares(lambda: tf.reshape(tf.reduce_sum(x**2) + 1, [1]), x)
    assert result.success
    np.testing.assert_allclose(x.numpy(), 0, atol=1e-6)


NONE = {
    "kink": (lambda x: tf.abs(x) + 1, 2.0),
    "two slopes": (lambda x: 2 * tf.nn.relu(x) + 1 - x, 1.0),
    "inflection": (lambda x: x**3 + 5, 1.0),
}


@pytest.mark.parametrize("name", NONE)
def test_where_j_has_not_vanished_or_the_cost_falls_it_is_none(name):
    function, start = NONE[name]
    x = tf.Variable([start], dtype=tf.float64)
    result = least_squares(lambda: function(x), x)
    assert result.status is Status.STALLED and not result.success


def test_a_plateau_is_no_minimum():
    t = np.linspace(1.0, 4.0, 10)
    x = tf.Variable([1.0, 100.0], dtype=tf.float64)
    result = least_squares(lambda: x[0] * tf.exp(-x[1] * t) - np.exp(-t), x)
    assert not result.success and result.undetermined.all()


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_parameter_that_has_vanished_is_not_determined(noise):
    x = np.linspace(0.0, 1.0, 10)
    y = 2 * x - 1 + noise * np.sin(30 * x)
    with pytest.warns(UserWarning, match="do not determine all parameters"):
        fit = tfjac.curve_fit(lambda x, a, b: a * x + b**2, x, y, p0=[1.0, 1.0])
    assert fit.success
    np.testing.assert_allclose(fit.popt, [x @ y / (x @ x), 0], atol=1e-7)
    assert np.isinf(fit.pcov).any()
    assert list(fit.undetermined) == [False, True]


@pytest.mark.parametrize("rate", [300.0, 1000.0])
def test_an_exponential_that_is_flat_at_its_start_has_no_finite_errors(rate):
    t = np.linspace(0.0, 4.0, 30)
    y = 2 * np.exp(-1.3 * t) + 0.01 * np.sin(30 * t)
    with pytest.warns(UserWarning, match="do not determine all parameters"):
        fit = tfjac.curve_fit(lambda x, a, b: a * tf.exp(-b * x), t, y, p0=[1.0, rate])
    assert np.isinf(fit.pcov[1, 1])


def test_parameters_that_run_off_and_undo_one_another_are_warned_of():
    """Of a − b exp(−ct) from a wrong sign of c a straight line is what is left, of which a and b have no say."""
    t = np.linspace(0.0, 10.0, 50)
    y = 2.3 - 1.1 * np.exp(-0.4 * t) + 0.02 * np.sin(30 * t)
    with pytest.warns(UserWarning, match="a with an error of .*, b with an error of"):
        fit = tfjac.curve_fit(lambda t, a, b, c: a - b * tf.exp(-c * t), t, y, p0=[1.0, 1.0, -1.0])
    slope, *_ = np.polyfit(t, y, 1)
    np.testing.assert_allclose(fit.popt[1] * fit.popt[2], slope, rtol=1e-3)
    assert min(np.sqrt(np.diag(fit.pcov))[:2] / np.abs(fit.popt[:2])) > 1e4


def test_errors_beside_zero_and_of_large_units_are_kept():
    """A parameter that is zero but for rounding has an error; so has one of 10¹² units."""
    t = np.linspace(-1.0, 1.0, 21)
    noise = np.sin(40 * t)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = tfjac.curve_fit(lambda x, a, b, c: a + b * x + c * 1e-12 * x**2, t, 3 * t + noise, p0=[0.0, 1.0, 1e12])
    design = np.stack([np.ones_like(t), t, 1e-12 * t**2], axis=1)
    scale = np.array([1, 1, 1e-12])
    inverse = np.linalg.inv((design / scale).T @ (design / scale)) / scale / scale[:, None]
    rest = 3 * t + noise - design @ fit.popt
    units = np.outer(scale, scale)
    np.testing.assert_allclose(fit.pcov * units, inverse * units * (rest @ rest) / 18, rtol=1e-6, atol=1e-12)


FACTORS = np.random.default_rng(0).normal(size=(6, 5))


def variables_of_zeros(*shapes):
    return [tf.Variable(np.zeros(shape)) for shape in shapes]


def network_of_zeros():
    w = variables_of_zeros((1, 4), (4,), (4, 1), (1,))
    x = np.linspace(0.0, 1.0, 20)[:, None]
    return w, lambda: tf.tanh(x @ w[0] + w[1]) @ w[2] + w[3] - np.sin(3 * x)


def factors_of_zeros():
    left, right = variables_of_zeros((6, 2), (2, 5))
    return [left, right], lambda: left @ right - np.abs(FACTORS)


def squares_at_zero():
    (x,) = variables_of_zeros((3,))
    return [x], lambda: x**2 - 1.0


def cubes_at_zero(count):
    (x,) = variables_of_zeros((count,))
    return [x], lambda: x**3 - 1.0


def one_maximum_among_minima():
    (x,) = variables_of_zeros((21,))
    return [x], lambda: x**2 + np.where(np.arange(21) == 7, -1.0, 5.0)


STARTS_WITHOUT_GRADIENT = {
    "a maximum among minima": (one_maximum_among_minima, {}),
    "a maximum": (squares_at_zero, {}),
    "a maximum at a bound": (squares_at_zero, {"bounds": (0, 2)}),
    "a maximum with a prior": (squares_at_zero, {"prior": (0.0, 10.0)}),
    "an inflection": (functools.partial(cubes_at_zero, 1), {}),
    "an inflection of many": (functools.partial(cubes_at_zero, 300), {}),
    "a saddle": (factors_of_zeros, {}),
    "a saddle at bounds": (factors_of_zeros, {"bounds": (0, np.inf)}),
    "a saddle after a step": (network_of_zeros, {}),
}


@pytest.mark.by_day(one_in=7)
@pytest.mark.parametrize("name", STARTS_WITHOUT_GRADIENT)
@pytest.mark.parametrize("in_function", [False, True])
def test_a_start_at_a_maximum_or_a_saddle_is_named(name, in_function):
    make, options = STARTS_WITHOUT_GRADIENT[name]
    variables, residuals = make()
    fit = lambda: least_squares(residuals, variables, **options)  # noqa: E731
    found = (tf.function(fit) if in_function else fit)()
    assert Status(int(found.status)) is Status.NOT_A_MINIMUM and not bool(found.success)
    assert not any(variable.numpy().any() for variable in variables[:2])  # where they were
    assert in_function or "small random numbers" in found.message


@pytest.mark.by_day(None)
def test_so_is_a_saddle_of_too_many_parameters_for_a_gram():
    left, right = variables_of_zeros((150, 8), (8, 150))
    found = least_squares(lambda: left @ right - 1.0, [left, right])
    assert found.status is Status.NOT_A_MINIMUM and not left.numpy().any() and not right.numpy().any()


@pytest.mark.by_day(None)
def test_a_minimum_or_a_plateau_of_zero_gradient_has_converged():
    x = tf.Variable([0.0, 1.0, -1.0], dtype=tf.float64)
    of_no_use = least_squares(lambda: (x[1] - 3.0) * np.arange(4.0) + 1.0, x)
    assert of_no_use.success and list(of_no_use.undetermined) == [True, False, True]
    for function in (lambda: x**2 + 1.0, lambda: tf.nn.relu(-1.0 - x**2) - 1.0):
        x.assign([0.0, 0.0, 0.0])
        assert least_squares(function, x).status is Status.GRADIENT_TOLERANCE
    x.assign([0.0, 0.0, 0.0])
    assert least_squares(lambda: x**2 - 1.0, x, fixed=True).status is Status.GRADIENT_TOLERANCE


@pytest.mark.by_day(None)
@pytest.mark.parametrize("options", [{}, {"bounds": (0.0, 3.0)}, {"chunk_size": 2}])
@pytest.mark.parametrize("in_function", [False, True])
def test_so_are_many_fits_that_start_there(options, in_function):
    """The second and the last start at maxima; the third at a minimum, where J is zero as well."""
    x = tf.Variable([[0.5], [0.0], [0.0], [2.0], [0.0]], dtype=tf.float64)
    size = np.array([[-1.0], [-1.0], [1.0], [-1.0], [-4.0]])
    fit = lambda: least_squares(lambda x, size: x**2 + size, x, args=(size,), batch_dims=1, **options)  # noqa: E731
    found = (tf.function(fit) if in_function else fit)()
    named = np.array([Status(int(each)) is Status.NOT_A_MINIMUM for each in np.asarray(found.status)])
    assert list(named) == [False, True, False, False, True]
    assert list(np.asarray(found.success)) == [True, False, True, True, False]
    np.testing.assert_allclose(x.numpy()[:, 0], [1.0, 0.0, 0.0, 1.0, 0.0], atol=1e-9)


ANGLES = np.linspace(-3.0, 3.0, 21)
TIMES = np.linspace(0.0, 10.0, 60)
WAVES = 2 * np.sin(1.3 * TIMES + 0.5) + 0.3 * TIMES + 0.05 * np.cos(40 * TIMES)


def turned(v):
    return tf.sin(ANGLES + v) - np.sin(ANGLES)


def square_of(scale):
    return lambda v: tf.concat([v[..., :1], (scale * v[..., 1:]) ** 2 - 1], axis=-1)


def waves(v):
    return v[..., :1] * tf.sin(v[..., 1:2] * TIMES + v[..., 2:3]) + v[..., 3:] * TIMES - WAVES


BOUNDS = ([0.0, -np.inf, -np.inf, -np.inf], np.inf)
PLACES = {  # residuals, a start, whether that leads to a minimum, and options
    "half a turn": (turned, [np.pi], False, {}),
    "many turns and a half": (turned, [101 * np.pi], False, {}),
    "beside a large misfit": (lambda v: tf.concat([turned(v), 0 * v + 1e3], axis=-1), [np.pi], False, {}),
    "a large unit": (square_of(1e8), [1.0, 0.0], False, {}),
    "a small unit": (square_of(1e-8), [1.0, 0.0], False, {}),
    "an amplitude at its bound": (waves, [1.0, 1.3, 0.5 + np.pi, 0.3], False, {"bounds": BOUNDS}),
    "not in antiphase": (waves, [1.0, 1.3, 0.6, 0.3], True, {"bounds": BOUNDS}),
    "a start at a minimum": (lambda v: tf.concat([turned(v), 0 * v + 1.0], axis=-1), [0.0], True, {}),
    "one at a bound": (lambda v: v - [1.0, 2.0], [0.0, 0.0], True, {"bounds": (-1.0, 1.0)}),
}


@pytest.mark.by_day(one_in=5)
@pytest.mark.parametrize("name", PLACES)
def test_a_tolerance_at_a_maximum_or_a_saddle_is_no_success(name):
    function, start, is_minimum, options = PLACES[name]
    v = tf.Variable(np.array(start))
    found = least_squares(lambda: function(v), v, **options)
    assert found.success if is_minimum else found.status is Status.NOT_A_MINIMUM


@pytest.mark.by_day(None)
def test_so_it_is_of_many_fits():
    """To a few digits is enough to stay there, or to leave."""
    starts = np.array([[np.pi], [101 * np.pi], [np.pi + 1e-9], [3.1416], [1.0]])
    many = least_squares(turned, tf.Variable(starts), batch_dims=1, max_steps=500)
    assert [Status(each) is Status.NOT_A_MINIMUM for each in many.status[:2]] == [True] * 2
    assert all((many.cost < 1e-12) | (many.status == Status.NOT_A_MINIMUM))
    function, start, *_, options = PLACES["an amplitude at its bound"]
    starts = np.array([start, PLACES["not in antiphase"][1]])
    many = least_squares(function, tf.Variable(starts), batch_dims=1, **options)
    assert Status(many.status[0]) is Status.NOT_A_MINIMUM and many.success[1]


@pytest.mark.by_day(None)
def test_so_it_is_with_equations_and_on_manifolds():
    v = tf.Variable([1.0, np.pi - 1.0], dtype=tf.float64)
    equal = least_squares(lambda: turned(v[0] + v[1]), v, equality=([[1.0, 0.0]], [1.0]))
    assert equal.status is Status.NOT_A_MINIMUM
    corners = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])
    pose = tf.Variable([[0.0, 0.0, np.pi]], dtype=tf.float64)

    def seen():
        cosine, sine = tf.cos(pose[0, 2]), tf.sin(pose[0, 2])
        turn = tf.stack([tf.stack([cosine, sine]), tf.stack([-sine, cosine])])
        return corners @ turn + pose[0, :2] - corners

    found = least_squares(seen, pose, manifolds=tfjac.manifolds.SE2())
    assert found.status is Status.NOT_A_MINIMUM and found.cost > 15
