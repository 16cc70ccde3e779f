"""Kronecker factors where examples depend on one another, as by batch normalisation: beside one tape of the batch."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.digits import load_digits
from tests.precision import floating
from tfjac.drive.streamed.kronecker import KroneckerMemory
from tfjac.graph import ExamplesMix
from tfjac.jacobians.rows.product_rows import drawn_rows
from tfjac.keras import memory
from tfjac.optimizers import LevenbergMarquardt

layers = keras.layers
RNG = np.random.default_rng(0)


@pytest.fixture
def factors_for_all(monkeypatch):
    """Keep factors of networks of any size."""
    monkeypatch.setattr(memory, "SMALL", 0)


def perceptron():
    body = [layers.Dense(5), layers.BatchNormalization(), layers.Activation("tanh")]
    return keras.Sequential([layers.Input((4,)), *body, layers.Dense(3)])


def convolutions():
    first = [layers.Conv2D(3, 3, use_bias=False), layers.BatchNormalization(), layers.Activation("relu")]
    second = [layers.Conv2D(4, 3, strides=2), layers.BatchNormalization(scale=False)]
    return keras.Sequential([layers.Input((6, 6, 2)), *first, *second, layers.Flatten(), layers.Dense(3)])


def by_one_tape(model, x, signs):
    """For each layer its input and ∂(Σ signs · outputs)/∂(its output), through the statistics."""
    with tf.GradientTape() as tape:
        inputs, outputs, z = [], [], tf.constant(x)
        tape.watch(z)
        for layer in model.layers:
            inputs.append(z)
            z = tf.identity(layer(z, training=True))
            outputs.append(z)
        total = tf.reduce_sum(signs * z)
    return [(a.numpy(), d.numpy()) for a, d in zip(inputs, tape.gradient(total, outputs))]


def sums_of_squares(layer, a, d):
    """G of each variable of a layer, in their order."""
    places = tuple(range(1, d.ndim - 1))
    of_bias = d.sum(axis=places)
    if isinstance(layer, layers.BatchNormalization):
        axis = tuple(range(d.ndim - 1))
        standardised = (a - a.mean(axis)) / np.sqrt(a.var(axis) + layer.epsilon)
        rows = [(standardised * d).sum(axis=places)] * layer.scale + [of_bias]
    else:
        rows = [d.reshape(-1, d.shape[-1]), of_bias][: len(layer.trainable_variables)]
    return [each.T @ each for each in rows]


@pytest.mark.by_day(None)
@pytest.mark.parametrize(("make", "shape"), [(perceptron, (20, 4)), (convolutions, (12, 6, 6, 2))])
def test_what_is_kept_is_of_the_cotangents_of_the_whole_batch(factors_for_all, make, shape):
    with floating("float64"):
        keras.utils.set_random_seed(1)
        model, x, y = make(), RNG.normal(size=shape), RNG.normal(size=(shape[0], 3))
        model.compile(LevenbergMarquardt(), "mse", jit_compile=False)
        bits = tf.random.stateless_uniform(y.shape, [0, 0], 0, 2, tf.int32).numpy()
        pairs = by_one_tape(model, x, (2 * bits - 1) * np.sqrt(2 / y.size))
        model.train_on_batch(x, y)
        kept = model.optimizer._memory.model._parts
        expected = [g for layer, pair in zip(model.layers, pairs) for g in sums_of_squares(layer, *pair)]
        for part, g in zip(kept, expected, strict=True):
            np.testing.assert_allclose(part._sides[1].numpy()[0], g, rtol=1e-9, atol=1e-12)
        a = pairs[-1][0]
        np.testing.assert_allclose(kept[-2]._sides[0].numpy()[0], a.T @ a / len(a), rtol=1e-9)


MIXERS = {
    "its mean": lambda z: z - tf.reduce_mean(z, 0),
    "its largest": lambda z: z / (1 + tf.reduce_max(tf.abs(z), 0)),
    "all others": lambda z: tf.matmul(z, z, transpose_b=True) @ tf.ones([9, 2], z.dtype),
    "a share of all": lambda z: z / tf.reduce_sum(tf.exp(z)),
    "a mean that is all there is": lambda z: tf.tanh(z[:, :1]) * tf.reduce_mean(z[:, 1:], 0),
}


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name", MIXERS)
def test_rows_add_up_to_the_gradient_and_products_are_exact(name):
    v, w, x = (RNG.normal(size=size) for size in ((4, 3), (3,), (9, 4)))
    variables = [tf.Variable(v), tf.Variable(w)]

    def z():
        return MIXERS[name](tf.tanh(x @ variables[0]) * variables[1])

    direction, number = RNG.normal(size=15), 7

    @tf.function(autograph=False)
    def found():
        rows = drawn_rows([z()], variables, tf.constant(number, tf.int64))
        return rows._sketch.to_dense(), rows.matvec(tf.constant(direction))

    sketch, product = (each.numpy() for each in found())
    with tf.GradientTape(persistent=True) as tape:
        output = z()
        bits = tf.random.stateless_uniform([9, output.shape[1]], [number, 0], 0, 2, tf.int32)
        total = tf.reduce_sum(output * tf.cast(2 * bits - 1, tf.float64))
    gradient = np.concatenate([each.numpy().ravel() for each in tape.gradient(total, variables)])
    np.testing.assert_allclose(sketch.sum(axis=0), gradient, rtol=1e-9, atol=1e-12)
    jacobian = np.concatenate(
        [j.numpy().reshape(output.shape.num_elements(), -1) for j in tape.jacobian(output, variables)], 1
    )
    np.testing.assert_allclose(product, jacobian @ direction, rtol=1e-9, atol=1e-12)


def test_loops_on_the_way_are_refused_by_name():
    weight, x = tf.Variable(RNG.normal(size=(3, 3))), RNG.normal(size=(9, 3))

    @tf.function(autograph=False)
    def found():
        _, z = tf.while_loop(lambda k, z: k < 3, lambda k, z: (k + 1, tf.tanh(z @ weight)), (0, tf.constant(x)))
        return drawn_rows([z - tf.reduce_mean(z, 0)], [weight], tf.constant(0, tf.int64)).column_norms_squared()

    with pytest.raises(ExamplesMix, match="loops or branches"):
        found()


@pytest.mark.filterwarnings("ignore:tfjac. moving statistics")
def test_moving_statistics_are_those_of_keras(factors_for_all):
    with floating("float64"):
        models = []
        for optimizer in (LevenbergMarquardt(), keras.optimizers.SGD(0.1)):
            keras.utils.set_random_seed(1)
            models.append(perceptron())
            models[-1].compile(optimizer, "mse", jit_compile=False)
        x, y = RNG.normal(size=(20, 4)), RNG.normal(size=(20, 3))
        for _ in range(3):
            for model in models:
                model.train_on_batch(x, y)
            models[1].set_weights(
                [*models[0].get_weights()[:4], *models[1].get_weights()[4:6], *models[0].get_weights()[6:]]
            )
        for one, two in zip(*(model.layers[1].non_trainable_variables for model in models)):
            np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=1e-9)


@pytest.mark.by_day(None)
@pytest.mark.filterwarnings("ignore:tfjac. moving statistics")
def test_digits_with_176_thousand_weights_beside_adam():
    images, labels = load_digits()
    x = np.kron(2 * images - 1, np.ones((3, 3))).reshape(-1, 576).astype("float32")
    losses = []
    for optimizer in (LevenbergMarquardt(), keras.optimizers.Adam(3e-3)):
        keras.utils.set_random_seed(0)
        parts = [layers.Dense(300), layers.BatchNormalization(), layers.Activation("relu"), layers.Dense(10)]
        model = keras.Sequential([layers.Input((576,)), *parts])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer, loss, jit_compile=False)
        losses.append(model.fit(x, labels, batch_size=64, epochs=2, verbose=0).history["loss"][-1])
        if isinstance(optimizer, LevenbergMarquardt):
            assert isinstance(optimizer._memory.model, KroneckerMemory) and optimizer.solver_used == "kronecker"
    assert losses[0] < losses[1]


@pytest.mark.by_day(None)
@pytest.mark.filterwarnings("ignore:tfjac. moving statistics")
@pytest.mark.parametrize("mixes", [False, True])
def test_a_small_network_has_factors_only_where_examples_mix(mixes):
    keras.utils.set_random_seed(0)
    norm = [layers.BatchNormalization()] if mixes else []
    model = keras.Sequential([layers.Input((20,)), layers.Dense(20), *norm, layers.Activation("tanh"), layers.Dense(1)])
    model.compile(LevenbergMarquardt(), "mse", jit_compile=False)
    x = RNG.normal(size=(60, 20)).astype("float32")
    losses = model.fit(x, np.sin(x[:, :1]), batch_size=20, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0] and isinstance(model.optimizer._memory.model, KroneckerMemory) is mixes
