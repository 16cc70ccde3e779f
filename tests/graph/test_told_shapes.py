"""What `set_shape` said of a Python function's result holds for its copies, where these are of the same data."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac.graph import transplant

X = np.random.default_rng(0).normal(size=(4, 3))


def sine(x, shape):
    y = tf.py_function(tf.sin, [x], tf.float64)
    y.set_shape(shape)
    return y


@pytest.mark.parametrize("acceleration", [None, "auto"])
def test_residuals_of_a_python_function(acceleration):
    weights = tf.Variable(np.full((3, 2), 0.1), dtype=tf.float64)
    target = np.sin(X @ np.full((3, 2), 0.3))
    result = tfjac.least_squares(lambda: sine(X @ weights, [4, 2]) - target, weights, acceleration=acceleration)
    assert result.success
    np.testing.assert_allclose(weights.numpy(), 0.3, rtol=1e-6)


COPIES = {  # the input of the original, what stands for it, what was said of the output, what is told of the copy
    "the same": ([4, 3], [4, 3], [4, 3], [4, 3]),
    "of other examples": ([4, 3], [1, 3], [4, 3], [None, 3]),
    "of open examples": ([None, 3], [None, 3], [4, 3], [None, 3]),
    "a number": ([4, 3], [2, 3], [], []),
    "of other positions": ([4, 3], [4, 5], [4, 3], None),
    "mapped": ([4, 3], [7, 4, 3], [4, 3], None),
    "of anything": (None, [4, 3], [4, 3], None),
}


@pytest.mark.parametrize("name", COPIES)
def test_shapes_of_copies(name):
    before, after, said, told = COPIES[name]
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float64, before)
        y = sine(x, said)
        copy = transplant([y], [(x, tf.compat.v1.placeholder(tf.float64, after))])[y.ref()]
    assert copy.shape.rank == (None if told is None else len(told))
    assert told is None or copy.shape.as_list() == told


def test_integers_may_be_a_shape():
    """A reshape to a shape that is replaced is told nothing of the old one."""
    with tf.Graph().as_default():
        shape, other = (tf.compat.v1.placeholder(tf.int32, [None]) for _ in range(2))
        y = tf.reshape(tf.ones([12]), shape)
        y.set_shape([4, 3])
        assert transplant([y], [(shape, other)])[y.ref()].shape.rank is None
