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
    with pytest.raises(ValueError, match=r"gradient passes through; leave it out. Received.*Variable"):
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
