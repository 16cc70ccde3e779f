"""Keras' own tests of layers, as they lie in the installed package.

A test of Keras runs as it is, but for `run_layer_test`. That builds the layer in float64 here, and scales its inputs by
weights. The per-example gradients of a loss, with respect to these weights and the layer's, are compared with one tape
per row. By night each test ends with the first case that is compared; with --all-peers all of them are.
"""

import inspect
import pathlib
import unittest

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src import testing
from keras.src.testing.test_case import create_eager_tensors

import tfjac
from tests.peers import hold_comparisons

LAYERS = pathlib.Path(keras.__file__).parent / "src" / "layers"
FOLDERS = ("activations", "attention", "convolutional", "core", "merging", "normalization", "pooling")
FILES = sorted(
    path for name in FOLDERS for path in (LAYERS / name).glob("*_test.py") if "self.run_layer_test(" in path.read_text()
)

pytestmark = pytest.mark.by_day(None)


class Compared(Exception):
    """Ends a test of Keras: a case has been compared."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(LAYERS)))
def test_per_example_gradients(path, monkeypatch, request, record_property):
    name = ".".join(("keras.src.layers", *path.relative_to(LAYERS).with_suffix("").parts))
    outcomes = []

    def compare(test, layer_cls, init_kwargs, input_shape=None, input_dtype=None, input_data=None, **others):
        if others.get("input_sparse") or others.get("input_ragged") or (input_shape is None and input_data is None):
            return
        if input_data is None:
            input_data = _random_input(input_shape, input_dtype)
        kind = _compare(layer_cls(**(init_kwargs or {})), input_data, others.get("call_kwargs") or {})
        outcomes.append(kind)
        if kind.startswith("compared") and not request.config.getoption("--all-peers"):
            raise Compared

    monkeypatch.setattr(testing.TestCase, "run_layer_test", compare)
    before = keras.config.dtype_policy(), keras.config.floatx()
    keras.config.set_dtype_policy("float64")
    keras.config.set_floatx("float64")
    try:
        for test in _tests_of_layers(pytest.importorskip(name)):
            _run(test)
    finally:
        keras.config.set_dtype_policy(before[0])
        keras.config.set_floatx(before[1])
    hold_comparisons(outcomes, record_property)


def _tests_of_layers(module):
    for test in unittest.defaultTestLoader.loadTestsFromModule(module):
        for case in test:
            if "run_layer_test" in inspect.getsource(inspect.unwrap(getattr(case, case._testMethodName))):
                yield case


def _run(test):
    test.setUp()
    try:
        getattr(test, test._testMethodName)()
    except (Compared, unittest.SkipTest, pytest.skip.Exception):
        pass
    finally:
        test.doCleanups()


def _random_input(shape, dtype):
    dtype = dtype or keras.tree.map_shape_structure(lambda _: "float32", shape)
    return create_eager_tensors(shape, dtype, False, False)


def _compare(layer, data, call_kwargs):
    """Compare the gradients of one layer, and say what became of it."""
    data = keras.tree.map_structure(_in_float64, data)
    floats = [x for x in keras.tree.flatten(data) if x.dtype == tf.float64]
    try:
        _call(layer, data, call_kwargs)
    except tf.errors.OpError:
        return "no kernel in float64"
    scales = [tf.Variable(np.random.default_rng(1).uniform(0.5, 1.5, x.shape[1:])) for x in floats]
    variables = scales + [variable.value for variable in layer.trainable_variables]
    if not variables or layer.compute_dtype != "float64":
        return "no numbers in float64 to differentiate by"

    def losses(data):
        rest = iter(scales)
        scaled = keras.tree.map_structure(lambda x: x * next(rest) if x.dtype == tf.float64 else x, data)
        return _losses(_call(layer, scaled, call_kwargs))

    try:
        wanted = _tape_per_row(losses, data, variables)
    except NotComparable as why:
        return str(why)
    gradients = tf.function(lambda: tfjac.per_example_gradients(losses(data), variables, unconnected_gradients="zero"))
    try:
        got = gradients()
    except ValueError:
        if _mixes_examples(losses, data):
            return "compared: refused, as examples mix"
        raise
    single = any(variable.dtype != tf.float64 for variable in variables)
    for one, other in zip(got, wanted):
        np.testing.assert_allclose(one, other, rtol=1e-4 if single else 1e-9, atol=1e-5 if single else 1e-9)
    return "compared"


class NotComparable(Exception):
    """There is nothing to compare with; the message says why."""


def _in_float64(x):
    x = tf.convert_to_tensor(x)
    return tf.cast(x, tf.float64) if x.dtype.is_floating else x


def _call(layer, data, call_kwargs):
    return layer(**data, **call_kwargs) if isinstance(data, dict) else layer(data, **call_kwargs)


def _losses(outputs):
    """Reduce all outputs to one number for each example, [n], in which each element has a weight of its own."""
    total = 0.0
    for y in keras.tree.flatten(outputs):
        if y.dtype.is_floating or y.dtype.is_complex:
            y = tf.cast(y, tf.float64)
            rows = tf.reshape(y, [tf.shape(y)[0], -1])
            total += tf.reduce_sum(tf.cos(tf.range(tf.shape(rows)[1], dtype=tf.float64)) * rows + 0.1 * rows**2, axis=1)
    return total


def _tape_per_row(losses, data, variables):
    """Give the gradient of each example's loss, one tape for each, stacked."""
    values = losses(data)
    if not isinstance(values, tf.Tensor):
        raise NotComparable("no floating output")
    if not np.array_equal(values, losses(data), equal_nan=True):
        raise NotComparable("random")
    if values.shape[0] != keras.tree.flatten(data)[0].shape[0]:
        raise NotComparable("no axis of examples")
    rows = []
    for n in range(values.shape[0]):
        with tf.GradientTape() as tape:
            loss = losses(data)[n]
        gradient = tape.gradient(loss, variables, unconnected_gradients="zero")
        rows.append([tf.convert_to_tensor(each).numpy() for each in gradient])
    return [np.stack(each) for each in zip(*rows)]


def _mixes_examples(losses, data):
    """Whether an example's loss is another one where it is alone."""
    values = losses(data).numpy()
    alone = [losses(keras.tree.map_structure(lambda x, n=n: x[n : n + 1], data)).numpy() for n in range(len(values))]
    return not np.allclose(values, np.concatenate(alone), rtol=1e-10)
