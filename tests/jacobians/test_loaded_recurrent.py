"""Recurrent layers in a SavedModel: in the bodies of its loops variables have no shapes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians.oracles import rows_one_at_a_time


@pytest.mark.by_day(None)
@pytest.mark.filterwarnings("error:tfjac. examples mix")
@pytest.mark.parametrize("layer", ["LSTM", "GRU", "SimpleRNN"])
def test_fit_as_the_model_that_was_saved(layer, tmp_path, rng):
    x, y = tf.constant(rng.normal(size=(4, 3, 2)), tf.float32), tf.constant(rng.normal(size=(4, 2)), tf.float32)
    model = keras.Sequential([keras.Input((3, 2)), getattr(keras.layers, layer)(3), keras.layers.Dense(2)])
    model.export(tmp_path, verbose=False)
    loaded, inputs = keras.layers.TFSMLayer(tmp_path, call_endpoint="serve"), keras.Input((3, 2))
    histories = []
    for each in (model, keras.Model(inputs, loaded(inputs))):
        each.compile(optimizer=tfjac.LevenbergMarquardt(), loss="mse")
        histories.append(each.fit(x, y, epochs=2, verbose=0).history["loss"])
    np.testing.assert_allclose(*histories, rtol=1e-3)


def test_per_example_jacobians(tmp_path, rng):
    x = rng.normal(size=(3, 4, 2)).astype("float32")
    model = keras.Sequential([keras.Input((4, 2)), keras.layers.LSTM(3)])
    model.export(tmp_path, verbose=False)
    loaded = tf.saved_model.load(tmp_path)
    variables = list(loaded.trainable_variables)
    found = tfjac.per_example_jacobian(lambda: loaded.serve(x), variables)
    for jacobian, expected in zip(found, rows_one_at_a_time(loaded.serve, x, variables), strict=True):
        np.testing.assert_allclose(jacobian, expected, rtol=1e-4, atol=1e-6)
