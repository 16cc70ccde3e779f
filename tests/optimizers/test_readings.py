"""How functions of residuals are called: SciPy's `fun(x, *args)`, defaults, and what is said of those that fail."""

import warnings

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import tfjac
from tfjac.optimizers import least_squares

T = np.linspace(0.0, 2.0, 20)
Y = 2 * np.exp(-1.3 * T)
PARAMETERS = tf.Variable([1.0, 0.5], dtype=tf.float64)
ONE, OTHER = tf.Variable(1.0, dtype=tf.float64), tf.Variable(0.5, dtype=tf.float64)


def of_args(x, *args):
    return x[0] * tf.exp(-x[1] * args[0]) - args[1]


def with_default(x, t, y=Y):
    return x[0] * tf.exp(-x[1] * t) - y


def of_default_alone(x, t=None):
    return x[0] * tf.exp(-x[1] * t) - Y


def of_each(a, b, *args):
    return a * tf.exp(-b * args[0]) - args[1]


def of_all(*given):
    return given[0] * tf.exp(-given[1] * T) - Y


def around(t, scale=1.0):
    return scale * (PARAMETERS[0] * tf.exp(-PARAMETERS[1] * t) - Y)


def around_with_all(*data):
    return PARAMETERS[0] * tf.exp(-PARAMETERS[1] * data[0]) - data[1]


def around_alone(k=2.0):
    return k * (PARAMETERS[0] * tf.exp(-PARAMETERS[1] * T) - Y)


CASES = {
    "args": (of_args, PARAMETERS, (T, Y)), "default": (with_default, PARAMETERS, (T,)),
    "default given": (with_default, PARAMETERS, (T, Y)), "default alone": (of_default_alone, PARAMETERS, (T,)),
    "each": (of_each, [ONE, OTHER], (T, Y)), "all": (of_all, [ONE, OTHER], ()), "around": (around, PARAMETERS, (T,)),
    "around with all": (around_with_all, PARAMETERS, (T, Y)), "around alone": (around_alone, PARAMETERS, ()),
}  # fmt: skip


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name", CASES)
def test_each_form_is_read(name):
    function, variables, args = CASES[name]
    PARAMETERS.assign([1.0, 0.5])
    ONE.assign(1.0)
    OTHER.assign(0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = least_squares(function, variables, args=args)
    np.testing.assert_allclose(np.ravel(result.x), [2.0, 1.3], rtol=1e-6)


def test_a_reading_that_may_be_another_is_said():
    def both(x, *args):
        return x[0] * tf.exp(-x[1] * args[0]) - args[1] + 0 * tf.reduce_sum(PARAMETERS)

    PARAMETERS.assign([1.0, 0.5])
    with pytest.warns(UserWarning, match="that is how they are"):
        result = least_squares(both, PARAMETERS, args=(T, Y))
    np.testing.assert_allclose(result.x, [2.0, 1.3], rtol=1e-6)


def test_shapes_that_do_not_fit_are_said():
    with pytest.raises(ValueError, match=r"array whose shape or dtype does not fit.*\(20,\).*test_readings.py"):
        least_squares(lambda: PARAMETERS[0] * T - Y[:7], PARAMETERS)
    with pytest.raises(ValueError, match="20 and 7"):
        tfjac.curve_fit(lambda t, a, b: a * tf.exp(-b * t) - t[:7], T, Y)


@pytest.mark.parametrize("function", [np.exp, scipy.special.erf], ids=["numpy", "scipy"])
def test_numpy_is_sent_to_external(function):
    with pytest.raises(TypeError, match=r"tfjac\.external calls"):
        least_squares(lambda x: function(x * np.ones(2)) - 1, PARAMETERS)
    with pytest.raises(TypeError, match=r"tfjac\.external calls"):
        tfjac.curve_fit(lambda t, a, b: a * function(-b * t), T, Y)


def test_what_a_black_box_raised_is_raised():
    calls = []

    def measured(x):
        calls.append(x)
        if len(calls) > 3:
            raise RuntimeError("the instrument is off")
        return x**2 - 1

    device = tfjac.external(measured, gradient="central")
    x = tf.Variable([1.0, 2.0], dtype=tf.float64)
    with pytest.raises(tfjac.MeasurementFailed, match="the instrument is off"):
        least_squares(lambda: device(x), x)
    np.testing.assert_array_equal(x.numpy(), [1.0, 2.0])


def test_a_masked_array_that_is_read_from_around_is_warned_of():
    t = np.linspace(0.0, 1.0, 20)
    y = np.ma.masked_array(2 * t + 50 * (t > 0.9), t > 0.9)
    x = tf.Variable([1.0], dtype=tf.float64)
    with pytest.warns(UserWarning, match="reads a masked array.*'y'"):
        least_squares(lambda: x * t - y, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        least_squares(lambda: (x * t - y.filled(0.0)) * ~y.mask, x)
    np.testing.assert_allclose(x.numpy(), 2.0)
