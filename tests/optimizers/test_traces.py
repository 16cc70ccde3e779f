"""What is traced once, and what must be traced again: counted by the calls of the user's function."""

import functools
import gc
import weakref
from unittest.mock import Mock

import numpy as np
import pytest
import tensorflow as tf

from tfjac.optimizers import LevenbergMarquardt, NielsenDamping, least_squares
from tfjac.optimizers.callables import objects_read
from tfjac.optimizers.traces import TraceCache


class Line:
    """y = b, fitted to the mean of the data; counts how often its residuals are called."""

    def __init__(self, data=(1.0, 2.0, 6.0)):
        self.data, self.b, self.calls = np.array(data), tf.Variable(0.0, dtype=tf.float64), Mock()

    def residuals(self):
        self.calls()
        return self.b - tf.constant(self.data)

    def fit(self, **options):
        return least_squares(self.residuals, self.b, **options).x


def test_least_squares_traces_once_for_the_same_function_variables_and_options():
    line = Line()
    for start in (0.0, -7.0, 1e3):
        line.b.assign(start)
        assert line.fit(damping=NielsenDamping(1e-4)) == pytest.approx(3.0)
    assert line.calls.call_count == 1


def test_standard_errors_are_traced_once():
    line = Line()
    errors = [least_squares(line.residuals, line.b).standard_errors() for _ in range(3)]
    np.testing.assert_allclose(errors, np.std(line.data, ddof=1) / np.sqrt(3), rtol=1e-9)
    assert line.calls.call_count == 2, "the minimisation and the Jacobian"


OPTIONS = {"max_steps": 7, "damping": NielsenDamping(0.5), "jit_compile": True}


@pytest.mark.parametrize("name", OPTIONS)
def test_another_option_is_another_trace(name):
    line = Line()
    for options in ({}, {name: OPTIONS[name]}, {name: OPTIONS[name]}):
        line.fit(**options)
    assert line.calls.call_count == 2


def test_other_variables_are_another_trace():
    one, two, calls = (*(tf.Variable(start, dtype=tf.float64) for start in (1.0, 2.0)), Mock())

    def residuals():
        calls()
        return tf.stack([one - 3.0, two - 5.0, one * two - 16.0])

    assert least_squares(residuals, [one, two]).cost < 0.5
    np.testing.assert_allclose(least_squares(residuals, two).x, (5 + 16 * one.numpy()) / (1 + one.numpy() ** 2))
    least_squares(residuals, [two])
    assert calls.call_count == 2


def method(line):
    return line.residuals


def closure(line):
    data = line.data

    def residuals():
        line.calls()
        return line.b - tf.constant(data)

    def rebind(new):
        nonlocal data
        data = new

    closure.rebind = rebind
    return residuals


def nested(line):
    def model():
        return line.b - tf.constant(line.data)

    return lambda: (line.calls(), model())[1]


def partial(line):
    return functools.partial(Line.residuals, line)


class Callable(Line):
    """An object that is called itself."""

    __call__ = Line.residuals


@pytest.mark.parametrize("wrap", [method, closure, nested, partial, lambda line: line])
def test_data_that_are_bound_anew_are_seen(wrap):
    """As a user would expect of an eager call: a trace that went on with the old data would be silently wrong."""
    line = Callable()
    residuals = wrap(line)
    for data in ([1.0, 2.0, 6.0], [4.0, 4.0, 5.0], [4.0, 4.0, 5.0]):
        if not np.array_equal(data, line.data):
            line.data = np.array(data)
            if wrap is closure:
                closure.rebind(line.data)
        assert least_squares(residuals, line.b).x == pytest.approx(np.mean(data))
    assert line.calls.call_count == 2


DATA = np.array([1.0, 3.0])


def test_a_global_that_is_bound_anew_is_seen(monkeypatch):
    b, optimizer = tf.Variable(0.0, dtype=tf.float64), LevenbergMarquardt(NielsenDamping(1e-12))

    def residuals():
        return b - DATA

    optimizer.minimize(residuals, [b])
    assert b.numpy() == pytest.approx(2.0)
    monkeypatch.setitem(globals(), "DATA", np.array([5.0, 7.0]))
    optimizer.minimize(residuals, [b])
    assert b.numpy() == pytest.approx(6.0)


@pytest.mark.parametrize("hold", [lambda x: x, lambda x: [x, 0.0], lambda x: {"nested": (x,)}])
def test_data_that_change_in_place_are_seen(hold):
    b, array = tf.Variable(0.0, dtype=tf.float64), np.array([1.0, 3.0])
    held, calls = hold(array), Mock()

    def residuals():
        calls(held)
        return b - tf.constant(array)

    assert least_squares(residuals, b).x == pytest.approx(2.0)
    array[:] = 5.0, 7.0
    assert least_squares(residuals, b).x == pytest.approx(6.0)
    assert least_squares(residuals, b).x == pytest.approx(6.0)
    assert calls.call_count == 2


def test_lists_whose_elements_change_are_seen():
    b, data = tf.Variable(0.0, dtype=tf.float64), [1.0, 3.0]

    def residuals():
        return b - tf.constant(data, tf.float64)

    assert least_squares(residuals, b).x == pytest.approx(2.0)
    data[1] = 5.0
    assert least_squares(residuals, b).x == pytest.approx(3.0)


def test_objects_read():
    line = Line()
    read = {id(item) for item in objects_read(line.residuals)}
    assert read >= {id(line.data), id(line.b), id(line.calls)}
    assert any(item is DATA for item in objects_read(lambda: DATA))
    assert objects_read(abs) is not None


def test_a_trace_goes_with_its_function():
    line, cache = Line(), TraceCache()
    function = lambda: line.residuals()  # noqa: E731
    result = cache.get(function, [line.b], None, tf.function(lambda: line.b + 1.0).get_concrete_function)
    gone = weakref.ref(result)
    del function, result
    gc.collect()
    assert gone() is None


def test_the_least_recently_used_trace_goes_first():
    cache, made = TraceCache(size=2), []
    functions = [lambda: None for _ in range(3)]

    def get(number):
        return cache.get(functions[number], [], "options", lambda: made.append(number) or number)

    assert [get(number) for number in (0, 1, 0, 2, 0, 1)] == [0, 1, 0, 2, 0, 1]
    assert made == [0, 1, 2, 1]


def test_a_trace_that_fails_leaves_nothing_behind():
    cache = TraceCache()
    function = lambda: None  # noqa: E731
    with pytest.raises(ZeroDivisionError):
        cache.get(function, [], None, lambda: 1 / 0)
    assert cache.get(function, [], None, lambda: 5) == 5


def test_residuals_that_outlive_their_variables_do_not_keep_all_their_traces():
    def fit():
        b = tf.Variable([0.0], dtype=tf.float64)
        return weakref.ref(b), least_squares(lambda: b - 2.0, b).x

    references = [fit()[0] for _ in range(2)]
    gc.collect()
    assert [reference() for reference in references] == [None] * 2
