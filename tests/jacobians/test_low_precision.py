"""Half precision: what is computed in float16 and bfloat16, and where it must not overflow."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians.oracles_full import full_jacobian
from tests.jacobians.test_layers import MODELS, build

POLICIES = {"mixed_float16": 1e-2, "mixed_bfloat16": 6e-2, "float16": 1e-2, "bfloat16": 6e-2}
CASES = [
    ("mixed_float16", "Conv2D"),
    ("mixed_float16", "MultiHeadAttention"),
    ("mixed_bfloat16", "Dense rank 3"),
    ("float16", "Embedding"),
    ("float16", "LayerNormalization"),
    ("bfloat16", "Dense rank 3"),
    ("bfloat16", "DepthwiseConv2D"),
]


@contextlib.contextmanager
def policy(name):
    """Keras' policy, and its float type where the variables are in half precision too."""
    keras.config.set_dtype_policy(name)
    keras.config.set_floatx("float32" if name.startswith("mixed") else name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy("float32")
        keras.config.set_floatx("float32")


def half(name, layer, single, inputs):
    """The same network under another policy: `(model, losses)`."""
    with policy(name):
        model = MODELS[layer]()
    inputs = tf.nest.map_structure(
        lambda x: tf.cast(x, model.variable_dtype) if x.dtype.kind == "f" else tf.constant(x), inputs
    )
    model(inputs)
    model.set_weights(single.get_weights())
    return model, losses_of(model, inputs)


def losses_of(model, inputs):
    """The outputs of each example added up."""

    def losses():
        y = model(inputs)
        return tf.reduce_sum(tf.reshape(y, [y.shape[0], -1]), 1)

    return losses


@pytest.mark.by_day(None)
@pytest.mark.parametrize(("name", "layer"), CASES)
def test_policies(name, layer, rng):
    """Close to what the same network gives in single precision, in the documented dtypes."""
    single, inputs = build(layer, "float32", rng)
    expected = full_jacobian(losses_of(single, inputs), [v.value for v in single.trainable_variables])
    model, losses = half(name, layer, single, inputs)
    variables = model.trainable_variables
    norms = np.sqrt(sum(np.sum(g.reshape(len(g), -1) ** 2, 1) for g in expected))
    clipped = [np.tensordot(np.minimum(1, 0.5 / norms), g, 1) for g in expected]
    found = tfjac.per_example_jacobian(losses, variables)
    for blocks, wanted in ((found, expected), (tfjac.clipped_gradients(losses, variables, 0.5), clipped)):
        for block, rows, v in zip(blocks, wanted, variables):
            assert block.dtype == v.dtype
            scale = max(1, np.abs(rows).max())
            np.testing.assert_allclose(
                tf.cast(block, tf.float64) / scale, rows / scale, atol=POLICIES[name], err_msg=v.path
            )
    found_norms = tfjac.per_example_gradient_norms(losses, variables)
    assert found_norms.dtype == losses().dtype
    np.testing.assert_allclose(tf.cast(found_norms, tf.float64), norms, rtol=5 * POLICIES[name])
    operator = tfjac.jacobian_operator(losses, variables)
    assert operator.dtype == tf.float32
    np.testing.assert_allclose(operator.row_norms(), norms, rtol=5 * POLICIES[name])


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_norms_whose_squares_overflow(dtype):
    """‖∂L/∂w‖ = 1000·‖x‖ = 5000, whose square no float16 holds."""
    weight, x = tf.Variable(tf.ones([2], dtype)), tf.constant([[3, 4], [0, 5]], dtype)

    def losses():
        return tf.reduce_sum(tf.cast(1000, dtype) * x * weight, 1)

    np.testing.assert_allclose(tf.cast(tfjac.per_example_gradient_norms(losses, weight), tf.float32), 5000, rtol=1e-2)
    gradient = tfjac.clipped_gradients(losses, weight, 1)
    assert gradient.dtype == dtype
    np.testing.assert_allclose(tf.cast(gradient, tf.float32), [0.6, 1.8], rtol=1e-2)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_other_functions(dtype, rng):
    x = tf.constant(rng.normal(size=(3, 4)), dtype)
    weight = tf.Variable(tf.cast(rng.normal(size=(4, 2)), dtype))
    wide, wide_x = tf.Variable(tf.cast(weight, tf.float64)), tf.cast(x, tf.float64)
    (expected,) = full_jacobian(lambda: tf.tanh(wide_x @ wide), [wide])

    def y():
        return tf.tanh(x @ weight)

    for found in (
        tfjac.jacobian(y, weight),
        tfjac.jacobian(y, weight, mode="reverse"),
        tfjac.per_example_jacobian(y, weight, chunk_size=1),
        tfjac.per_example_jacobian(y, weight, examples_mix="full"),
    ):
        assert found.dtype == dtype
        np.testing.assert_allclose(tf.cast(found, tf.float64), expected, atol=3e-2)
