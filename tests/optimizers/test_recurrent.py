"""LevenbergMarquardt on recurrent models: its trial steps replay graphs with loops inside."""

import keras
import numpy as np

from tfjac.optimizers import LevenbergMarquardt

layers = keras.layers


def test_recurrent_regression_falls_at_every_step(rng):
    """The sum of a product over six steps."""
    x = rng.normal(size=(64, 6, 2)).astype("float32")
    y = np.sum(x[..., 0] * x[..., 1], axis=1, keepdims=True) / 3
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((6, 2)), layers.LSTM(4), layers.Dense(1)])
    model.compile(optimizer=LevenbergMarquardt(), loss="mse")
    losses = model.fit(x, y, batch_size=64, epochs=25, verbose=0, shuffle=False).history["loss"]
    assert (np.diff(losses) <= 0).all()
    assert losses[-1] < 0.01 * losses[0]
