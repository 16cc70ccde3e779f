"""Models that TensorFlow's vectoriser made: `tf.vectorized_map` of a function of one example, and Jacobians inside."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians.oracles import rows_one_at_a_time

N = 4
MATRIX = np.array([[0.4, -0.3, 0.2], [0.1, 0.5, -0.6], [-0.2, 0.3, 0.7]])


def each(function):
    """A model whose hidden units go through `function(row, matrix)`, one example at a time."""
    return lambda h, q: tf.vectorized_map(lambda row: function(row, q), h)


def gradient_inside(row, q):
    with tf.GradientTape() as tape:
        tape.watch(row)
        energy = tf.reduce_sum(tf.tanh(tf.linalg.matvec(q, row)))
    return tape.gradient(energy, row)


def jacobian_inside(row, q):
    with tf.GradientTape() as tape:
        tape.watch(row)
        y = tf.tanh(tf.linalg.matvec(q, row))
    return tf.reshape(tape.jacobian(y, row), [9])


def batch_jacobian_inside(h, q):
    with tf.GradientTape() as tape:
        tape.watch(h)
        y = tf.tanh(h @ q)
    return tf.reshape(tape.batch_jacobian(y, h), [-1, 9])


def second_derivatives_inside(h, q):
    with tf.GradientTape() as outer:
        outer.watch(h)
        with tf.GradientTape() as inner:
            inner.watch(h)
            energy = tf.reduce_sum(tf.tanh(h @ q), 1)
        slope = inner.gradient(energy, h)
    return tf.reshape(outer.batch_jacobian(slope, h), [-1, 9])


MODELS = {
    "matrix by vector": each(lambda row, q: tf.linalg.matvec(q, row) + row**2),
    "row by matrix": each(lambda row, q: (row[None] @ q)[0]),
    "sizes of the batch": lambda h, q: tf.reshape(
        tf.vectorized_map(lambda row: tf.linalg.matvec(q, row), h), [tf.shape(h)[0], -1]
    ),
    "outer product": each(lambda row, q: tf.reshape(row[:, None] * row @ q, [9])),
    "products of examples": each(lambda row, q: tf.reshape((row[:, None] @ row[None]) @ (row[:, None] * row + q), [9])),
    "einsum": each(lambda row, q: tf.einsum("i,ij,j->i", row, q, row)),
    "inner product": each(lambda row, q: tf.tensordot(row, row, 1)[None] * q[0]),
    "reductions": each(lambda row, q: tf.stack([tf.reduce_sum(row * q[0]), tf.norm(row), tf.reduce_logsumexp(row)])),
    "pieces": each(lambda row, q: tf.concat([row[1:] * q[0, :2], tf.gather(row, [2, 0]), tf.tile(row[:1], [3])], 0)),
    "system of equations": each(lambda row, q: tf.linalg.solve(q + tf.linalg.diag(row + 4), row[:, None])[:, 0]),
    "map inside a map": each(lambda row, q: tf.vectorized_map(lambda column: tf.tensordot(column, row, 1), q)),
    "gradient inside": each(gradient_inside),
    "Jacobian inside": each(jacobian_inside),
    "batch_jacobian inside": batch_jacobian_inside,
    "second derivatives inside": second_derivatives_inside,
}


def steps(z, product):
    """Three steps of a loop in which a state `[..., 3]` meets the matrix."""
    return tf.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, tf.tanh(product(z))), (0, z))[1]


def network(rng):
    """Return examples, the weights of a network, and a function that makes a model of it."""
    weights = [tf.Variable(rng.normal(size=(4, 3))), tf.Variable(MATRIX)]
    x = tf.constant(rng.normal(size=(N, 4)))
    return x, weights, lambda model: lambda x: model(tf.tanh(x @ weights[0]), weights[1])


@pytest.mark.by_day(one_in=10)
@pytest.mark.parametrize("n", [N, None], ids=["static", "open"])
@pytest.mark.parametrize("name", MODELS)
def test_per_example(name, n, rng):
    x, weights, of_model = network(rng)
    model = of_model(MODELS[name])

    @tf.function(input_signature=[tf.TensorSpec([n, 4], x.dtype)])
    def compute(x):
        y = model(x)
        return tfjac.per_example_jacobian(y, weights), tfjac.jacobian_operator(y, weights).gram()

    jacobians, gram = compute(x)
    expected = rows_one_at_a_time(model, x, weights)
    for jacobian, rows in zip(jacobians, expected):
        np.testing.assert_allclose(jacobian, rows, rtol=1e-10, atol=1e-12)
    dense = np.concatenate(
        [rows.reshape(-1, weight.shape.num_elements()) for rows, weight in zip(expected, weights)], 1
    )
    np.testing.assert_allclose(gram, dense.T @ dense, rtol=1e-10, atol=1e-12)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("n", [N, None], ids=["static", "open"])
def test_products_through_loops(n, rng):
    """Weights go through a loop as the vectoriser writes it, as if each example had its own."""
    x, weights, of_model = network(rng)
    tangents = [tf.constant(rng.normal(size=weight.shape)) for weight in weights]
    cotangent = tf.constant(rng.normal(size=(N, 3)))
    by_example = of_model(each(lambda row, q: steps(row, lambda z: tf.linalg.matvec(q, z))))

    @tf.function(input_signature=[tf.TensorSpec([n, 4], x.dtype)])
    def products(x):
        y = tf.ensure_shape(by_example(x), [n, 3])
        return tfjac.jvp(y, weights, tangents), tfjac.vjp(y, weights, cotangent)

    forward, backward = products(x)
    rows = rows_one_at_a_time(of_model(lambda h, q: steps(h, lambda z: z @ tf.transpose(q))), x, weights)
    expected = sum(np.tensordot(row, tangent, 2) for row, tangent in zip(rows, tangents))
    np.testing.assert_allclose(forward, expected, rtol=1e-10)
    for gradient, row in zip(backward, rows):
        np.testing.assert_allclose(gradient, np.tensordot(cotangent, row, 2), rtol=1e-10)
