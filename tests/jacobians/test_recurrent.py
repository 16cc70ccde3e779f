"""Recurrent layers, against one tape.gradient per row."""

import functools
import sys
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import tfjac
from tests.fixtures import ON_GPU
from tests.jacobians.oracles import rows_one_at_a_time
from tests.jacobians.test_layers import assert_equals_oracle, functional, jacobian_and_way, sequential
from tests.precision import floating

N, T = 3, 4
NOT_BY_CUDNN = pytest.mark.skipif(ON_GPU, reason="not by cuDNN: masks in the middle, empty batches, XLA")


def two_outputs(*stack, shape=(T, 3)):
    return sequential(*stack, layers.Dense(2), shape=shape)


def flattened(layer, shape):
    return two_outputs(layer, layers.Flatten(), shape=shape)


def encoder_decoder():
    """The states of one recurrent layer start another."""

    def build(x):
        _, *states = layers.LSTM(2, return_state=True)(x)
        return layers.Dense(2)(layers.LSTM(2)(x, initial_state=states))

    return functional((T, 3), build)


LAYERS = {
    "SimpleRNN": lambda: two_outputs(layers.SimpleRNN(3)),
    "LSTM": lambda: two_outputs(layers.LSTM(3)),
    "LSTM unrolled": lambda: two_outputs(layers.LSTM(2, unroll=True)),
    "LSTM with dropout, inference": lambda: two_outputs(layers.LSTM(2, dropout=0.3, recurrent_dropout=0.2)),
    "LSTM sequences": lambda: two_outputs(layers.LSTM(2, return_sequences=True)),
    "LSTM encoder and decoder": encoder_decoder,
    "GRU": lambda: two_outputs(layers.GRU(3)),
    "GRU reset before": lambda: two_outputs(layers.GRU(2, reset_after=False)),
    "Bidirectional GRU sum, LSTM": lambda: sequential(
        layers.Bidirectional(layers.GRU(2, return_sequences=True), merge_mode="sum"), layers.LSTM(2), shape=(T, 3)
    ),
    "stacked, Dense in front": lambda: sequential(
        layers.Dense(3, "tanh"), layers.LSTM(2, return_sequences=True), layers.SimpleRNN(2), shape=(T, 3)
    ),
    "masked": lambda: sequential(layers.Masking(), layers.LSTM(2, return_sequences=True), layers.GRU(2), shape=(T, 3)),
    "Embedding with a mask": lambda: two_outputs(layers.Embedding(5, 3, mask_zero=True), layers.LSTM(2), shape=(T,)),
    "RNN of stacked cells": lambda: two_outputs(
        layers.RNN(layers.StackedRNNCells([layers.LSTMCell(2), layers.GRUCell(2)]))
    ),
    "TimeDistributed": lambda: sequential(layers.TimeDistributed(layers.Dense(2)), layers.GRU(2), shape=(T, 3)),
    "ConvLSTM1D": lambda: flattened(layers.ConvLSTM1D(2, 2), (3, 4, 2)),
    "ConvLSTM2D": lambda: flattened(layers.ConvLSTM2D(2, 2, padding="same"), (2, 3, 3, 2)),
}


def build(name, dtype="float64"):
    """Make the model and an input for it, with weights moved off their initial values."""
    keras.utils.set_random_seed(7)
    rng = np.random.default_rng(20260)
    with floating(dtype):
        model = LAYERS[name]()
    for v in model.trainable_variables:
        v.assign(v + 0.3 * rng.normal(size=v.shape).astype(dtype))
    shape = (N, *model.inputs[0].shape[1:])
    if "Embedding" in name:
        return model, rng.integers(0, 5, shape).astype(dtype)
    x = rng.normal(size=shape).astype(dtype)
    return model, x * (rng.random((N, T, 1)) > 0.4) if name == "masked" else x


@functools.cache
def built_with_rows(name):
    """A model in double precision, its input, and its rows from the oracle; no test changes any."""
    model, inputs = build(name)
    return model, inputs, oracle_of(model, inputs, model.trainable_variables)


def oracle_of(model, inputs, variables):
    values = [v.value if isinstance(v, keras.Variable) else v for v in variables]
    oracle = rows_one_at_a_time(model, inputs, values)
    assert any(np.abs(rows).max() > 1e-3 for rows in oracle)
    return oracle


def assert_by_rule(model, inputs, variables, batch, tolerance=1e-10, oracle=None, **options):
    """Compare with the oracle, or with what it said before, and see that no fallback was taken."""
    oracle = oracle or oracle_of(model, inputs, variables)
    jacobian, way = jacobian_and_way(model, inputs, variables, batch, **options)
    assert_equals_oracle(jacobian, oracle, variables, tolerance)
    assert way == "rule"


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", LAYERS)
def test_every_layer(name, record_coverage):
    model, inputs, oracle = built_with_rows(name)
    assert_by_rule(model, inputs, model.trainable_variables, batch=None, oracle=oracle)
    record_coverage(name, "rule")


@NOT_BY_CUDNN
@pytest.mark.by_day(None)
def test_fixed_batch():
    model, inputs, oracle = built_with_rows("masked")
    assert_by_rule(model, inputs, model.trainable_variables, batch=N, oracle=oracle)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", [pytest.param("GRU", marks=NOT_BY_CUDNN), "ConvLSTM1D"])  # and an LSTM below
def test_under_xla_in_single_precision(name):
    model, inputs = build(name, "float32")
    assert_by_rule(model, inputs, model.trainable_variables, batch=N, tolerance=2e-5, jit_compile=True)


@functools.cache
def of_open_length():
    model = two_outputs(layers.Masking(), layers.LSTM(2), shape=(None, 3))
    inputs = np.random.default_rng(20260).normal(size=(N, T, 3)).astype("float32")
    return model, inputs, oracle_of(model, inputs, model.trainable_variables)


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=NOT_BY_CUDNN)], ids=["graph", "jit"])
def test_open_length(jit_compile):
    model, inputs, oracle = of_open_length()
    assert_by_rule(model, inputs, model.trainable_variables, None, 2e-5, oracle, jit_compile=jit_compile)


OF_CUDNN = {
    "LSTM": lambda: two_outputs(layers.LSTM(3)),
    "bidirectional": lambda: two_outputs(layers.Bidirectional(layers.GRU(2, return_sequences=True)), layers.LSTM(3)),
    "masked": lambda: two_outputs(layers.Masking(), layers.LSTM(3, return_sequences=True), layers.GRU(2)),
    "backwards, of open length": lambda: two_outputs(layers.GRU(3, go_backwards=True), shape=(None, 3)),
}


@pytest.mark.by_day("values")
@pytest.mark.parametrize("batch", [None, N])
@pytest.mark.parametrize("name", OF_CUDNN)
def test_layers_that_cudnn_computes(name, batch, monkeypatch, rng):
    """As Keras calls it where there is a GPU; the call itself, which nothing reads, is left out of what runs here."""
    keras_rnn = sys.modules[keras.src.backend.rnn.__module__]
    model, x = OF_CUDNN[name](), rng.normal(size=(N, T, 3))
    x[1, 2:] = 0.0
    oracle = oracle_of(model, x, model.trainable_variables)
    with monkeypatch.context() as patch:
        patch.setattr(keras_rnn, "_is_gpu_available", lambda: True)
        on_gpu = OF_CUDNN[name]()
        on_gpu.set_weights(model.get_weights())
        spec = tf.TensorSpec([batch, *model.input_shape[1:]], x.dtype)
        jacobian = lambda x: tfjac.per_example_jacobian(lambda: on_gpu(x), on_gpu.trainable_variables)  # noqa: E731
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            traced = tf.compat.v1.wrap_function(jacobian, [spec])
    assert [op for op in traced.graph.get_operations() if op.type == "CudnnRNNV3"]
    assert_equals_oracle(traced.prune(traced.inputs[:1], traced.outputs)(tf.constant(x)), oracle, model.weights, 1e-10)


@pytest.mark.by_day(None)
def test_in_chunks_and_of_nothing():
    model, inputs, oracle = built_with_rows("stacked, Dense in front")
    variables = model.trainable_variables
    assert_by_rule(model, inputs, variables, batch=N, oracle=oracle, chunk_size=1)
    jacobian, _ = jacobian_and_way(model, inputs[:0], variables, batch=None)
    assert [block.shape for block in jacobian] == [(0, 2, *v.shape) for v in variables]


@NOT_BY_CUDNN
@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", ["LSTM sequences", "stacked, Dense in front"])
def test_products_of_nothing(name):
    """Without examples, where TensorFlow has lost the sizes of features, there are still as many columns as weights."""
    model, inputs = build(name)
    size = model.count_params()

    @tf.function(input_signature=[tf.TensorSpec([None, *inputs.shape[1:]], tf.float64)], autograph=False)
    def products(x):
        operator = tfjac.jacobian_operator(model(x), model.trainable_variables)
        return operator.gram(), operator.matvec(tf.zeros([operator.num_rows], tf.float64), adjoint=True)

    gram, adjoint = products(inputs[:0])
    np.testing.assert_array_equal(gram, np.zeros([size, size]))
    np.testing.assert_array_equal(adjoint, np.zeros(size))


@pytest.mark.by_day(None)
def test_products_without_rows():
    """The operator of a recurrent model keeps factors, and its products are those of its rows."""
    model, inputs, rows = built_with_rows("LSTM")
    dense = np.concatenate([block.reshape(2 * N, -1) for block in rows], 1)

    @tf.function(autograph=False)
    def products(x):
        operator = tfjac.jacobian_operator(model(x), model.trainable_variables)
        return operator.gram(), operator.kernel(), operator.row_norms()

    gram, kernel, norms = products(inputs)
    np.testing.assert_allclose(gram, dense.T @ dense, atol=1e-10)
    np.testing.assert_allclose(kernel, dense @ dense.T, atol=1e-10)
    np.testing.assert_allclose(norms, np.linalg.norm(dense, axis=1), atol=1e-10)


@pytest.mark.by_day(None)
def test_differentiates_again(rng):
    """The gradient of ‖J‖² by a tape around the function, against central differences."""
    model, inputs = build("GRU")
    weight = model.trainable_variables[1].value

    @tf.function(autograph=False)
    def size(x):
        jacobian = tfjac.per_example_jacobian(model(x), model.trainable_variables)
        return tf.add_n([tf.reduce_sum(block**2) for block in jacobian])

    with tf.GradientTape() as tape:
        value = size(inputs)
    gradient = tape.gradient(value, weight)
    direction, step, start = rng.normal(size=weight.shape), 1e-5, weight.numpy()
    ends = []
    for sign in (1, -1):
        weight.assign(start + sign * step * direction)
        ends.append(size(inputs).numpy())
    np.testing.assert_allclose(np.sum(gradient * direction), (ends[0] - ends[1]) / (2 * step), rtol=1e-6)
