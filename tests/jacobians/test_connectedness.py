"""What users hear where a gradient does not reach a variable, or a part of what they differentiate."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import tfjac


class Rounded(layers.Layer):
    """A layer that rounds its weights."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], 2), initializer="normal")

    def call(self, x):
        return tf.matmul(x, tf.round(self.kernel))


def warned(call):
    """The messages of tfjac's that a call warns with."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in caught if "tfjac" in str(warning.message)]


ASK = {
    "per_example_jacobian": lambda y, variables: tfjac.per_example_jacobian(y, variables),
    "jacobian_operator": lambda y, variables: tfjac.jacobian_operator(y, variables).row_norms(),
    "jacobian": lambda y, variables: tfjac.jacobian(y, variables),
    "weighted_gradients": lambda y, variables: tfjac.weighted_gradients(
        lambda: tf.reduce_sum(y(), 1), variables, tf.ones([3])
    ),
}


@pytest.mark.parametrize("ask", sorted(set(ASK) - {"jacobian"}))
def test_a_variable_behind_a_rounding(ask):
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3), Rounded(name="coarse"), layers.Dense(2)])
    x = np.ones([3, 4], "float32")
    with pytest.raises(
        ValueError, match=r"gradient stops at op '.*coarse.*Round' of type Round, whose derivative.*coarse"
    ):
        ASK[ask](lambda: model(x), model.trainable_variables)


def test_a_variable_that_is_not_there_at_all():
    model, other = keras.Sequential([keras.Input((4,)), layers.Dense(3)]), tf.Variable(1.0)
    with pytest.raises(ValueError, match=r"unconnected_gradients=.zero.*or leave it out. Received.*Variable"):
        tfjac.per_example_jacobian(lambda: model(np.ones([3, 4], "float32")), [other])


@pytest.mark.parametrize("ask", ASK)
def test_a_term_through_numpy_is_said_once(ask):
    w = tf.Variable([[0.3, 0.4]])

    def y():
        return tf.ones([3, 1]) * (w + tf.ensure_shape(tf.numpy_function(np.square, [w], tf.float32), w.shape))

    (message,) = warned(lambda: ASK[ask](y, [w]))
    assert "of type PyFunc, Python code that leaves TensorFlow" in message and "tf.stop_gradient" in message


def test_one_of_several_ys_without_a_gradient():
    dense = layers.Dense(2, name="scores")
    x = tf.ones([3, 4])
    dense(x)

    @tf.function
    def norms():
        scores = dense(x)
        best = tf.cast(tf.argmax(scores, 1), tf.float32)
        return tfjac.jacobian_operator([scores, best[:, None]], dense.trainable_variables).row_norms()

    (message,) = warned(norms)
    assert "no path that a gradient follows" in message and "of type ArgMax, whose result is an integer" in message


def test_batch_jacobian_says_it_too():
    x = tf.ones([3, 4])
    (message,) = warned(lambda: tfjac.batch_jacobian(lambda: x + tf.round(x), x))
    assert "of type Round" in message


def test_meant_by_stop_gradient():
    w = tf.Variable([0.3, 0.4])
    x = tf.ones([3, 2])
    assert not warned(lambda: tfjac.per_example_jacobian(lambda: x * w + tf.stop_gradient(tf.round(w)), [w]))


def test_an_unused_variable_counts_as_zero(rng):
    """The last bias of a network that is differentiated by its inputs, in every function that asks for variables."""
    unused, n, p = tf.Variable(tf.ones([2, 5], tf.float64)), 4, 10
    w, x = tf.Variable(rng.normal(size=(3, 2))), rng.normal(size=(n, 3))

    def model():
        return tf.tanh(x @ w)

    slopes, zeros, zero = 1 - np.tanh(x @ w.numpy()) ** 2, np.zeros((n, 2, 2, 5)), {"unconnected_gradients": "zero"}
    by_hand = np.einsum("nm,ni,mo->nmio", slopes, x, np.eye(2))
    gradients, both = by_hand.sum(1), [unused, w]
    norms, losses = np.sqrt((gradients**2).sum((1, 2))), lambda: tf.reduce_sum(model(), 1)
    found = {
        "jacobians": (tfjac.per_example_jacobian(model, both, **zero), [zeros, by_hand]),
        "chunks": (tfjac.per_example_jacobian(model, both, chunk_size=1, **zero), [zeros, by_hand]),
        "gradients": (tfjac.per_example_gradients(losses, both, **zero), [zeros[:, 0], gradients]),
        "verified": (tfjac.per_example_gradients(losses, both, verify=True, **zero), [zeros[:, 0], gradients]),
        "norms": ([tfjac.per_example_gradient_norms(losses, both, **zero)], [norms]),
        "clipped": (
            tfjac.clipped_gradients(losses, both, 0.5, **zero),
            [zeros[0, 0], np.tensordot(np.minimum(1, 0.5 / norms), gradients, 1)],
        ),
        "weighted": (
            tfjac.weighted_gradients(losses, both, norms, **zero),
            [zeros[0, 0], np.tensordot(norms, gradients, 1)],
        ),
        "only unused": (tfjac.per_example_gradients(losses, [unused], **zero), [zeros[:, 0]]),
    }
    for results, expected in found.values():
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-12, atol=1e-14)
    rows = np.concatenate([np.zeros((2 * n, p)), by_hand.reshape(2 * n, 6)], 1)
    operator = tfjac.jacobian_operator(model, both, **zero)
    for result, wanted in [
        (operator.to_dense(), rows),
        (operator.gram(), rows.T @ rows),
        (operator.kernel(), rows @ rows.T),
        (operator.matvec(np.arange(16.0)), rows @ np.arange(16.0)),
        (operator.column_norms(), np.linalg.norm(rows, axis=0)),
        (operator.matvec(np.arange(8.0), adjoint=True), np.arange(8.0) @ rows),
    ]:
        np.testing.assert_allclose(result, wanted, rtol=1e-12, atol=1e-13)
    with pytest.raises(ValueError, match="unconnected_gradients must be one of"):
        tfjac.per_example_gradients(losses, both, unconnected_gradients="none")


def test_an_unused_variable_of_segments(rng):
    unused, w, x = tf.Variable([1.0]), tf.Variable(rng.normal(size=3)), rng.normal(size=(5, 3))
    ids = [0, 0, 1, 1, 1]
    found = tfjac.per_segment_jacobian(
        lambda: tf.math.unsorted_segment_sum(x * w, ids, 2), [w, unused], unconnected_gradients="zero"
    )
    sums = np.stack([x[:2].sum(0), x[2:].sum(0)])
    np.testing.assert_allclose(found[0], sums[:, :, None] * np.eye(3), rtol=1e-12)
    np.testing.assert_allclose(found[1], np.zeros((2, 3, 1)))


X = tf.ones([3, 2])
LOST = {
    "vjp": lambda y, w: tfjac.vjp(y, w),
    "jvp": lambda y, w: tfjac.jvp(y, w, tf.ones([2])),
    "hvp": lambda y, w: tfjac.hvp(y, w, tf.ones([2])),
    "ggnvp": lambda y, w: tfjac.ggnvp(y, lambda z: tf.reduce_sum(z**2), w, tf.ones([2])),
    "ggnvp, in the losses": lambda y, w: tfjac.ggnvp(lambda: 3 * w, lambda z: z * tf.round(z), w, tf.ones([2])),
    "jacobian": lambda y, w: tfjac.jacobian(y, w),
    "batch_jacobian": lambda y, w: tfjac.batch_jacobian(lambda: X * tf.round(X), X),
    "node_gradients": lambda y, w: tfjac.node_gradients(y, w),
    "sparse_jacobian": lambda y, w: tfjac.sparse_jacobian(y, w),
    "per_example_gradient_norms": lambda y, w: tfjac.per_example_gradient_norms(y, w),
    "clipped_gradients": lambda y, w: tfjac.clipped_gradients(y, w, 1.0, unconnected_gradients="zero"),
}


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("ask", LOST)
def test_every_function_says_what_is_lost(ask):
    w = tf.Variable([0.4, 1.6])
    messages = warned(lambda: LOST[ask](lambda: tf.reduce_sum(tf.ones([3, 2]) * w * tf.round(w), 1), w))
    assert len(messages) == 1 and "derivatives are lost: the gradient stops at op" in messages[0]
    assert "of type Round" in messages[0]


def test_gradients_at_nodes_are_refused_like_others():
    a = tf.Variable([0.4, 0.6])
    with pytest.raises(LookupError, match=r"gradient of this op is wrong.*Betainc"):
        tfjac.node_gradients(lambda: tf.math.betainc(a, 0.5 * tf.ones([2]), 0.5 * tf.ones([2])), a)
