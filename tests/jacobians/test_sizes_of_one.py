"""Sizes of one that are broadcast over the examples: known while tracing, or only when the graph runs."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians.oracles_full import assert_all_close, full_jacobian


def attention(query, keys):
    return tf.matmul(tf.nn.softmax(tf.matmul(query, keys, transpose_b=True)), keys)


# Learned queries [1, 2, 5] for examples [n, 4, 5], and a matrix [5, 5].
LEARNED = {
    "attention": lambda x, q, w: attention(tf.matmul(q, w), x),
    "einsum": lambda x, q, w: tf.einsum("...qd,...kd->...qk", q, tf.matmul(x, w)),
    "einsum of the last axis": lambda x, q, w: tf.einsum("...i,...i->...", x, q[:, :1] * w[0]),
    "einsum over positions of data": lambda x, q, w: tf.einsum(
        "...i,...io->...o", x[:, :1], q[0, :, :, None] * w[0, 0]
    ),
    "a mean of the batch": lambda x, q, w: tf.einsum("...i,...i->...", q[:, :1] * w[0, :1] + 2.0, x),
    "concat of tiles": lambda x, q, w: tf.concat([tf.tile(q, [tf.shape(x)[0], 1, 1]), x], 1) @ w,
    "concat of repeats": lambda x, q, w: tf.concat([tf.repeat(q @ w, tf.shape(x)[0], axis=0), x], 1) ** 2,
    "tiles along the sequence": lambda x, q, w: tf.tile(q @ w, [tf.shape(x)[0], tf.shape(x)[1] // 2, 1]) * x,
    "broadcast_to": lambda x, q, w: tf.broadcast_to(q @ w, [tf.shape(x)[0], 2, 5]) * x[:, 1:3],
    "where": lambda x, q, w: tf.where(x[:, :2] > 0, q @ w, x[:, :2] * q),
}


@pytest.mark.by_day(one_in=20)
@pytest.mark.parametrize("sizes", ["static", "open"])
@pytest.mark.parametrize("name", LEARNED)
def test_learned_queries(name, sizes, rng):
    x = tf.constant(rng.normal(size=(3, 4, 5)))
    variables = [tf.Variable(rng.normal(size=size)) for size in ((1, 2, 5), (5, 5))]
    expected = full_jacobian(lambda: LEARNED[name](x, *map(tf.convert_to_tensor, variables)), variables)
    spec = tf.TensorSpec(x.shape if sizes == "static" else [None, None, 5], x.dtype)

    @tf.function(input_signature=[spec])
    def compute(x):
        y = LEARNED[name](x, *map(tf.convert_to_tensor, variables))
        return tfjac.per_example_jacobian(y, variables), tfjac.jacobian_operator(y, variables).gram()

    jacobian, gram = compute(x)
    assert_all_close(jacobian, expected, 1e-11)
    dense = np.concatenate([rows.reshape(-1, np.prod(v.shape)) for rows, v in zip(expected, variables)], 1)
    assert_all_close(gram, dense.T @ dense, 1e-10)


# What has one row for all of the examples x [n, 4] when it runs, and nothing says so before; a vector [4].
ONE_ROW = {
    "add": lambda x, row, w: (x + row * w) ** 2,
    "multiply": lambda x, row, w: x * (row * w),
    "matmul": lambda x, row, w: tf.matmul(x[:, None], (row * w)[:, :, None])[:, :, 0],
    "einsum": lambda x, row, w: tf.einsum("...i,...i->...", x, row * w),
    "where": lambda x, row, w: tf.where(x > 0, x, row * w),
    "broadcast_to": lambda x, row, w: tf.broadcast_to(row * w, tf.shape(x)) * x,
    "triangular systems": lambda x, row, w: tf.linalg.triangular_solve(
        tf.eye(4, batch_shape=[tf.shape(x)[0]], dtype=x.dtype), (row * w)[:, :, None]
    ),
}
OPEN = [tf.TensorSpec([None, 4], tf.float64)] * 2


def one_row(name, rng):
    """A function of x and the row, and the variable."""
    weight = tf.Variable(rng.normal(size=4))
    return (lambda x, row: ONE_ROW[name](x, row, weight)), weight


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("name", ONE_ROW)
def test_one_row_at_run_time_is_refused(name, rng):
    function, weight = one_row(name, rng)
    x, row = rng.normal(size=(3, 4)), rng.normal(size=(1, 4))

    @tf.function(input_signature=OPEN)
    def gram(x, row):
        return tfjac.jacobian_operator(function(x, row), weight).gram()

    message = r"was taken to hold the same number of rows.*tf\.broadcast_to.*Received \(rows, examples\):"
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"(?s){message}.*1.*3"):
        gram(x, row)
    for rows in (tf.repeat(row, 3, axis=0), x):  # as many as there are examples
        (expected,) = full_jacobian(lambda rows=rows: function(tf.constant(x), tf.convert_to_tensor(rows)), [weight])
        dense = expected.reshape(-1, 4)
        assert_all_close(gram(x, rows), dense.T @ dense, 1e-11)
    (expected,) = full_jacobian(lambda: function(tf.constant(x[:1]), tf.constant(row)), [weight])
    dense = expected.reshape(-1, 4)
    assert_all_close(gram(x[:1], row), dense.T @ dense, 1e-11)  # one row for the one example


@pytest.mark.parametrize("name", ["add", "multiply"])
def test_one_row_under_xla_does_not_compile(name, rng):
    function, weight = one_row(name, rng)
    gram = tf.function(
        lambda x, row: tfjac.jacobian_operator(function(x, row), weight).gram(), input_signature=OPEN, jit_compile=True
    )
    x, row = rng.normal(size=(3, 4)), rng.normal(size=(1, 4))
    with pytest.raises(tf.errors.InvalidArgumentError, match="a tensor with 1 values"):
        gram(x, row)
    assert gram(x, x).shape == (4, 4)


def test_other_functions_of_one_row(rng):
    """jacobian takes it, batch_jacobian and clipped gradients refuse."""
    function, weight = one_row("multiply", rng)
    x, row = rng.normal(size=(3, 4)), rng.normal(size=(1, 4))
    (expected,) = full_jacobian(lambda: function(tf.constant(x), tf.constant(row)), [weight])
    whole = tf.function(lambda x, row: tfjac.jacobian(function(x, row), weight), input_signature=OPEN)
    assert_all_close(whole(x, row), expected, 1e-12)
    for refused in (
        lambda x, row: tfjac.batch_jacobian(function(x, row), row),
        lambda x, row: tfjac.clipped_gradients(tf.reduce_sum(function(x, row), 1), weight, 1.0),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match="the same number of rows"):
            tf.function(refused, input_signature=OPEN)(x, row)


@pytest.mark.unverified("it counts checks")
def test_sizes_that_are_one_and_the_same_are_not_checked(rng):
    """A residual network over an open batch: every size comes down to that of x."""
    kernels = [tf.Variable(rng.normal(size=(4, 4))) for _ in range(2)]

    @tf.function(input_signature=OPEN[:1])
    def compute(x):
        for kernel in kernels:
            x = x + tf.tanh(tf.matmul(x, kernel)) * tf.nn.softmax(x)
        return tfjac.jacobian_operator(x, kernels).gram()

    assert not [op for op in compute.get_concrete_function().graph.get_operations() if op.type == "Assert"]
