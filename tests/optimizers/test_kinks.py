"""Losses of straight lines with a kink have no curvature, whatever the last layer of a model is."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac.objective.not_squares import NotASumOfSquares

X = np.random.default_rng(0).normal(size=(24, 3)).astype("float32")
Y = np.exp(X.sum(axis=1, keepdims=True) / 2)
LAST = ["linear", "softplus", "exponential", "sigmoid", "relu", "square"]


def step(loss, last):
    keras.utils.set_random_seed(0)
    last = tf.square if last == "square" else last
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1, last)])
    model.compile(tfjac.LevenbergMarquardt(), loss)
    model.train_on_batch(X, Y)
    return model.optimizer.num_accepted


def pinball(y, p):
    return tf.maximum(0.9 * (y - p), 0.1 * (p - y))


def weighted(y, p):
    return y * tf.abs(y - p)


def chosen(y, p):
    return tf.where(tf.cast(y, tf.int32) > 0, tf.where(p > y, p - y, y - p), 0.0)


KINKS = {
    "mae": ("mae", "an absolute value, as in 'mae'.*type Abs"),
    "mape": ("mape", "an absolute value, as in 'mae'.*type Abs"),
    "hinge": ("hinge", "a maximum, as in hinge losses"),
    "pinball": (pinball, "type Maximum"),
    "weighted": (weighted, "type Abs"),
    "chosen": (chosen, "Received: op"),
}


@pytest.mark.by_day(one_in=9)
@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("name", KINKS)
def test_a_kink_is_refused(name, last):
    loss, words = KINKS[name]
    with pytest.raises(NotASumOfSquares, match=words):
        step(loss, last)


def smooth_pinball(y, p):
    return 0.9 * (y - p) + 0.1 * tf.nn.softplus((p - y) / 0.1)


def quantile_huber(y, p):
    error = y - p
    huber = tf.where(tf.abs(error) < 0.1, 5 * error**2, tf.abs(error) - 0.05)
    return tf.abs(0.9 - tf.cast(error < 0, "float32")) * huber


SMOOTH = {
    "log_cosh": "log_cosh",
    "huber": keras.losses.Huber(0.1),
    "poisson": "poisson",
    "msle": "msle",
    "kl_divergence": "kl_divergence",
    "binary_crossentropy": "binary_crossentropy",
    "binary_focal_crossentropy": "binary_focal_crossentropy",
    "smooth pinball": smooth_pinball,
    "quantile Huber": quantile_huber,
}


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name", SMOOTH)
def test_what_has_curvature_is_taken_behind_a_softplus(name):
    step(SMOOTH[name], "softplus")


@pytest.mark.by_day(None)
@pytest.mark.parametrize("last", ["softplus", "exponential", "square"])
@pytest.mark.parametrize(
    "loss", [lambda y, p: tf.abs(p), lambda y, p: tf.clip_by_value(p, 0, 1e6)], ids=["absolute", "clipped"]
)
def test_a_kink_that_is_never_crossed_is_none(loss, last):
    assert step(loss, last) == 1


def poisson_by_hand(y, p):
    return p - y * tf.math.log(p + 1e-7)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("last", ["relu", "relu6"])
@pytest.mark.parametrize("loss", ["poisson", "kl_divergence", poisson_by_hand])
def test_a_logarithm_behind_relu_has_no_way_back_from_zero(loss, last):
    with pytest.raises(NotASumOfSquares, match=r"^Op '.*Relu6?' has no place .*last layer be softplus or exponential"):
        step(loss, last)


@pytest.mark.by_day(None)
def test_a_logarithm_behind_relu_of_one_and_more_is_taken():
    assert step(lambda y, p: p - y * tf.math.log(p + 1.0), "relu") == 1
