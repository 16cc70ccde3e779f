"""Layers of cuDNN that are not taken apart: traced here, for nothing of it runs without a GPU."""

import sys

import keras
import pytest
import tensorflow as tf

import tfjac


@pytest.fixture
def cudnn(monkeypatch):
    """Make Keras build its LSTM as it does where there is a GPU, which is taken for one of another kind."""
    monkeypatch.setattr("tfjac.graph.copying.cudnn.is_layer_of_cudnn", lambda op: False)
    monkeypatch.setattr(sys.modules["keras.src.backend.tensorflow.rnn"], "cudnn_ok", lambda *_, **__: True)


def traced(compute):
    """Trace a function of an LSTM's outputs and weights; nothing runs."""
    model = keras.Sequential([keras.Input((5, 3)), keras.layers.LSTM(4), keras.layers.Dense(2)])
    x = tf.ones([6, 5, 3])

    def function(x):
        return compute(model(x), [variable.value for variable in model.trainable_variables], x)

    return tf.function(function, autograph=False).get_concrete_function(x)


def test_weights_are_taken_example_by_example_with_advice(cudnn):
    with pytest.warns(UserWarning, match=r"CudnnRNNV3.*use_cudnn=False"):
        found = traced(lambda y, weights, x: tfjac.per_example_jacobian(y, weights))
    assert [tuple(each.shape) for each in found.structured_outputs] == [
        (6, 2, 3, 16), (6, 2, 4, 16), (6, 2, 16), (6, 2, 4, 2), (6, 2, 2)
    ]  # fmt: skip


def test_inputs_are_refused_with_advice(cudnn):
    with pytest.raises(tfjac.ExamplesMix, match=r"CudnnRNNV3.*use_cudnn=False"):
        traced(lambda y, weights, x: tfjac.batch_jacobian(y, x))


def test_forward_mode_is_refused_with_advice(cudnn):
    with pytest.raises(LookupError, match=r"no forward mode.*use_cudnn=False"):
        traced(lambda y, weights, x: tfjac.jvp(y, weights, [tf.ones_like(each) for each in weights]))
