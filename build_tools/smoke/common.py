"""What the features are tried on and compared by."""

import keras
import numpy as np
import tensorflow as tf

keras.config.set_floatx("float64")
RNG = np.random.default_rng(0)
X = tf.constant(RNG.normal(size=(12, 3)))
FEATURES = []


def feature(function):
    """Add a function to those that are tried."""
    FEATURES.append(function)
    return function


def same(found, expected, rtol=1e-6, atol=1e-8):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=rtol, atol=atol)


def network(outputs=2):
    keras.utils.set_random_seed(1)
    hidden = keras.layers.Dense(5, activation="tanh", name="hidden")
    return keras.Sequential([keras.Input((3,)), hidden, keras.layers.Dense(outputs, name="out")])


def dense_jacobian(model):
    """J of all outputs in all weights, by one tape: [12·m, p]."""
    with tf.GradientTape() as tape:
        y = tf.reshape(model(X), [-1])
    blocks = tape.jacobian(y, [weight.value for weight in model.trainable_variables])
    return np.concatenate([np.reshape(block, [len(y), -1]) for block in blocks], axis=1)


def flat(jacobians):
    return np.concatenate([np.reshape(j, [j.shape[0] * j.shape[1], -1]) for j in jacobians], axis=1)
