"""Graphs that are connected, and whose gradient by TensorFlow is None: zeros; and shapes that fit no question."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac

X = np.random.default_rng(3).normal(size=(3, 2, 2, 2))
OFFSET, SCALE = [0.5, 0.7], [1.0, 2.0]


def slope_of_batch_normalisation(offset):
    """∂(Σ y)/∂x for x `[n, 2, 2, 2]`, in which the offset has no part, though TensorFlow's gradient reads it."""
    x = tf.constant(X, tf.float32)
    y = tf.compat.v1.nn.fused_batch_norm(x, SCALE, offset, is_training=True)[0]
    return tf.gradients(y, x)[0]


@pytest.mark.by_day(one_in=2)
@pytest.mark.filterwarnings("ignore:tfjac")
@pytest.mark.parametrize("mode", ["auto", "reverse", "forward"])
def test_of_one_and_of_several_results(mode):
    @tf.function(autograph=False)
    def derivatives(offset):
        slope = slope_of_batch_normalisation(offset)
        return [tfjac.jacobian(y, offset, mode=mode) for y in (slope, tf.reduce_sum(slope, 0), tf.reduce_sum(slope))]

    for found in derivatives(tf.constant(OFFSET)):
        np.testing.assert_allclose(found, np.zeros(found.shape), atol=1e-6)


@pytest.mark.filterwarnings("ignore:tfjac")
def test_of_variables_in_full():
    offset = tf.Variable(OFFSET)

    @tf.function(autograph=False)
    def derivatives():
        y = slope_of_batch_normalisation(offset)
        rows = tfjac.jacobian_operator(y, offset, examples_mix="full").to_dense()
        return rows, tfjac.per_example_jacobian(y, [offset], examples_mix="full")[0]

    rows, jacobian = derivatives()
    np.testing.assert_allclose(rows, np.zeros((24, 2)), atol=1e-6)
    np.testing.assert_allclose(jacobian, np.zeros((3, 2, 2, 2, 2)), atol=1e-6)


@pytest.mark.parametrize("choice", ["none", "zero"])
@pytest.mark.parametrize("open_size", [False, True])
def test_ys_and_x_have_the_same_examples(choice, open_size):
    """Whether ys depend on x or not: what has other rows has no derivative for each example."""
    rows, others = tf.ones([3, 2]), tf.ones([2, 2])
    signature = [tf.TensorSpec([None, 2])] * 2 if open_size else None

    @tf.function(autograph=False, input_signature=signature)
    def blocks(y, x):
        return tfjac.batch_jacobian(2 * y, x, unconnected_gradients=choice)

    found = blocks(rows, rows)
    assert found is None if choice == "none" else not found.numpy().any() and found.shape == [3, 2, 2]
    if open_size and choice == "none":
        return
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=r"same examples|same number of rows"):
        blocks(rows, others)


JOINED = {
    "ConcatV2": lambda x: tf.concat([x, x], 0),
    "Tile": lambda x: tf.tile(x, [2, 1]),
    "GatherV2": lambda x: tf.gather(x, [0, 1, 2, 1]),
    "Pack": lambda x: tf.stack([x, x]),
    "StridedSlice": lambda x: x[:2],
}


@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize("size", [3, None])
def test_what_joins_examples_is_named(name, size):
    blocks = tf.function(lambda x: tfjac.batch_jacobian(JOINED[name](x), x), autograph=False)
    with pytest.raises(ValueError, match=f"of type {name}"):
        blocks.get_concrete_function(tf.TensorSpec([size, 2]))


def test_a_plain_graph_is_refused_by_what_it_is():
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [2])
        for ys in (2 * x, lambda: 2 * x):
            with pytest.raises(ValueError, match=r"a plain tf\.Graph, as of TensorFlow 1, is not one"):
                tfjac.jacobian(ys, x)


def again(x):
    return tf.recompute_grad(lambda z: tf.sin(z) * z)(1.0 * x)


def of_a_gradient(x):
    y = again(x)
    return tfjac.jacobian(tf.gradients(y, x)[0], x)


TWICE = {
    "hvp": lambda x: tfjac.hvp(tf.reduce_sum(again(x)), x, x),
    "the Jacobian of a Jacobian": lambda x: tfjac.jacobian(tfjac.jacobian(again(x), x), x),
    "the Jacobian of a gradient": of_a_gradient,
    "jvp": lambda x: tfjac.jvp(again(x), x, x),
}


@pytest.mark.by_day(one_in=2)
@pytest.mark.filterwarnings("ignore:tfjac")
@pytest.mark.parametrize("name", TWICE)
def test_recompute_grad_is_not_differentiated_twice(name):
    """And once it is: cos(x) x + sin(x)."""
    x = np.array([0.3, 0.5])
    with pytest.raises(LookupError, match=r"cannot be (differentiated again|taken outside)|no forward mode"):
        tf.function(TWICE[name], autograph=False)(tf.constant(x))
    source = tf.constant(x)
    found = tfjac.jacobian(lambda: again(source), source)
    np.testing.assert_allclose(found, np.diag(np.cos(x) * x + np.sin(x)), rtol=1e-12)
