"""Grouped convolutions taken apart: the same values, and gradients that are right where TensorFlow has none."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians.oracles_full import assert_all_close, full_jacobian
from tfjac.graph import inline_calls
from tfjac.graph.gradients.grouped_convolution import convolve_by_groups, is_grouped

SETTINGS = [
    {"strides": 1, "padding": "SAME"},
    {"strides": 2, "padding": "VALID"},
    {"strides": 1, "padding": "SAME", "dilations": [2, 2]},
    {"strides": 2, "padding": [[0, 0], [1, 0], [2, 1], [0, 0]]},
]


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("groups", [2, 4])
def test_values_and_gradients(setting, groups, rng):
    """The gradient against that of the same convolution with a kernel of zeros between the groups."""
    x = tf.constant(rng.normal(size=(2, 6, 7, 4)))
    kernel = tf.constant(rng.normal(size=(3, 2, 4 // groups, 8)))

    def spelt_out(kernel):
        rows = []
        for g in range(groups):
            own = kernel[..., g * 8 // groups : (g + 1) * 8 // groups]
            before, behind = g * 8 // groups, 8 - (g + 1) * 8 // groups
            rows.append(tf.pad(own, [(0, 0)] * 3 + [(before, behind)]))
        return tf.concat(rows, axis=2)

    with tf.GradientTape() as tape:
        tape.watch([x, kernel])
        convolution = tf.nn.convolution if "dilations" in setting else tf.nn.conv2d  # the one with a gradient on CPU
        expected = convolution(x, spelt_out(kernel), **setting)
        energy = tf.reduce_sum(tf.sin(expected))
    slopes = tape.gradient(energy, [x, kernel])

    @tf.function
    def compute(x, kernel):
        z = tf.nn.conv2d(x, kernel, **setting)
        assert is_grouped(z.op)
        (y,) = inline_calls([tf.reduce_sum(tf.sin(z))], depends_on=[x])
        return [z, convolve_by_groups(z.op, x, kernel), *tf.gradients(y, [x, kernel])]

    results = compute(x, kernel)
    assert_all_close(results[:2], [expected.numpy()] * 2, 1e-12)
    assert_all_close(results[2:], [slope.numpy() for slope in slopes], 1e-11)


def test_one_group_is_left_alone(rng):
    @tf.function
    def compute(x, kernel):
        z = tf.nn.conv2d(x, kernel, 1, "SAME")
        inline_calls([z], depends_on=[x])
        with pytest.raises(ValueError, match="_gradient_op_type"):
            z.op.get_attr("_gradient_op_type")
        return z

    compute(rng.normal(size=(2, 5, 5, 4)), rng.normal(size=(3, 3, 4, 6)))


def test_three_dimensions_on_cpu(rng):
    """TensorFlow has grouped 3-D convolutions under XLA alone; Keras compiles that layer by itself."""
    layer = keras.layers.Conv3D(4, 2, groups=2, dtype="float64")
    x = tf.constant(rng.normal(size=(2, 3, 3, 3, 4)))
    layer.build(x.shape)
    variables = [v.value for v in layer.trainable_variables]

    def y():
        return tf.reduce_sum(tf.tanh(layer(x)), axis=[1, 2, 3])

    expected = [np.asarray(j) for j in full_jacobian(y, variables)]
    assert_all_close(tfjac.per_example_jacobian(y, layer.trainable_variables), expected, 1e-12)
