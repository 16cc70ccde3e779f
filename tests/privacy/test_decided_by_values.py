"""What the values of a batch decide, loops' ends and sizes, mixes examples: one changes what all others are taken by.

The oracle does not read the graph: the clipped sum with an example, less that with padding in its place, is at most C.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfjac import privacy

N, STEPS, NORM = 16, 6, 1e-2


class Applied(keras.layers.Layer):
    """A function of `tanh(w x)`, of w `[6]`, of x `[n, 6]`, and of lengths `[n]`."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def build(self, *shapes):
        self.w = self.add_weight(shape=(STEPS,), initializer="ones")

    def call(self, x, lengths):
        return self._function(tf.tanh(x * self.w), self.w, x, lengths)


def clipped_sum(function, x, lengths, weights):
    keras.utils.set_random_seed(0)
    given = keras.Input((STEPS,)), keras.Input((), dtype="int32")
    model = keras.Model(given, keras.layers.Dense(1)(Applied(function)(*given)))
    before = np.concatenate([variable.numpy().ravel() for variable in model.trainable_variables])
    model.compile(privacy.DPOptimizer(keras.optimizers.SGD(1.0), NORM, 0.0, batch_size=N), "mse", jit_compile=False)
    data = tf.data.Dataset.from_tensor_slices(((x, lengths), np.ones((N, 1), "float32"), weights)).batch(N)
    model.fit(data, verbose=0)
    return N * (before - np.concatenate([variable.numpy().ravel() for variable in model.trainable_variables]))


def loop(until):
    """A function that adds up as long as `until(step, h, x, lengths)`."""
    return lambda h, w, x, lengths: tf.while_loop(
        lambda k, state: until(k, state, x, lengths), lambda k, state: (k + 1, 1.1 * state + w), (0, h)
    )[1]


def drawn_as_long_as_the_longest(h, w, x, lengths):
    def body(k, some):
        return k + 1, some.write(k, w[0])

    rows = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[])
    _, rows = tf.while_loop(lambda k, some: k < tf.reduce_max(lengths), body, (0, rows))
    return h * tf.cast(tf.size(rows.stack()), tf.float32)


MIXED = {
    "a loop until all are done": loop(lambda k, h, x, lengths: (k < 9) & (tf.reduce_max(h) < 3)),
    "a loop to the longest": loop(lambda k, h, x, lengths: k < tf.reduce_max(lengths)),
    "a loop by the data": loop(lambda k, h, x, lengths: k < tf.cast(tf.reduce_max(x), tf.int32)),
    "a branch by all": lambda h, w, x, lengths: tf.cond(tf.reduce_any(x > 4), lambda: h, lambda: -2 * h),
    "how many are positive": lambda h, w, x, lengths: h * tf.cast(tf.size(tf.where(x > 1)), tf.float32),
    "rows of a mask": lambda h, w, x, lengths: h * tf.cast(tf.shape(tf.boolean_mask(x, x > 1))[0], tf.float32),
    "a range to the longest": lambda h, w, x, lengths: (
        h * tf.cast(tf.size(tf.range(tf.reduce_max(lengths))), tf.float32)
    ),
    "ones as many as": lambda h, w, x, lengths: h * tf.reduce_sum(tf.fill([tf.size(tf.where(x > 1))], 1.0)),
    "weights as many as": lambda h, w, x, lengths: h * tf.reduce_sum(w[: tf.shape(tf.where(x > 1))[0]]),
    "a choice by a size": lambda h, w, x, lengths: tf.where(tf.shape(tf.where(x > 1))[0] > 3, h, -h),
    "different numbers": lambda h, w, x, lengths: h * tf.cast(tf.size(tf.unique(lengths)[0]), tf.float32),
    "a list that a loop fills": drawn_as_long_as_the_longest,
    "a size inside of a branch": lambda h, w, x, lengths: (
        h * tf.cond(w[0] > 0, lambda: tf.cast(tf.size(tf.where(x > 1)), tf.float32), lambda: 1.0)
    ),
}
APART = {
    "as they are": lambda h, w, x, lengths: h,
    "a loop to the width": loop(lambda k, h, x, lengths: k < tf.shape(x)[1]),
    "a loop by a weight": lambda h, w, x, lengths: tf.while_loop(
        lambda k, state: (k < 3) & (w[0] > 0), lambda k, state: (k + 1, 1.1 * state + w), (0, h)
    )[1],
    "sizes of the batch": lambda h, w, x, lengths: tf.reshape(h, [tf.size(x) // STEPS, STEPS]),
    "a mask of each": lambda h, w, x, lengths: h * tf.sequence_mask(lengths, STEPS, tf.float32),
    "sizes behind a table": lambda h, w, x, lengths: h + tf.zeros([tf.shape(tf.gather(w, lengths - 1))[0], 1]),
    "a map": lambda h, w, x, lengths: tf.vectorized_map(lambda row: row * w, h),
}


def data():
    random = np.random.default_rng(0)
    x = random.uniform(0.1, 0.9, size=(N, STEPS)).astype("float32")
    lengths = random.integers(1, 4, size=N).astype("int32")
    x[0], lengths[0] = 5, STEPS
    return x, lengths, np.ones(N, "float32")


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name", MIXED)
def test_what_all_values_decide_is_refused(name):
    with pytest.raises(privacy.NotApart):
        clipped_sum(MIXED[name], *data())


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", APART)
def test_what_they_do_not_decide_is_bounded_by_the_norm(name):
    x, lengths, weights = data()
    with_it = clipped_sum(APART[name], x, lengths, weights)
    x[0], lengths[0], weights[0] = 0, 1, 0
    change = np.linalg.norm(with_it - clipped_sum(APART[name], x, lengths, weights))
    assert 0.5 * NORM < change < 1.001 * NORM
