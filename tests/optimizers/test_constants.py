"""Whether a function is known to compute the same as before: never where anything that it reads has changed."""

import math
import random

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.optimizers.data_places import PLACES
from tfjac.fits import prepared
from tfjac.objective.tracing.constants import Constants

X = np.linspace(0.0, 2.0, 9)
SCALE = 2.0
LOG = []


def form(function):
    return Constants(function).form


AS_CODE = [place for place in PLACES if place.__name__ != "in_variable"]  # that is read when the graph runs


@pytest.mark.parametrize("place", AS_CODE, ids=[place.__name__ for place in AS_CODE])
def test_what_changed_is_another_function(place):
    residuals, change = place(tf.Variable(0.0, dtype=tf.float64))
    before = form(residuals)
    assert before is None or before == form(residuals)
    change()
    assert before is None or before != form(residuals)


def helper(x):
    return SCALE * tf.sqrt(x + math.pi)


def calls_itself(x, depth=2):
    return x if depth == 0 else calls_itself(helper(x), depth - 1)


def with_array(scale):
    return lambda x, a: a * x * scale[0]


def acts(x, a):
    global SCALE
    SCALE = 3.0
    return a * x


def imports(x, a):
    from tests import settings

    return a * settings.scale


class Line:
    def line(self, x, a):
        return a * x


KNOWN = [helper, calls_itself, with_array(np.ones(3)), lambda x, a: [a * each for each in (x, x[::2])], tf.exp, np.exp]
UNKNOWN = [
    acts, imports, Line().line, Line(), lambda x, a: a * random.random(), lambda x, a: a * np.random.Generator,
    lambda x, a: a * tf.random.normal([]), lambda x, a: print(x), tf.function(helper), lambda x, a: a * Line.scale,
    with_array(np.array([object()])), lambda x, a: a * np.loadtxt("x"),
    lambda x, a: tf.cast(a, tf.keras.backend.floatx()),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(KNOWN)))
def test_known(number):
    assert form(KNOWN[number]) is not None and form(KNOWN[number]) == form(KNOWN[number])


@pytest.mark.parametrize("number", range(len(UNKNOWN)))
def test_unknown(number):
    assert form(UNKNOWN[number]) is None


def test_content_counts():
    scale = np.ones(3)
    first = form(with_array(scale))
    assert first == form(with_array(np.ones(3))) and first != form(with_array(np.ones(3, "float32")))
    scale[0] = 2.0
    assert first != form(with_array(scale))
    assert form(with_array([1])) != form(with_array([1.0])) != form(with_array([True])) != form(with_array([-0.0]))
    tensor = tf.ones([3])
    assert form(with_array(tensor)) == form(with_array(tensor)) != form(with_array(tf.ones([3])))


@pytest.fixture
def calls(monkeypatch):
    """A list that grows with every trace of residuals."""
    made, original = [], prepared.TracedResiduals
    monkeypatch.setattr(prepared, "TracedResiduals", lambda *given: made.append(1) or original(*given))
    return made


def slope_of(f, x=X, **options):
    return tfjac.curve_fit(f, x, 3 * np.asarray(x), **options).popt[0]


@pytest.mark.by_day(None)
def test_a_curve_is_traced_again_where_it_changed(calls, monkeypatch):
    """Also for other shapes and options; other data of the same shape are none of it."""

    def line(x, a):
        return a * x * SCALE

    for scale in (2.0, 5.0, 2.0):
        monkeypatch.setitem(globals(), "SCALE", scale)
        for x in (X, X + 1, X):
            assert slope_of(line, x) == pytest.approx(3 / scale)
    assert len(calls) == 2
    assert slope_of(line, X[:5]) == slope_of(line, X[:5], bounds=(0, 9)) == slope_of(line, ftol=1e-9) == 1.5
    assert slope_of(line, bounds=(0, 1)) == 1 and slope_of(line, bounds=(0, 0.5)) == 0.5
    assert len(calls) == 7


@pytest.mark.by_day(None)
def test_arrays_that_a_curve_takes_are_part_of_its_trace(calls):
    def line(x, a):
        return a * np.sqrt(x)

    for x in (X, X + 1, X):
        for values in (np.sqrt(x), 2 * np.sqrt(x)):
            assert tfjac.curve_fit(line, x, values).popt == pytest.approx(values[-1] / np.sqrt(x[-1]))
    assert len(calls) == 2


def test_a_variable_is_read_when_the_curve_is_fitted(calls):
    scale = tf.Variable(1.0, dtype=tf.float64)
    for value in (1.0, 2.0):
        scale.assign(value)
        assert slope_of(lambda x, a: a * x * scale) == pytest.approx(3 / value)
    assert len(calls) == 1


def test_callbacks_and_files_are_those_of_the_call(tmp_path):
    def line(x, a):
        return a * x

    for _ in range(2):
        seen = []
        slope_of(line, p0=[9.0], callback=lambda state: seen.append(state.steps))  # noqa: B023
        assert seen
        slope_of(line, p0=[9.0], checkpoint=tmp_path / "fit")
        assert (tmp_path / "fit").exists()
        (tmp_path / "fit").unlink()
