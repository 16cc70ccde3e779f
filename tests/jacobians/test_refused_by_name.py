"""What products give where there is no path, and what is refused by name: open ranks, tensors from around a loop.

The oracle is a formula.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac

X = np.array([0.3, 0.5, 0.7])
ROWS = np.arange(6.0).reshape(2, 3) + 1


def open_rank(function):
    return tf.function(function, input_signature=[tf.TensorSpec(None, tf.float64)], autograph=False)(tf.constant(X))


def test_open_ranks():
    """Products take them; a Jacobian would have axes that nobody knows."""
    products = open_rank(lambda x: (tfjac.vjp(x**2, x), tfjac.jvp(x**2, x, tf.ones_like(x))))
    np.testing.assert_allclose(products, [2 * X, 2 * X], rtol=1e-12)
    np.testing.assert_allclose(open_rank(lambda x: tfjac.hvp(tf.reduce_sum(x**3), x, tf.ones_like(x))), 6 * X)
    for name, y in (("ys", lambda x: x**2), ("xs", lambda x: tf.reshape(x, [3]) ** 2)):
        with pytest.raises(ValueError, match=rf"{name} must be of a known rank.*Received: .* of shape <unknown>"):
            open_rank(lambda x, y=y: tfjac.jacobian(y(x), x))
    with pytest.raises(ValueError, match=r"known rank of at least 1.*Received"):
        open_rank(lambda x: tfjac.batch_jacobian(x**2, x))


@pytest.mark.parametrize("product", ["hvp", "vjp"])
def test_inside_of_a_loop_by_what_is_around_it(product):
    """TensorFlow's own loops hold a copy of x; in a vectorised map there is no loop."""

    def of_row(x, row):
        y = tf.reduce_sum(tf.sin(x * row))
        return tfjac.hvp(y, x, tf.ones_like(x)) if product == "hvp" else tfjac.vjp(y, x)

    def over_rows(mapped):
        return tf.function(lambda x: mapped(lambda row: of_row(x, row), ROWS), autograph=False)(tf.constant(X))

    expected = -np.sin(X * ROWS) * ROWS**2 if product == "hvp" else np.cos(X * ROWS) * ROWS
    np.testing.assert_allclose(over_rows(tf.vectorized_map), expected, rtol=1e-12)
    with pytest.raises(ValueError, match=r"xs must belong to the tf.function being traced.*Received: x:0"):
        over_rows(tf.map_fn)


def test_l2_loss_in_a_vectorised_map():
    x, w = tf.constant(X), tf.Variable(X)
    jacobian = tfjac.jacobian(lambda: tf.vectorized_map(lambda row: tf.nn.l2_loss(row * x), ROWS), x)
    np.testing.assert_allclose(jacobian, ROWS**2 * X, rtol=1e-12)
    with pytest.raises(tfjac.ExamplesMix, match="a loop over examples"):
        tfjac.per_example_gradients(lambda: tf.vectorized_map(tf.nn.l2_loss, ROWS * w), w)


NO_PATH = {
    "another tensor": lambda x: tf.sin(tf.constant(X)),
    "rounded": tf.round,
    "sign": tf.sign,
    "stopped": lambda x: tf.stop_gradient(x) * 2,
    "integers": lambda x: tf.cast(tf.cast(x, tf.int32), x.dtype),
}


@pytest.mark.filterwarnings("ignore:tfjac")
@pytest.mark.parametrize("name", NO_PATH)
def test_without_a_path_all_functions_say_the_same(name):
    x, y = tf.constant(X), NO_PATH[name]
    for unconnected, expected in (("none", None), ("zero", 0.0)):
        option = {"unconnected_gradients": unconnected}
        found = [
            tfjac.jacobian(lambda: y(x), x, **option),
            tfjac.vjp(lambda: y(x), x, **option),
            tfjac.jvp(lambda: y(x), x, tf.ones_like(x), **option),
        ]
        assert all(each is None if expected is None else not np.any(each) for each in found)


def test_where_a_path_leads_to_zeros_none_is_none():
    """The derivative of a batch normalisation's gradient by its offset: TensorFlow gives None."""
    x, scale, offset = (tf.constant(value) for value in (np.ones([4, 2, 2, 3], "f"), np.ones(3, "f"), np.zeros(3, "f")))

    @tf.function(autograph=False)
    def found(x, scale, offset):
        y = tf.compat.v1.nn.fused_batch_norm(x, scale, offset, is_training=True)[0]
        gradient = tf.gradients(tf.reduce_sum(y**3), scale)[0]
        return tfjac.jacobian(gradient * 1, offset), tfjac.vjp(gradient * 1, offset)

    jacobian, vjp = found(x, scale, offset)
    assert (jacobian is None) == (vjp is None)


def test_sparse_inputs_of_a_layer_under_xla():
    """Keras reads rows of the kernel then, and adds them up; which rows are whose is checked when the graph runs."""
    dense = np.array([[0, 2.0, 0], [1.0, 0, -3.0], [0, 0, 0]], np.float32)
    layer = keras.layers.Dense(2)
    layer.build(dense.shape)

    def rows(x, jit):
        return tf.function(lambda x: tfjac.per_example_jacobian(layer(x), layer.kernel), jit_compile=jit)(x)

    expected = np.einsum("ni,mo->nmio", dense, np.eye(2))
    np.testing.assert_allclose(rows(tf.sparse.from_dense(dense), False), expected)
    with pytest.raises(tfjac.ExamplesMix, match="Without jit_compile=True rows may move"):
        rows(tf.sparse.from_dense(dense), True)
