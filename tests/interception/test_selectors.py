"""Which nodes a layer means where its calls are not known, and which a glob does."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac.graph.nodes.selectors import glob_pattern

X = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)


def network(name="net"):
    dense, act = keras.layers.Dense(4, activation="tanh", name="hidden"), keras.layers.Activation("relu", name="act")
    return keras.Sequential([keras.Input((4,)), dense, act, keras.layers.Dense(1, name="head")], name=name)


def gradient_at_hidden(model):
    """∂Σy/∂h by a tape."""
    hidden, act, head = model.layers
    with tf.GradientTape() as tape:
        h = hidden(X)
        tape.watch(h)
        y = head(act(h))
    return tape.gradient(y, h)


def test_a_layer_selects_its_node_in_a_function_being_traced():
    model = network()

    @tf.function
    def gradient(x):
        return tfjac.node_gradients(model(x), [model.layers[0], tfjac.layer_call(model.layers[0], 0)])

    for found in gradient(X):
        np.testing.assert_allclose(found, gradient_at_hidden(model), rtol=1e-6)


def test_a_layer_selects_its_node_in_a_function_that_was_traced_before():
    model = network()
    traced = tf.function(model)
    traced(X)
    found = tfjac.node_gradients(lambda: traced(X), model.layers[0])
    np.testing.assert_allclose(found, gradient_at_hidden(model), rtol=1e-6)


def test_another_layer_of_the_same_name_is_not_meant():
    one, two = network(), network()

    @tf.function
    def gradients(x):
        y = one(x) + two(x)
        return tfjac.node_gradients(y, [one.layers[0], two.layers[0]])

    for found, model in zip(gradients(X), (one, two)):
        np.testing.assert_allclose(found, gradient_at_hidden(model), rtol=1e-6)
    other = network()
    with pytest.raises(ValueError, match=r"layer 'hidden'.*ops of its name read its variables"):
        tf.function(lambda x: tfjac.node_gradients(one(x), other.layers[0]))(X)
    with pytest.raises(ValueError, match=r"layer 'act'.*one without variables"):
        tf.function(lambda x: tfjac.node_gradients(one(x), one.layers[1]))(X)


def test_both_calls_of_a_shared_layer():
    shared = keras.layers.Dense(4, name="shared")
    shared.build((None, 4))

    @tf.function
    def gradients(x):
        return tfjac.node_gradients(tf.square(shared(2 * shared(x))), [shared, tfjac.layer_call(shared, 1)])

    (first, second), again = gradients(X)
    last = shared(2 * shared(X))
    np.testing.assert_allclose(second, 2 * last, rtol=1e-5)
    np.testing.assert_array_equal(again, second)
    np.testing.assert_allclose(first, 2 * tf.matmul(2 * last, shared.kernel, transpose_b=True), rtol=1e-5)


NAMES = ["net/block_0/d", "net/block_0", "net/block_1/e/f", "net/block_1", "block_0", "net/[x]", "net"]


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("block_*", ["net/block_0", "net/block_1", "block_0"]),
        ("block_?", ["net/block_0", "net/block_1", "block_0"]),
        ("block_*/*", ["net/block_0/d"]),
        ("block_**", ["net/block_0/d", "net/block_0", "net/block_1/e/f", "net/block_1", "block_0"]),
        ("net/**/f", ["net/block_1/e/f"]),
        ("net/**/block_0", ["net/block_0"]),
        ("**/d", ["net/block_0/d"]),
        ("block_[!1]*", ["net/block_0", "block_0"]),
        ("block_[12]*/e/*", ["net/block_1/e/f"]),
        ("n*t", ["net"]),
    ],
)
def test_globs(glob, expected):
    pattern = glob_pattern(glob)
    assert [name for name in NAMES if pattern.fullmatch(name)] == expected
    assert isinstance(pattern, re.Pattern)


class Block(keras.layers.Layer):
    def __init__(self, **options):
        super().__init__(**options)
        self.inner = keras.layers.Dense(4, name="inner")

    def build(self, shape):
        self.inner.build(shape)

    def call(self, x):
        return 2 * self.inner(x)


def test_a_glob_edits_each_block_once_and_nothing_within():
    model = keras.Sequential([keras.Input((4,)), Block(name="block_0"), Block(name="block_1")])
    edit = {"block_*": tfjac.Edit(forward=lambda value: 3 * value)}
    np.testing.assert_allclose(tfjac.intercept(model, edit)(X), 3 * model.layers[1](3 * model.layers[0](X)), rtol=1e-5)
    with pytest.raises(ValueError, match=r"A \* does not cross a '/', and \*\* does: it would find .*block_0/inner"):
        tfjac.values_at(model, "sequential*/inner")(X)
