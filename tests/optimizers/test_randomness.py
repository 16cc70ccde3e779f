"""A trial step is judged on the draw that it was made for: on a noisy quadratic, the reduction is what was promised.

A loss that is drawn again for the trial differs by far more than a short step can gain: gain ratios of ten and more.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfjac.optimizers import LevenbergMarquardt, NielsenDamping

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(20, 3)), RNG.normal(size=(20, 2))
GENERATOR, SEED = tf.random.Generator.from_seed(1), keras.random.SeedGenerator(2)


def noise(like):
    return tf.random.normal(tf.shape(like), dtype=like.dtype)


def from_numpy(like, function=tf.numpy_function, reads=tf.shape):
    draw = lambda given: np.random.default_rng().normal(size=given.shape if reads is tf.identity else tuple(given))  # noqa: E731
    return tf.ensure_shape(function(draw, [reads(like)], like.dtype), like.shape)


NOISY = {
    "added": lambda p: p + noise(p),
    "multiplied": lambda p: p * noise(p),
    "a mask": lambda p: p * tf.cast(tf.random.uniform(tf.shape(p)) < 0.5, p.dtype),
    "a shuffled batch": lambda p: p - tf.random.shuffle(tf.constant(Y)),
    "a generator": lambda p: p + GENERATOR.normal(tf.shape(p), dtype=p.dtype),
    "Keras' seed generator": lambda p: p + keras.random.normal(tf.shape(p), seed=SEED, dtype="float64"),
    "numpy_function": lambda p: p + from_numpy(p),
    "numpy_function of the values": lambda p: p + from_numpy(p, reads=tf.identity),
    "py_function": lambda p: p + from_numpy(p, tf.py_function),
    "an inner function": lambda p: tf.function(lambda p: p + noise(p))(p),
    "an inner function, seeded": lambda p: tf.function(
        lambda p: p + keras.random.normal(tf.shape(p), seed=SEED, dtype="float64")
    )(p),
    "vectorized_map": lambda p: tf.vectorized_map(lambda row: row * tf.random.normal([2], dtype=p.dtype), p),
    "a loop of its own": lambda p: p + tf.map_fn(lambda _: noise(Y[0]), tf.zeros([20], p.dtype)),
}


def one_step(function):
    """Return the gain ratio of one short step on ‖function(X·w) − Y‖²."""
    weight = tf.Variable(RNG.normal(size=(3, 2)))
    optimizer = LevenbergMarquardt(NielsenDamping(1e3))
    return float(optimizer.minimize(lambda: function(tf.matmul(X, weight)) - Y, [weight]).ratio)


@pytest.mark.by_day(one_in=13)
@pytest.mark.parametrize("name", NOISY)
def test_the_trial_sees_the_same_draw(name):
    np.testing.assert_allclose(one_step(NOISY[name]), 1, rtol=1e-6)


REFUSED = {
    "a branch": (lambda p: tf.cond(tf.constant(True), lambda: p + noise(p), lambda: p), "type If"),
    "a loop": (lambda p: tf.map_fn(lambda row: row + noise(row), p), "type While"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_draws_inside_control_flow_that_the_variables_enter_are_refused(name):
    function, words = REFUSED[name]
    with pytest.raises(
        ValueError, match=f"drawn inside a loop or branch is drawn again.*{words}.*RandomStandardNormal"
    ):
        one_step(lambda p: tf.ensure_shape(function(p), p.shape))


def fitted(*stack, x=X, y=Y):
    """Return the optimizer after two short steps of `fit` on layers that are linear but for what they draw."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input(x.shape[1:]), *stack])
    model.compile(optimizer=LevenbergMarquardt(NielsenDamping(1.0)), loss="mse")
    model.fit(x, y, batch_size=20, epochs=2, verbose=0)
    return model.optimizer


@pytest.mark.by_day(None)
def test_dropout():
    optimizer = fitted(keras.layers.Dense(2), keras.layers.Dropout(0.3))
    np.testing.assert_allclose(optimizer.last_ratio, 1, rtol=1e-3)


class NoisyCell(keras.layers.SimpleRNNCell):
    """A recurrent cell that drops again in every step, which layers of cells do once before their loop."""

    def call(self, sequence, states, training=False):
        output, states = super().call(sequence, states)
        return keras.random.dropout(output, 0.3, seed=SEED), states


@pytest.mark.by_day(None)
@pytest.mark.parametrize("unroll", [False, True])
def test_a_cell_that_draws_in_every_step(unroll):
    """Seeds advance inside the loop: refused there, and right where the loop is unrolled."""
    layers = keras.layers.RNN(NoisyCell(2, activation=None), unroll=unroll), keras.layers.Dense(2)
    x = RNG.normal(size=(20, 3, 3))
    if unroll:
        assert 0.8 < fitted(*layers, x=x).last_ratio < 1.2
    else:
        with pytest.raises(ValueError, match=r"drawn inside a loop.*AssignVariable"):
            fitted(*layers, x=x)


def test_dropout_of_recurrent_layers():
    optimizer = fitted(
        keras.layers.SimpleRNN(2, activation=None, dropout=0.3, recurrent_dropout=0.3), x=RNG.normal(size=(20, 3, 3))
    )
    assert 0.8 < optimizer.last_ratio < 1.2
