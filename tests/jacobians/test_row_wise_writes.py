"""Writes by index in which row k goes to example k: rules hold; others mix examples, and are refused.

The oracle is one `tape.gradient` for each row.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians.oracles_full import full_jacobian

X = np.random.default_rng(5).normal(size=(4, 3))
LABELS = tf.constant([1, 0, 2, 1])


def places(x):
    return tf.stack([tf.range(tf.shape(x)[0]), LABELS], 1)


WRITES = {
    "update": lambda x, h: tf.tensor_scatter_nd_update(x, places(x), h[:, 0]),
    "add": lambda x, h: tf.tensor_scatter_nd_add(x**2, places(x), h[:, 0]),
    "two columns": lambda x, h: tf.tensor_scatter_nd_update(
        x, tf.concat([tf.range(tf.shape(x)[0])[:, None], LABELS[:, None]], 1), h[:, 1]
    ),
    "whole rows": lambda x, h: tf.scatter_nd(tf.range(tf.shape(x)[0])[:, None], h, tf.shape(h)),
    "one number a row": lambda x, h: tf.scatter_nd(places(x), h[:, 0], [tf.shape(x)[0], 3]),
    "numbers in the code": lambda x, h: tf.tensor_scatter_nd_update(x, [[0, 1], [1, 0], [2, 2], [3, 1]], h[:, 0]),
}


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("n", [4, None], ids=["static", "open"])
@pytest.mark.parametrize("name", WRITES)
def test_row_k_goes_to_example_k(name, n):
    w = tf.Variable(np.random.default_rng(6).normal(size=(3, 2)))

    def model(x):
        return WRITES[name](x, tf.tanh(x @ w))

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([n, 3], tf.float64)])
    def jacobians(x):
        y = model(x)
        return tfjac.per_example_jacobian(y, w), tfjac.batch_jacobian(y, x)

    x = tf.constant(X)
    by_weights, by_inputs = full_jacobian(lambda: model(x), [w, x])
    found = jacobians(x)
    np.testing.assert_allclose(found[0], by_weights, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found[1], np.einsum("nanb->nab", by_inputs), rtol=1e-10, atol=1e-12)


MIXING = {
    "permuted": lambda x, h: tf.tensor_scatter_nd_update(x, [[1, 1], [0, 0], [2, 2], [3, 1]], h[:, 0]),
    "fewer rows": lambda x, h: tf.tensor_scatter_nd_update(x, [[0, 1], [1, 0]], h[:2, 0]),
    "labels first": lambda x, h: tf.scatter_nd(tf.stack([LABELS, tf.range(4)], 1), h[:, 0], [4, 4]),
    "from one on": lambda x, h: tf.scatter_nd(tf.range(1, 5)[:, None], h, [5, 2])[1:],
    "a sum over some": lambda x, h: h + tf.reduce_sum(tf.boolean_mask(h, x[:, 0] > 0), 0),
}


@pytest.mark.parametrize("name", MIXING)
def test_what_writes_to_another_example_is_refused(name):
    w, x = tf.Variable(np.ones((3, 2))), tf.constant(X)
    with pytest.raises(tfjac.ExamplesMix):
        tfjac.per_example_jacobian(lambda: MIXING[name](x, tf.tanh(x @ w)), w)


def chosen(x):
    return x[:, 0] > 0.1


def both(x):
    """The numbers of the rows on either side."""
    return tf.dynamic_partition(tf.range(tf.shape(x)[0]), tf.cast(chosen(x), tf.int32), 2)


def layers_of(x, w):
    parts = tf.dynamic_partition(x, tf.cast(chosen(x), tf.int32), 2)
    return tf.dynamic_stitch(both(x), [parts[0] @ w, tf.tanh(parts[1] @ w)])


def one_side(x, h):
    return tf.dynamic_partition(h, tf.cast(chosen(x), tf.int32), 2)[1]


PICKED = {
    "mask": lambda x, w, h: tf.scatter_nd(
        tf.where(chosen(x)), tf.boolean_mask(h, chosen(x)) ** 2, tf.shape(h, tf.int64)
    ),
    "mask, over the rest": lambda x, w, h: tf.tensor_scatter_nd_update(
        h, tf.where(chosen(x)), tf.boolean_mask(h, chosen(x)) ** 2
    ),
    "gather and add": lambda x, w, h: tf.tensor_scatter_nd_add(
        h, tf.where(chosen(x)), tf.gather(h, tf.where(chosen(x))[:, 0]) ** 2
    ),
    "partition and stitch": lambda x, w, h: layers_of(x, w),
    "partition, one part alone": lambda x, w, h: tf.scatter_nd(both(x)[1][:, None], one_side(x, h), tf.shape(h)),
    "repeated unevenly": lambda x, w, h: keras.ops.repeat(h, [2, 1], axis=1),
    "backwards": lambda x, w, h: tf.scatter_nd(tf.range(3, -1, -1)[:, None], h, [4, 2]),
}


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("n", [4, None], ids=["static", "open"])
@pytest.mark.parametrize("name", PICKED)
def test_rows_that_are_picked_and_put_back(name, n):
    """Each row of the data goes to one example, which shows when the graph runs."""
    w = tf.Variable(np.random.default_rng(6).normal(size=(3, 2)))

    def model(x):
        return PICKED[name](x, w, tf.tanh(x @ w))

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([n, 3], tf.float64)])
    def found(x):
        y = model(x)
        return tfjac.per_example_jacobian(y, w), tfjac.clipped_gradients(tf.reduce_sum(y**2, 1), w, 0.3)

    x = tf.constant(X)
    jacobian, clipped = found(x)
    np.testing.assert_allclose(jacobian, full_jacobian(lambda: model(x), [w])[0], rtol=1e-10, atol=1e-12)
    (rows,) = full_jacobian(lambda: tf.reduce_sum(model(x) ** 2, 1), [w])
    norms = np.sqrt((rows**2).sum((1, 2), keepdims=True))
    expected = (rows * np.minimum(1, 0.3 / np.maximum(norms, 1e-30))).sum(0)
    np.testing.assert_allclose(clipped, expected, rtol=1e-10, atol=1e-12)


def test_a_row_that_goes_to_two_examples_is_an_error_when_it_runs():
    w, x = tf.Variable(np.ones((3, 2))), tf.constant(X)

    def model():
        h = tf.tanh(x @ w)
        return tf.tensor_scatter_nd_add(h, [[0]], tf.gather(h, [1]))

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"a row at .* is part of more than one"):
        tfjac.per_example_jacobian(model, w)
    full = tfjac.per_example_jacobian(model, w, examples_mix="full")
    np.testing.assert_allclose(full, full_jacobian(model, [w])[0], rtol=1e-10, atol=1e-12)
