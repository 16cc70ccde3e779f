"""Explanations know ops by the facts of the graph layer: convolutions of all kinds, and what keeps images."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfjac import explanations

LAYERS = keras.layers
CONVOLUTIONS = {
    "transposed": (LAYERS.Conv2DTranspose(2, 3, strides=2), (3, 4, 2)),
    "transposed in 3-D": (LAYERS.Conv3DTranspose(2, 2), (2, 3, 2, 1)),
    "by channel": (LAYERS.DepthwiseConv2D(2, depth_multiplier=2), (3, 3, 2)),
    "in 3-D": (LAYERS.Conv3D(2, 2), (2, 3, 2, 1)),
}


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_lrp_of_convolutions(kind):
    """R_i = Σ_j x_i w'_ij / (Σ_i x_i w'_ij + b_j) R_j with w' = w + γ max(w, 0), the weights as a matrix."""
    layer, shape = CONVOLUTIONS[kind]
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).uniform(0.5, 1.5, size=(2, *shape)).astype("float32")
    model = keras.Sequential([keras.Input(shape), layer, LAYERS.Flatten()])
    layer.bias.assign(np.random.default_rng(1).uniform(0.1, 0.2, layer.bias.shape))
    count, bias = int(np.prod(shape)), model(np.zeros((1, *shape), "float32")).numpy().astype(float)
    weights = model(np.eye(count, dtype="float32").reshape(count, *shape)).numpy() - bias
    moved, flat, scores = weights + 0.5 * np.maximum(weights, 0), x.reshape(2, count), model(x).numpy()
    classes = scores.argmax(axis=1)
    expected = [
        row * moved[:, j] / (row @ moved[:, j] + bias[0, j]) * all_scores[j]
        for row, all_scores, j in zip(flat, scores, classes)
    ]
    found = explanations.lrp(model, x, rule="gamma", gamma=0.5, epsilon=0.0)
    np.testing.assert_allclose(found.attributions.reshape(2, count), expected, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("keeps", [lambda x: x / 2.0, lambda x: x**2, lambda x: tf.image.resize(x, [4, 4], "bicubic")])
def test_what_keeps_images_is_shown(keeps):
    """The maps are those behind the op, with the mean gradients of a tape there as weights."""
    keras.utils.set_random_seed(0)
    first, last = LAYERS.Conv2D(3, 3), LAYERS.Dense(2)
    x = np.random.default_rng(0).normal(size=(2, 6, 6, 1)).astype("float32")

    def model(x):
        return last(tf.reduce_max(keeps(first(x)), axis=[1, 2]))

    model(x)
    with tf.GradientTape() as tape:
        value = keeps(first(x))
        tape.watch(value)
        scores = last(tf.reduce_max(value, axis=[1, 2]))
        chosen = tf.reduce_max(scores, axis=1)
    slopes = tf.reduce_mean(tape.gradient(chosen, value), [1, 2], keepdims=True)
    found = explanations.grad_cam(model, x)
    np.testing.assert_allclose(
        found.details["maps"], tf.nn.relu(tf.reduce_sum(slopes * value, -1)), rtol=1e-4, atol=1e-6
    )
