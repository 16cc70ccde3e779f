"""Where the examples of `tfjac.fit` come from: each source gives the weights that plain arrays give."""

import math
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.optimizers.test_tfjac_fit import X, Y, mlp
from tests.precision import floating
from tfjac.keras.fitting_data import FittingData

SIZE = 40


class _Batches(keras.utils.PyDataset):
    """Batches of arrays; the last one is smaller."""

    def __init__(self, *arrays):
        super().__init__()
        self.arrays = arrays

    def __len__(self):
        return math.ceil(len(self.arrays[0]) / SIZE)

    def __getitem__(self, index):
        return tuple(array[index * SIZE : (index + 1) * SIZE] for array in self.arrays)


def _rows():
    yield from zip(X, Y)


SPECS = (tf.TensorSpec([4], tf.float64), tf.TensorSpec([1], tf.float64))
PLAIN = tf.data.Dataset.from_tensor_slices((X, Y))
SOURCES = {
    "known length": PLAIN.batch(SIZE),
    "filter": PLAIN.filter(lambda x, y: tf.reduce_all(tf.math.is_finite(y))).batch(SIZE),
    "unbatch": PLAIN.batch(7).unbatch().batch(SIZE),
    "from_generator": tf.data.Dataset.from_generator(_rows, output_signature=SPECS).batch(SIZE),
    "PyDataset": _Batches(X, Y),
    "weights": _Batches(X, Y, np.ones(len(X))),
}


def _weights(model):
    return np.concatenate([weight.ravel() for weight in model.get_weights()])


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize(
    ("source", "validated"), [*((each, False) for each in SOURCES), ("filter", True), ("PyDataset", True)]
)
def test_each_source_gives_what_arrays_give(source, validated):
    with floating("float64"):
        models = mlp(), mlp()
        given = {"validation_data": SOURCES[source]} if validated else {}
        history = tfjac.fit(models[0], SOURCES[source], max_steps=9, **given)
        tfjac.fit(models[1], X, Y, batch_size=SIZE, max_steps=9, **({"validation_data": (X, Y)} if validated else {}))
    assert history.history["loss"][-1] < history.history["loss"][0]
    np.testing.assert_allclose(_weights(models[0]), _weights(models[1]), rtol=1e-9)


def test_tfrecords(tmp_path):
    path = str(tmp_path / "rows.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for row in np.concatenate([X, Y], axis=1):
            writer.write(row.tobytes())
    rows = tf.data.TFRecordDataset(path).map(lambda row: tf.io.decode_raw(row, tf.float64))
    data = rows.map(lambda row: (tf.ensure_shape(row[:4], [4]), tf.ensure_shape(row[4:], [1]))).batch(len(X))
    with floating("float64"):
        models = mlp(), mlp()
        tfjac.fit(models[0], data, max_steps=5)
        tfjac.fit(models[1], X, Y, max_steps=5)
    np.testing.assert_allclose(_weights(models[0]), _weights(models[1]), rtol=1e-8)


class Reconstruction(keras.layers.Layer):
    """Adds the mean squared error of its two inputs to the loss."""

    def call(self, both):
        self.add_loss(keras.ops.mean(keras.ops.square(both[0] - both[1])))
        return both[0]


def _autoencoder():
    inputs = keras.Input((4,))
    code = keras.layers.Dense(2, use_bias=False)(inputs)
    return keras.Model(inputs, Reconstruction()([keras.layers.Dense(4, use_bias=False)(code), inputs]))


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize(
    "source",
    [lambda: X, lambda: tf.data.Dataset.from_tensor_slices(X).batch(SIZE), lambda: _Batches(X)],
    ids=["array", "data set", "PyDataset"],
)
def test_without_targets_the_loss_is_what_layers_add(source):
    """A linear autoencoder finds the two largest principal components: the rest of the variance is its error."""
    with floating("float64"):
        keras.utils.set_random_seed(1)
        history = tfjac.fit(_autoencoder(), source(), max_steps=300).history
    left = np.sum(np.linalg.svd(X, compute_uv=False)[2:] ** 2) / X.size
    np.testing.assert_allclose(history["loss"][-1], left, rtol=1e-3)


@pytest.mark.by_day(None)
def test_without_targets_validation_is_there_too():
    history = tfjac.fit(_autoencoder(), X, validation_split=0.2, max_steps=5).history
    given = tfjac.fit(_autoencoder(), X[:60], validation_data=(X[60:],), max_steps=5).history
    assert np.all(np.isfinite(history["val_loss"])) and np.all(np.isfinite(given["val_loss"]))


class _Endless(_Batches):
    @property
    def num_batches(self):
        return None


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (PLAIN.batch(SIZE).repeat(), r"so it must end.*Received: an infinite Dataset"),
        (_Endless(X, Y), r"so it must end.*Received: a _Endless of unknown length"),
        (_Batches(X[:0], Y[:0]), r"examples to train on.*PyDataset of 0 batches"),
        (PLAIN.filter(lambda x, y: False).batch(SIZE), r"examples to train on.*0 batches"),
        (_rows(), r"a generator can be gone through once.*Received: x, a generator"),
    ],
)
def test_sources_that_do_not_do_are_refused(x, message):
    with pytest.raises((TypeError, ValueError), match=message):
        tfjac.fit(mlp(), x)


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"x": X, "y": Y}, "all 90 examples at once: they fit in the memory budget"),
        ({"x": X, "y": Y, "validation_split": 1 / 3}, "all 60 examples at once"),
        ({"x": X, "y": Y, "batch_size": 90}, "all 90 examples at once"),
        ({"x": X, "y": Y, "batch_size": 25}, r"sum over 4 batches \(memory='epoch'\): batch_size=25 was given"),
        ({"x": PLAIN.batch(len(X))}, "the one batch of the data set"),
        ({"x": SOURCES["filter"]}, "sum over 3 batches .*: the data come as batches"),
        ({"x": SOURCES["PyDataset"]}, "sum over 3 batches .*: the data come as batches"),
    ],
    ids=["arrays", "split", "batch of all", "batches", "one batch", "unknown length", "PyDataset"],
)
def test_the_plan_says_how_examples_are_taken(given, said):
    history = tfjac.fit(mlp(), max_steps=2, **given)
    assert re.search(said, history.plan)
    assert history.status is tfjac.Status.MAX_STEPS and len(history.history["loss"]) <= 2


@pytest.mark.by_day(None)
@pytest.mark.parametrize("options", [{}, {"validation_split": 0.2}, {"batch_size": 25}], ids=" ".join)
def test_the_same_start_gives_the_same_weights(options):
    models = mlp(), mlp()
    for model in models:
        tfjac.fit(model, X, Y, max_steps=6, **options)
    np.testing.assert_array_equal(*map(_weights, models))


def test_the_plan_says_that_memory_decided():
    data = FittingData.of(X, Y, None, 0)
    batches = data.batches(mlp(), None, 2**12)
    number = sum(1 for _ in batches)
    said = data.in_words(batches, None)
    assert f"sum over {number} batches" in said and "all examples at once would not fit" in said
