"""Kronecker factors under mixed_bfloat16: factors, weights and the loss in float32, beside a network in float32."""

import keras
import numpy as np
import pytest

from tests.digits import load_digits
from tests.precision import floating
from tfjac.drive.streamed.kronecker import KroneckerMemory
from tfjac.optimizers import LevenbergMarquardt

layers = keras.layers
IMAGES, LABELS = load_digits()
X, Y = 2 * IMAGES[:700] - 1, LABELS[:700]
RNG = np.random.default_rng(0)


def perceptron():
    return [layers.Flatten(), layers.Dense(32, "tanh")]


def convolutions():
    body = [layers.Conv2D(8, 3, strides=2), layers.BatchNormalization(momentum=0.9), layers.Activation("relu")]
    return [layers.Reshape((8, 8, 1)), *body, layers.Flatten()]


def trained(policy, body):
    with floating(policy):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([layers.Input((8, 8)), *body(), layers.Dense(10)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(LevenbergMarquardt(), loss, jit_compile=False)
        return model, model.fit(X, Y, batch_size=50, epochs=4, verbose=0).history["loss"]


@pytest.mark.by_day(None)
@pytest.mark.filterwarnings("ignore:tfjac. moving statistics")
@pytest.mark.parametrize("body", [perceptron, convolutions])
def test_the_loss_falls_as_in_float32(body):
    _, single = trained("float32", body)
    model, half = trained("mixed_bfloat16", body)
    np.testing.assert_allclose(half, single, rtol=0.1)
    assert half[-1] < 0.2 * half[0] and model.optimizer.solver_used == "kronecker"
    assert all(variable.dtype != "bfloat16" for variable in model.optimizer.variables)


def one_layer(**options):
    with floating("mixed_bfloat16"):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([layers.Input((4,)), layers.Dense(3, use_bias=False)])
        model.compile(LevenbergMarquardt(**options), "mse", jit_compile=False)
    return model


@pytest.mark.by_day(None)
def test_factors_of_a_small_network_are_kept_in_float32():
    """12 weights: with mixed precision factors are kept whatever the size."""
    model, x = one_layer(), RNG.normal(size=(20, 4)).astype("float32")
    model.train_on_batch(x, np.sin(x[:, :3]))
    (part,) = model.optimizer._memory.model._parts
    left, right = (side.numpy()[0] for side in part._sides)
    np.testing.assert_allclose(left, x.T @ x / 20, rtol=2e-2, atol=2e-2)
    np.testing.assert_allclose(np.diag(right), 2 / 3, rtol=1e-2)
    assert isinstance(model.optimizer._memory.model, KroneckerMemory) and left.dtype == np.float32


@pytest.mark.parametrize(
    "options", [{"memory": None}, {"memory": 0.9}, {"memory": 2}, {"scaling": "marquardt"}, {"solver": "cholesky"}]
)
def test_what_needs_exact_derivatives_refuses(options):
    x = RNG.normal(size=(20, 4)).astype("float32")
    with pytest.raises(ValueError, match=r"mixed_bfloat16 goes with Kronecker factors alone.*which gives bfloat16"):
        one_layer(**options).train_on_batch(x, x[:, :3])


def test_a_loss_in_bfloat16_is_refused():
    model, x = one_layer(), RNG.normal(size=(20, 4)).astype("float32")

    class InHalf(keras.losses.Loss):
        def __call__(self, y_true, y_pred, sample_weight=None):
            return keras.ops.cast(keras.ops.mean((keras.ops.cast(y_true, "bfloat16") - y_pred) ** 2), "float32")

    model.compile(model.optimizer, InHalf(), jit_compile=False)
    with pytest.raises(ValueError, match=r"must compute in the dtype of its variables.*which gives bfloat16"):
        model.train_on_batch(x, x[:, :3])
