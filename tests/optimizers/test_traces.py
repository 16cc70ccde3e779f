"""Never a trace that is out of date: whatever a function reads, the minimum is that of what it reads now.

What is used again, where it is the same, is counted by the minimisations that are traced.
"""

import functools
import gc
import importlib
import itertools
import sys
import threading
import types
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.optimizers.data_places import NEW, OLD, PLACES, Box
from tfjac.drive.streamed import memory
from tfjac.fits import prepared, traced
from tfjac.keras import levenberg_marquardt
from tfjac.optimizers import LevenbergMarquardt, NielsenDamping


@pytest.fixture
def traces(monkeypatch):
    """A list that grows with every minimisation, or step, that is traced."""
    made = []
    steps = [(module, "take_step") for module in (levenberg_marquardt, memory)]
    for module, name in [(traced, "Evaluation"), (traced, "StepFunction"), *steps]:
        original = getattr(module, name)
        counted = lambda *args, original=original, **options: made.append(1) or original(*args, **options)  # noqa: E731
        monkeypatch.setattr(module, name, counted)
    return made


def start():
    return tf.Variable(0.0, dtype=tf.float64)


def by_least_squares(residuals, b):
    return tfjac.least_squares(residuals, b).x


def by_minimize(residuals, b):
    """A step with next to no damping, and no memory, solves a linear problem; one optimizer for all on a variable."""
    optimizer = by_minimize.optimizers.setdefault(id(b), LevenbergMarquardt(NielsenDamping(1e-12), memory=None))
    optimizer.minimize(residuals, [b])
    return b.numpy()


by_minimize.optimizers = {}


@pytest.mark.by_day(one_in=12)
@pytest.mark.parametrize(
    "place, minimum",
    zip(PLACES, itertools.cycle([by_least_squares, by_minimize])),
    ids=[place.__name__ for place in PLACES],
)
def test_data_are_those_of_now(place, minimum):
    b = start()
    residuals, change = place(b)
    assert minimum(residuals, b) == pytest.approx(np.mean(OLD))
    change()
    for _ in range(2):
        assert minimum(residuals, b) == pytest.approx(np.mean(NEW))


@pytest.mark.by_day(None)
@pytest.mark.parametrize("minimum", [by_least_squares])
def test_what_comes_out_the_same_is_traced_once(minimum, traces):
    b, data = start(), OLD

    def loop(b):
        return tf.while_loop(lambda k, total: k < 3, lambda k, total: (k + 1, total + b), [0, b * 0.0])[1]

    for value in (0.0, -7.0, 1e3):
        b.assign(value)
        residuals = lambda: tf.stack([loop(b) - 3 * x for x in data])  # noqa: E731
        assert minimum(residuals, b) == pytest.approx(3.0)
    assert len(traces) == 1


@pytest.mark.parametrize("minimum", [by_least_squares])
def test_captured_tensors_are_data(minimum, traces):
    b = start()
    for values in (OLD, NEW, OLD):
        data = tf.constant(values * 100, tf.float64)
        assert minimum(lambda: b - data, b) == pytest.approx(np.mean(values))  # noqa: B023
    assert len(traces) == 1


@pytest.mark.by_day(None)
def test_arguments_are_data(traces):
    """In any nest; floating-point numbers and arrays take the dtype of the variables."""
    b, optimizer = tf.Variable(0.0), LevenbergMarquardt(NielsenDamping(1e-9))

    def residuals(data, more):
        return [b - data["y"], b * more[0] - more[1]]

    for values in (OLD, NEW, OLD):
        args = ({"y": np.array(values)}, [1.0, tf.constant(values[0])])
        expected = np.mean([*values, values[0]])
        assert tfjac.least_squares(residuals, b, args=args).x == pytest.approx(expected, rel=1e-5)
        b.assign(0.0)
        optimizer.minimize(residuals, [b], args)
        assert b.numpy() == pytest.approx(expected, rel=1e-5)
    assert len(traces) == 2


@pytest.mark.by_day(None)
def test_arguments_and_what_else_the_function_reads(traces):
    b, space = start(), types.SimpleNamespace(scale=1.0)

    def residuals(y):
        return b - space.scale * y

    for scale, values in ((1.0, OLD), (1.0, NEW), (2.0, NEW)):
        space.scale = scale
        fit = tfjac.least_squares(residuals, b, args=(np.array(values),))
        assert fit.x == pytest.approx(scale * np.mean(values))
    assert len(traces) == 2


@pytest.mark.by_day(None)
@pytest.mark.parametrize("minimum", [by_least_squares])
def test_a_function_of_tensorflow_keeps_its_own_rules(minimum, traces):
    b, calls = start(), []

    @tf.function
    def residuals():
        calls.append(1)
        return tf.nn.silu(b) * 0.0 + b - OLD

    for _ in range(3):
        minimum(residuals, b)
    assert len(calls) == len(traces) == 1


@pytest.mark.by_day(None)
def test_a_problem_is_traced_by_signature(traces):
    b, calls = start(), []

    def residuals(y):
        calls.append(1)
        return b - y

    problem = tfjac.LeastSquaresProblem(residuals, b, ftol=1e-12)
    for values in (OLD, NEW, OLD, [1.0, 2.0], [3.0] * 7, [4.0] * 9):
        result = problem.solve(np.array(values))
        assert result.x == b.numpy() == pytest.approx(np.mean(values))
        assert result.jacobian().shape == (len(values), 1)
    assert len(calls) == len(traces) == 2, "one for three numbers, one for any number"
    assert problem.solve(tf.constant(NEW, tf.float64)).x == pytest.approx(np.mean(NEW))
    with pytest.raises(TypeError, match="no such option"):
        tfjac.LeastSquaresProblem(residuals, b, tolerance=1e-3)


@pytest.mark.by_day(None)
def test_a_problem_inside_of_a_function():
    b = start()
    problem = tfjac.LeastSquaresProblem(lambda y: b - y, b)
    fit = tf.function(lambda y: problem.solve(y).x)
    for values in (OLD, NEW):
        found = [problem.solve(values).x, fit(tf.constant(values, tf.float64)).numpy()]
        np.testing.assert_allclose(found, np.mean(values), rtol=1e-9)


@pytest.mark.by_day(None)
def test_another_option_is_another_trace_and_how_many_steps_there_may_be_is_none(traces):
    b, options = start(), ({}, {"ftol": 1e-4}, {"damping": NielsenDamping(0.5)}, {"jit_compile": True})
    for count, option in enumerate(options, 1):
        for steps in (1, 7):
            tfjac.least_squares(lambda: b - OLD, b, max_steps=steps, **option)
            assert len(traces) == count


def test_a_damping_of_the_users_may_depend_on_anything():
    class Mine(NielsenDamping):
        first = 1e-3

        def start(self, curvature, length):
            return self.clip(self.first * curvature, curvature), tf.constant(2, curvature.dtype)

    b, damping = start(), Mine()
    fit = functools.partial(tfjac.least_squares, lambda: b - OLD, b, damping=damping, max_steps=1)
    fit()
    damping.first, before = 1e9, b.assign(0.0).numpy()
    assert abs(fit().x - before) < 1e-6


@pytest.mark.by_day(None)
def test_a_constraint_may_depend_on_anything():
    b = keras.Variable(0.0, dtype="float64")
    for limit in (1.0, 2.0):
        b.constraint = lambda x, limit=limit: tf.minimum(x, limit)
        assert tfjac.least_squares(lambda: b.value - 5.0, b).x == pytest.approx(limit)


@pytest.mark.by_day(None)
def test_other_variables_are_another_trace():
    one, two = tf.Variable(1.0, dtype=tf.float64), tf.Variable(2.0, dtype=tf.float64)

    def residuals():
        return tf.stack([one - 3.0, two - 5.0, one * two - 16.0])

    assert tfjac.least_squares(residuals, [one, two]).cost < 0.5
    expected = (5 + 16 * one.numpy()) / (1 + one.numpy() ** 2)
    np.testing.assert_allclose(tfjac.least_squares(residuals, two).x, expected)


@pytest.mark.by_day(None)
@pytest.mark.usefixtures("others_frozen")
def test_functions_and_variables_are_not_kept_alive():
    def fit():
        b, data = tf.Variable([0.0], dtype=tf.float64), Box(2.0)
        residuals = lambda: b - data.value  # noqa: E731
        tfjac.least_squares(residuals, b)
        return weakref.ref(b), weakref.ref(residuals), weakref.ref(data)

    references = [reference for _ in range(2) for reference in fit()]
    gc.collect()
    assert [reference() for reference in references] == [None] * 6


def test_a_function_of_the_same_constants_is_not_called_again():
    calls, scale = [], [2.0]

    def note(x):
        calls.append(1)  # what a list holds is a constant: with this one, the function is called each time
        return x

    def fit(b, helper, data):
        return tfjac.least_squares(lambda: helper(b) * scale[0] - data, b).x[0]

    b, two, six = tf.Variable([0.0], dtype=tf.float64), tf.constant([2.0], tf.float64), tf.constant([6.0], tf.float64)
    assert graphs_made(lambda: [fit(b, tf.identity, two), fit(b, tf.identity, two)]) == 1
    np.testing.assert_allclose([fit(b, tf.identity, six), fit(b, tf.identity, two)], [3.0, 1.0])
    scale[0] = 4.0
    np.testing.assert_allclose([fit(b, tf.identity, six), fit(b, note, six), fit(b, note, two)], [1.5, 1.5, 0.5])
    assert len(calls) == 2
    np.testing.assert_allclose(fit(tf.Variable([0.0], dtype=tf.float64), tf.identity, six), 1.5)


def graphs_made(run):
    """How many graphs of residuals `run` makes."""
    made, original = [], prepared.traceable
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepared, "traceable", lambda *args: made.append(1) or original(*args))
        run()
    return len(made)


@pytest.mark.usefixtures("others_frozen")
def test_variables_of_functions_that_are_not_called_again_are_not_kept_alive():
    def fit():
        b, other = tf.Variable([0.0], dtype=tf.float64), tf.Variable([1.0], dtype=tf.float64)
        for _ in range(2):
            tfjac.least_squares(lambda: b - other, b)
        return weakref.ref(b), weakref.ref(other)

    references = [reference for _ in range(2) for reference in fit()]
    gc.collect()
    assert [reference() for reference in references] == [None] * 4


@pytest.mark.by_day(None)
@pytest.mark.usefixtures("others_frozen")
def test_traces_of_new_functions_do_not_pile_up(monkeypatch):
    """As many graphs after many fits as after a few."""
    b, kept = start(), importlib.import_module("tfjac.fits.prepared")._TRACES
    assert kept._size < 10
    monkeypatch.setattr(kept, "_size", 1)

    def graphs_after(count):
        for k in range(count):
            tfjac.least_squares(lambda: b - float(k), b)  # noqa: B023
        gc.collect()
        return sum(isinstance(item, tf.Graph) for item in gc.get_objects())

    before = graphs_after(2)
    assert graphs_after(2) == before


def test_threads():
    """Each with variables of its own, and the same function."""
    results = {}

    def work(k):
        b = tf.Variable(0.0, dtype=tf.float64)
        for repeat in range(3):
            fit = tfjac.least_squares(lambda y: b - y, b, args=(np.array(OLD) + k + repeat,))
            results[k, repeat] = fit.x, fit.standard_errors()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    error = np.std(OLD, ddof=1) / np.sqrt(3)
    for (k, repeat), found in results.items():
        np.testing.assert_allclose(found, (np.mean(OLD) + k + repeat, error))
    assert len(results) == 9


def many_fits():
    x = tf.Variable(np.ones([3, 1]))
    return tfjac.least_squares(lambda b, y: b - y, x, args=(np.ones([3, 2]),), batch_dims=1).standard_errors()


def band():
    fit = tfjac.curve_fit(lambda x, a: a * x, np.arange(4.0), np.array([0.1, 0.9, 2.0, 3.1]))
    return fit.prediction_band(np.arange(2.0))


def posterior():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    x = np.eye(2, dtype="float32")
    return tfjac.laplace(model, x, x[:, :1], likelihood="gaussian").predict(x)


def gradients_of_nodes():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="last")])
    return tfjac.node_gradients(lambda: model(np.eye(2)), "last")


def nodes_changed_and_read():
    for _ in range(3):
        tfjac.intercept(lambda x: tfjac.tap(x, "in"), {"in": tfjac.handlers.reverse()})(np.eye(2))
        tfjac.values_at(lambda x: tfjac.tap(x, "in"), "in")(np.eye(2))


@pytest.mark.by_day(None)
@pytest.mark.parametrize("call", [many_fits, band, posterior, gradients_of_nodes, nodes_changed_and_read])
def test_first_calls_are_not_called_retracing(call, monkeypatch):
    """TensorFlow counts traces by the code that is traced: objects that are each traced once are not traced again."""
    warned, counting = [], sys.modules["tensorflow.python.eager.polymorphic_function.polymorphic_function"]
    monkeypatch.setattr(counting, "FREQUENT_TRACING_WARNING_THRESHOLD", 1)
    monkeypatch.setattr(counting.logging, "warning", lambda message, *_: warned.append(message))
    call()
    assert not warned
