"""A slice of a private batch is the same function as the batch, whatever its loops and choices do with its size.

The oracle is the same step on the batch taken whole; those steps are held against one tape for each example elsewhere.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.privacy.test_slices import loops  # noqa: F401
from tfjac import privacy

N, T = 12, 4
LAYERS = keras.layers


def _loop(h, body):
    return tf.while_loop(lambda k, s: k < T, lambda k, s: (k + 1, body(k, s)), (0, tf.zeros_like(h[:, 0])))[1]


def _plain(h):
    return _loop(h, lambda k, s: tf.tanh(s + h[:, k]))


def _rows(tensor):
    return tf.shape(tensor)[0]


WHOLE = {
    "ones of n, summed, in a body": lambda h: _loop(
        h, lambda k, s: tf.tanh(s + h[:, k] * tf.reduce_sum(tf.ones([_rows(s)])) / N)
    ),
    "ones like a state, summed, in a body": lambda h: _loop(
        h, lambda k, s: tf.tanh(s + h[:, k] * tf.reduce_sum(tf.ones_like(s[:, 0])) / N)
    ),
    "random numbers in a body": lambda h: _loop(
        h, lambda k, s: tf.tanh(s + h[:, k] * tf.random.stateless_uniform(tf.shape(s), [1, 2]))
    ),
    "a number of rounds": lambda h: tf.while_loop(
        lambda k, s: k < _rows(h) // 4, lambda k, s: (k + 1, tf.tanh(s + h[:, k])), (0, h[:, 0])
    )[1],
    "a captured n that fills": (
        lambda h: (lambda n: _loop(h, lambda k, s: tf.tanh(s + h[:, k] + tf.fill([n, 1], 0.5))))(_rows(h))
    ),
    "positions in a body": lambda h: _loop(
        h, lambda k, s: tf.where(tf.range(_rows(s))[:, None] < 6, tf.tanh(s + h[:, k]), s)
    ),
}
SLICED = {
    "a choice of values": lambda h: _plain(tf.where(_rows(h) > 10, h, -3 * h)),
    "a branch": lambda h: _plain(h) + tf.cond(_rows(h) > 10, lambda: h[:, 0], lambda: -3 * h[:, 0]),
    "ones of n, summed": lambda h: _plain(h * tf.reduce_sum(tf.ones([_rows(h)])) / N),
    "an end at n // 4": lambda h: _plain(h) + tf.reduce_sum(h[:, : _rows(h) // 4], axis=1),
    "a row of a table": lambda h: _plain(h * tf.gather(tf.range(20.0) / N, _rows(h))),
    "random numbers": lambda h: _plain(h * tf.random.stateless_uniform(tf.shape(h), [1, 2])),
    "positions": lambda h: _plain(tf.where(tf.range(_rows(h))[:, None, None] < 6, h, 0 * h)),
    "a reshape to n": lambda h: _plain(tf.reshape(tf.reshape(h, [_rows(h), -1]), [_rows(h), T, 4])),
    "captured data": (lambda h: (lambda c: _loop(h, lambda k, s: tf.tanh(s + h[:, k] + c)))(tf.stop_gradient(h)[:, 0])),
    "dropout": LAYERS.LSTM(3, dropout=0.3, recurrent_dropout=0.3, seed=4),
    "dropout, GRU": LAYERS.GRU(3, dropout=0.3, recurrent_dropout=0.3, seed=4),
    "dropout, SimpleRNN": LAYERS.SimpleRNN(3, dropout=0.3, seed=4),
}


class _Function(LAYERS.Layer):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def call(self, h):
        """Return what the function does to `h`."""
        return self.function(h)


def _model(layer):
    """Return a model in which a layer, or function, stands behind a dense layer."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((T, 3))
    made = type(layer).from_config(layer.get_config()) if isinstance(layer, LAYERS.Layer) else _Function(layer)
    return keras.Model(inputs, LAYERS.Dense(1)(made(LAYERS.Dense(4, "tanh")(inputs))))


def _step(model, batch_size):
    random = np.random.default_rng(1)
    x, y = random.normal(size=(N, T, model.inputs[0].shape[-1])).astype("float32"), random.normal(size=(N, 1))
    before = [weight.numpy() for weight in model.trainable_variables]
    model.compile(privacy.DPOptimizer(keras.optimizers.SGD(1.0), 0.5, 0.0, batch_size=batch_size), "mse")
    model.fit(tf.data.Dataset.from_tensor_slices((x, y.astype("float32"))).batch(N), shuffle=False, verbose=0)
    return [start - weight.numpy() for start, weight in zip(before, model.trainable_variables)]


def _check(make, made):
    expected = _step(make(), None)  # without it a batch is taken whole
    assert not made
    for found, wanted in zip(_step(make(), N), expected):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-6)


@pytest.mark.by_day(one_in=12)
@pytest.mark.parametrize("name", SLICED)
def test_what_depends_on_the_number_of_examples_is_that_of_the_batch(name, loops):  # noqa: F811
    _check(lambda: _model(SLICED[name]), loops)
    assert loops


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name", WHOLE)
def test_loops_that_look_at_the_number_of_examples_are_taken_whole(name, loops):  # noqa: F811
    _check(lambda: _model(WHOLE[name]), loops)
    assert not loops


@pytest.mark.by_day(None)
@pytest.mark.parametrize("masked", [False, True])
def test_recurrent_layers_that_read_the_data_themselves(masked, loops):  # noqa: F811
    def make():
        keras.utils.set_random_seed(0)
        masking = [LAYERS.Masking()] if masked else []
        return keras.Sequential([keras.Input((T, 3)), *masking, LAYERS.LSTM(4), LAYERS.Dense(1)])

    _check(make, loops)
    assert loops
