"""Per-example Jacobians and gradients: properties that hold whatever the model, and what is live at once."""

import functools
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import tfjac
from tests.jacobians import networks
from tests.jacobians.oracles_full import assert_all_close, full_jacobian
from tests.precision import floating

in_graph = functools.partial(tf.function, autograph=False)

LIMITS = [{"chunk_size": 1}, {"chunk_size": 9}, {"memory_budget": 500}]


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", ["mlp", "grouped_cnn", "embedding"])
def test_chunked_equals_whole(name, rng):
    model = getattr(networks, name)()
    x = {"mlp": rng.normal(size=(4, 3)), "grouped_cnn": rng.normal(size=(2, 4, 4, 3))}.get(name)
    x = tf.constant(rng.integers(0, 50, (3, 5)), tf.int32) if x is None else tf.constant(x)
    expected = full_jacobian(lambda: model(x), [v.value for v in model.trainable_variables])
    signature = [tf.TensorSpec([None, *x.shape[1:]], x.dtype)]
    for limits in LIMITS:
        compute = in_graph(
            lambda x, limits=limits: tfjac.per_example_jacobian(model(x), model.trainable_variables, **limits),
            input_signature=signature,
        )
        results = compute(x)
        assert_all_close(results, expected, 1e-11)
    assert [tuple(r.shape) for r in compute(x[:0])] == [(0, 2, *v.shape) for v in model.trainable_variables]


def test_chunked_under_xla(rng):
    model, x = networks.mlp(outputs=5), tf.constant(rng.normal(size=(4, 3)))
    expected = full_jacobian(lambda: model(x), [v.value for v in model.trainable_variables])
    compute = in_graph(
        lambda x: tfjac.per_example_jacobian(model(x), model.trainable_variables, chunk_size=2), jit_compile=True
    )
    assert_all_close(compute(x), expected, 1e-11)


def test_chunked_behind_a_softmax_with_an_open_batch(rng):
    """`tf.vectorized_map` forgets the rank of the gradient of such a softmax."""
    table, ids = tf.Variable(rng.normal(size=(4, 2))), tf.constant(rng.integers(0, 4, (3, 2, 3)))

    def function(ids):
        return tf.tile(tf.nn.softmax(tf.gather(table, ids)), [1, 1, 1, 2])

    signature = [tf.TensorSpec([None, 2, 3], ids.dtype)]
    compute = in_graph(
        lambda ids: tfjac.per_example_jacobian(function(ids), [table], chunk_size=5), input_signature=signature
    )
    assert_all_close(compute(ids), full_jacobian(lambda: function(ids), [table]), 1e-12)


@pytest.mark.core
@pytest.mark.parametrize("limits", [{}, {"chunk_size": 3}])
def test_mixing_examples_in_full(limits, rng):
    model, x = networks.normalised(), tf.constant(rng.normal(size=(4, 3)))
    expected = full_jacobian(lambda: model(x, training=True), [v.value for v in model.trainable_variables])
    with pytest.warns(UserWarning, match="examples mix"):
        results = tfjac.per_example_jacobian(
            lambda: model(x, training=True), model.trainable_variables, examples_mix="full", **limits
        )
    assert_all_close(results, expected, 1e-10)


@pytest.mark.core
def test_sum_of_examples_is_the_batch_gradient(rng):
    model, x = networks.grouped_cnn(), tf.constant(rng.normal(size=(4, 4, 4, 3)))

    def losses():
        return tf.reduce_sum(tf.square(model(x)), axis=1)

    with tf.GradientTape() as tape:
        loss = in_graph(lambda: tf.reduce_sum(losses()))()
    batch = tape.gradient(loss, [v.value for v in model.trainable_variables])
    per_example = tfjac.per_example_gradients(losses, model.trainable_variables)
    assert_all_close([tf.reduce_sum(g, 0) for g in per_example], [g.numpy() for g in batch], 1e-11)


@pytest.mark.core
def test_permuted_batch_permutes(rng):
    model, x = networks.mlp(), tf.constant(rng.normal(size=(6, 3)))
    order = rng.permutation(6)
    compute = in_graph(lambda x: tfjac.per_example_jacobian(model(x), model.trainable_variables))
    assert_all_close(compute(tf.gather(x, order)), [j.numpy()[order] for j in compute(x)], 1e-13)


def test_the_jacobian_is_differentiated_again(rng):
    """½‖J‖² of y = sin(x·w): J[n] = cos(x[n]·w) x[n], so the gradient is −Σ sin·cos·‖x[n]‖²·x[n]."""
    x, weight = rng.normal(size=(4, 3)), tf.Variable(rng.normal(size=(3, 1)))
    for limits in ({}, {"chunk_size": 1}):
        with tf.GradientTape() as tape:
            rows = tfjac.per_example_jacobian(lambda: tf.sin(x @ weight), weight, **limits)
            energy = tf.reduce_sum(rows**2) / 2
        z = (x @ weight.numpy())[:, 0]
        expected = -np.einsum("n,ni->i", np.sin(z) * np.cos(z) * np.sum(x**2, 1), x)[:, None]
        assert_all_close(tape.gradient(energy, weight), expected, 1e-12)


@pytest.mark.core
@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_weight_behind_a_transpose(order, rng):
    weight, x = tf.Variable(rng.normal(size=(3, 3))), tf.constant(rng.normal(size=(4, 3)))

    def function():
        return tf.matmul(x, tf.transpose(weight, order))

    assert_all_close(tfjac.per_example_jacobian(function, [weight]), full_jacobian(function, [weight]), 1e-12)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("signature", [None, [tf.TensorSpec([None, 4, 4, 1], tf.float64)]], ids=["static", "open"])
def test_a_convolution_whose_positions_go_into_the_batch_and_back(signature, rng):
    kernel, x = tf.Variable(rng.normal(size=(3, 3, 1, 2))), tf.constant(rng.normal(size=(3, 4, 4, 1)))

    def function(x):
        blocks = tf.space_to_batch(tf.nn.conv2d(x, kernel, 1, "SAME"), [2, 2], [[0, 0], [0, 0]])
        return tf.reshape(tf.batch_to_space(blocks, [2, 2], [[0, 0], [0, 0]]), [tf.shape(x)[0], -1])

    compute = in_graph(lambda x: tfjac.per_example_jacobian(function(x), [kernel]), input_signature=signature)
    assert_all_close(compute(x), full_jacobian(lambda: function(x), [kernel]), 1e-12)


@pytest.mark.parametrize("signature", [None, [tf.TensorSpec([None, 4], tf.float64)]], ids=["static", "open"])
def test_custom_gradient_with_a_weight_as_argument(signature, rng):
    kernel, beta = tf.Variable(rng.normal(size=(4, 3))), tf.Variable(0.7, dtype=tf.float64)
    x = tf.constant(rng.normal(size=(5, 4)))

    def function(x):
        return tf.reshape(tf.nn.swish(tf.matmul(x, kernel), beta), [tf.shape(x)[0], -1])

    compute = in_graph(lambda x: tfjac.per_example_jacobian(function(x), [kernel, beta]), input_signature=signature)
    with pytest.warns(UserWarning, match="IdentityN"):
        results = compute(x)
    assert_all_close(results, full_jacobian(lambda: function(x), [kernel, beta]), 1e-11)


@pytest.mark.by_day(None)
def test_map_over_time_with_an_open_batch(rng):
    weight, x = tf.Variable(rng.normal(size=(2, 3))), tf.constant(rng.normal(size=(4, 5, 2)))

    def function(x):
        steps = tf.map_fn(lambda step: tf.tanh(tf.matmul(step, weight)), tf.transpose(x, [1, 0, 2]))
        return tf.reshape(tf.transpose(steps, [1, 0, 2]), [tf.shape(x)[0], -1])

    signature = [tf.TensorSpec([None, 5, 2], tf.float64)]
    compute = in_graph(lambda x: tfjac.per_example_jacobian(function(x), [weight]), input_signature=signature)
    assert_all_close(compute(x), full_jacobian(lambda: function(x), [weight]), 1e-11)


ALONE = {
    "layer_normalised": ((4,), lambda: [layers.Dense(3), layers.LayerNormalization(), layers.Dense(2)]),
    "group_normalised": ((5, 5, 2), lambda: [layers.Conv2D(4, 3), layers.GroupNormalization(2), layers.Flatten()]),
    "one_channel": ((6, 1), lambda: [layers.Conv1D(2, 3), layers.Flatten(), layers.Dense(2)]),
    "one_feature": ((1,), lambda: [layers.Dense(1, "tanh"), layers.Dense(1)]),
    "recurrent": ((4, 2), lambda: [layers.LSTM(3), layers.Dense(2)]),
    "one_step": ((1, 1), lambda: [layers.GRU(2), layers.Dense(1)]),
}


@pytest.mark.core
@pytest.mark.parametrize("name", ALONE)
def test_a_batch_of_one(name, rng):
    """Shapes do not tell the axis of the only example from others of size 1, and Keras squeezes it away in LSTMs."""
    with floating("float64"):
        shape, body = ALONE[name]
        model, x = keras.Sequential([keras.Input(shape), *body()]), tf.constant(rng.normal(size=(1, *shape)))
        variables = [v.value for v in model.trainable_variables]
        expected = full_jacobian(lambda: model(x), [*variables, x])

        @tf.function
        def compute(x):
            y = model(x)
            return tfjac.per_example_jacobian(y, variables), tfjac.batch_jacobian(y, x)

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found, of_inputs = compute(x)
    assert_all_close(found, expected[:-1], 1e-11)
    assert_all_close(of_inputs, np.squeeze(expected[-1], axis=len(model.output_shape)), 1e-11)
