"""Kernels of convolutions whose examples are places, or channels, of one image: against the images of unit kernels."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac

RNG = np.random.default_rng(0)
SIGNAL, IMAGE, TWO, VOLUME = (
    tf.constant(RNG.normal(size=shape)) for shape in ([1, 12, 1], [1, 6, 6, 2], [2, 6, 6, 2], [1, 4, 4, 4, 2])
)


def conv1d(stride, padding):
    return lambda k: tf.reshape(tf.nn.conv1d(SIGNAL, k, stride, padding), [-1])


def conv2d(image=IMAGE, padding="SAME"):
    return lambda k: tf.nn.conv2d(image, k, 1, padding)


def transposed(k):
    return tf.nn.conv2d_transpose(IMAGE, k, [1, 12, 12, 4], 2)


PROGRAMS = {  # shape of the kernel, and the rows
    "positions": ([6, 1, 1], conv1d(1, "SAME")),
    "as many positions as places of the kernel": ([6, 1, 1], conv1d(2, "SAME")),  # where sizes say nothing
    "positions inside": ([3, 1, 1], conv1d(1, "VALID")),
    "lines": ([3, 3, 2, 4], lambda k: tf.reshape(conv2d()(k), [6, 24])),
    "columns": ([3, 3, 2, 4], lambda k: tf.reshape(tf.transpose(conv2d()(k)[0], [1, 0, 2]), [6, 24])),
    "channels": ([3, 3, 2, 4], lambda k: tf.transpose(tf.reshape(conv2d()(k), [36, 4]))),
    "channels of one place": ([6, 6, 2, 5], lambda k: tf.reshape(conv2d(padding="VALID")(k), [5])),
    "lines of two images": (
        [3, 3, 2, 4], lambda k: tf.reshape(tf.transpose(conv2d(TWO)(k), [1, 0, 2, 3]), [6, 48]),
    ),
    "lines of groups": ([3, 3, 1, 4], lambda k: tf.reshape(conv2d()(k), [6, 24])),
    "lines, depthwise": (
        [3, 3, 2, 2], lambda k: tf.reshape(tf.nn.depthwise_conv2d(IMAGE, k, [1, 1, 1, 1], "SAME"), [6, 24]),
    ),
    "lines of a transposed convolution": ([3, 3, 4, 2], lambda k: tf.reshape(transposed(k), [12, 48])),
    "channels of a transposed convolution": (
        [3, 3, 4, 2], lambda k: tf.transpose(tf.reshape(transposed(k), [144, 4])),
    ),
    "planes": ([2, 2, 2, 2, 3], lambda k: tf.reshape(tf.nn.conv3d(VOLUME, k, [1] * 5, "SAME"), [4, 48])),
}  # fmt: skip


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernel(name):
    shape, rows = PROGRAMS[name]
    kernel = tf.Variable(np.random.default_rng(1).normal(size=shape))
    units = np.eye(np.prod(shape)).reshape([-1, *shape])
    expected = np.stack([np.ravel(rows(tf.constant(unit))) for unit in units], axis=1)  # the rows are linear

    @tf.function
    def found():
        operator = tfjac.jacobian_operator(rows(kernel), [kernel])
        return operator.to_dense(), operator.gram()

    dense, gram = found()
    np.testing.assert_allclose(dense, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gram, expected.T @ expected, rtol=1e-10, atol=1e-10)


def test_columns_of_a_table_as_examples_are_refused_by_name():
    table = tf.Variable(np.ones([4, 6]))

    @tf.function
    def found():
        rows = tf.transpose(tf.gather(table, [[0, 1, 2], [3, 1, 0]]), [2, 0, 1])
        return tfjac.jacobian_operator(tf.reshape(rows, [6, -1]), [table]).to_dense()

    with pytest.raises(tfjac.ExamplesMix):
        found()
