"""Residuals `[n, 1]` less `[n]`, which TensorFlow broadcasts to n² of them, are warned of; what is meant is not."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac.optimizers import LevenbergMarquardt

N = tf.constant(np.linspace(0, 1, 7, dtype="float32"))
SCALE = tf.Variable(0.5)


def _fit_with(loss, batch_size=7):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(optimizer=LevenbergMarquardt(), loss=loss)
    model.fit(N[:, None], N[:, None], batch_size=batch_size, verbose=0)


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize(
    "call",
    [
        lambda: tfjac.least_squares(lambda: SCALE * N[:, None] - N, SCALE),
        lambda: tfjac.least_squares(lambda: tf.reshape(2 * (N - SCALE * N[:, None]), [-1]), SCALE, loss="huber"),
        lambda: _fit_with(lambda y, prediction: tf.reduce_mean((y[:, 0] - prediction) ** 2)),
        lambda: _fit_with(lambda y, p: tf.reduce_mean(tf.math.squared_difference(p, y[:, 0])), batch_size=3),
    ],
)
def test_residuals_of_all_with_all_are_warned_of(call):
    with pytest.warns(UserWarning, match=r"n² residuals in place of n.*Received: \(.*\) − \(.*\) in op"):
        call()


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize(
    "call",
    [
        lambda: tfjac.least_squares(lambda: SCALE * N - N, SCALE),
        lambda: tfjac.least_squares(lambda: tf.abs(SCALE * N[:, None] - N) - tf.zeros([7, 7]), SCALE),
        lambda: tfjac.least_squares(lambda: SCALE * N[:, None] - N[:1], SCALE),
        lambda: _fit_with("mse"),
    ],
)
def test_other_residuals_are_not(call):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*n² residuals")
        call()
