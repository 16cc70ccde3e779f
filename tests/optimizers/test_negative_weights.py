"""Sample weights below zero: no convex loss trains with them, and none changes a bit."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac.optimizers import LevenbergMarquardt, Status, least_squares

X = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")
Y = (X @ [[1.0], [2.0], [-1.0]]).astype("float32")
CLASSES = (Y[:, 0] > 0).astype("float32")

LOSSES = {
    "mse": ("mse", None, Y),
    "huber": ("huber", None, Y),
    "log_cosh": ("log_cosh", None, Y),
    "cauchy": (tfjac.RobustError("cauchy"), None, Y),
    "binary": ("binary_crossentropy", "sigmoid", CLASSES[:, None]),
    "poisson": ("poisson", "exponential", CLASSES[:, None]),
    "sparse": ("sparse_categorical_crossentropy", "softmax", CLASSES),
}


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", LOSSES)
def test_what_is_weighted_below_zero_is_not_finite(name):
    loss, activation, y = LOSSES[name]
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(2 if name == "sparse" else 1, activation)])
    model.compile(LevenbergMarquardt(), loss=loss)
    before = [weight.tobytes() for weight in model.get_weights()]
    negative = np.where(np.arange(40) < 3, -2.0, 1.0).astype("float32")
    model.train_on_batch(X, y, sample_weight=negative)
    assert model.optimizer.status is Status.NOT_FINITE
    assert [weight.tobytes() for weight in model.get_weights()] == before
    model.train_on_batch(X, y, sample_weight=np.abs(negative))
    assert model.optimizer.status is not Status.NOT_FINITE
    assert [weight.tobytes() for weight in model.get_weights()] != before


def test_variables_without_elements():
    """One beside others takes no part; alone there is nothing to vary."""
    empty, one = tf.Variable(tf.zeros([0], tf.float64)), tf.Variable([3.0], dtype=tf.float64)
    result = least_squares(lambda: tf.concat([one - 1, one + tf.reduce_sum(empty)], 0), [one, empty])
    assert result.success
    np.testing.assert_allclose(one.numpy(), [0.5], rtol=1e-7)
    with pytest.raises(ValueError, match=r"nothing to vary.*Received: .* of shape \(0,\)"):
        least_squares(lambda: tf.concat([empty, [1.0]], 0), empty)
    assert tfjac.jacobian(lambda: tf.reduce_sum(empty) + one, empty).shape == (1, 0)
