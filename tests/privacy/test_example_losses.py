"""Which losses and layers keep examples apart, and which are refused because an example has an effect on others."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.privacy.test_dp_optimizer import CLIP, CROSS_ENTROPY, LAYERS, N, one_step
from tfjac import privacy


def _normalised_by_the_batch(layer):
    inputs = keras.Input((6,))
    return keras.Model(inputs, LAYERS.Dense(3)(layer(LAYERS.Dense(4)(inputs))))


class MovingMean(LAYERS.Layer):
    """Subtracts a mean of earlier batches: no example of the batch is in the gradient of another one."""

    def build(self, shape):
        self.mean = self.add_weight(shape=shape[1:], initializer="zeros", trainable=False)

    def call(self, inputs):
        centred = inputs - self.mean
        self.mean.assign(0.9 * self.mean + 0.1 * keras.ops.mean(inputs, axis=0))
        return centred


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize(
    ("model", "loss", "message"),
    [
        (
            lambda: _normalised_by_the_batch(LAYERS.BatchNormalization()),
            "mse",
            "GroupNormalization",
        ),
        (
            lambda: _normalised_by_the_batch(LAYERS.Lambda(lambda t: t - keras.ops.mean(t, axis=0))),
            "mse",
            "examples mix at op",
        ),
        (
            lambda: _normalised_by_the_batch(MovingMean()),
            "mse",
            r"a layer keeps something of the data.*Received: op '.*moving_mean.*' of type AssignVariableOp",
        ),
        (
            lambda: _normalised_by_the_batch(LAYERS.Identity()),
            keras.losses.MeanSquaredError(reduction="mean_with_sample_weight"),
            "a number that the data of the batch decide",
        ),
        (lambda: _normalised_by_the_batch(LAYERS.Identity()), lambda y, p: tf.norm(y - p), "examples mix at op"),
    ],
)
def test_losses_and_layers_that_mix_examples_are_refused(model, loss, message):
    model = model()
    model.compile(privacy.DPOptimizer(keras.optimizers.SGD(1.0), 1.0, 1.0), loss=loss)
    with pytest.raises(privacy.NotApart, match=message):
        model.fit(np.zeros((8, 6), "float32"), np.zeros((8, 3), "float32"), verbose=0, sample_weight=np.ones(8))


def test_data_that_mix_before_the_first_weight_are_refused():
    """No gradient passes there, so per-example gradients alone would not tell."""
    inputs = keras.Input((6,))
    centred = LAYERS.Lambda(lambda t: t - keras.ops.mean(t, axis=0))(inputs)
    model = keras.Model(inputs, LAYERS.Dense(3)(centred))
    model.compile(privacy.DPOptimizer(keras.optimizers.SGD(1.0), 1.0, 1.0), loss="mse")
    with pytest.raises(privacy.NotApart, match="examples mix at op"):
        model.fit(np.zeros((8, 6), "float32"), np.zeros((8, 3), "float32"), verbose=0)


def _images(*layers):
    return keras.Sequential([keras.Input((6, 6, 1)), *layers, LAYERS.Flatten(), LAYERS.Dense(3)])


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    "model",
    [
        lambda: _images(LAYERS.RandomRotation(0.1), LAYERS.RandomZoom(0.1), LAYERS.RandomTranslation(0.1, 0.1)),
        lambda: _images(LAYERS.Reshape((6, 6)), LAYERS.Masking(), LAYERS.GRU(2)),
        lambda: _images(LAYERS.Discretization([0.2, 0.5]), LAYERS.Embedding(3, 2)),
        lambda: _images(LAYERS.Lambda(lambda t: keras.ops.one_hot(keras.ops.cast(t > 0, "int32"), 2))),
    ],
)
def test_preprocessing_inside_of_the_model(model):
    """Its ops are known to treat examples independently: the factors of the examples decide what moves."""
    keras.utils.set_random_seed(0)
    model = model()
    model.compile(privacy.DPOptimizer(keras.optimizers.SGD(1.0), CLIP, 0.0), CROSS_ENTROPY)
    rng = np.random.default_rng(13)
    moved = one_step(model, rng.normal(size=(N, 6, 6, 1)).astype("float32"), rng.integers(0, 3, N))
    assert 0 < np.sqrt(sum(np.sum(each**2) for each in moved)) <= CLIP
