"""Poisson samples of targets with positions: one weight for each row, whatever axes the losses have."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfjac import privacy

N, SIZE, CLIP = 30, 15, 0.05
LAYERS = keras.layers
RNG = np.random.default_rng(0)
SEQUENCES, IMAGES = RNG.normal(size=(N, 6, 3)), RNG.normal(size=(N, 5, 4, 1))
FACTORS = np.where(np.arange(N) % 5 == 0, 0.0, RNG.uniform(0.1, 2.0, N))


def squares(y, p):
    return (tf.cast(y, p.dtype) - p) ** 2


def surprise(y, p):
    return -tf.math.log(tf.gather(p, tf.cast(tf.reshape(y, tf.shape(p)[:-1]), tf.int32), batch_dims=p.shape.rank - 1))


def binary(y, p):
    return -tf.where(y > 0, tf.math.log(p), tf.math.log(1 - p))


def classes(*shape):
    return RNG.integers(0, 4, (N, *shape))


CASES = {
    "a value for each position": (
        SEQUENCES,
        SEQUENCES[:, :, :1],
        [LAYERS.LSTM(4, return_sequences=True)],
        1,
        "mse",
        squares,
    ),
    "several values": (SEQUENCES, SEQUENCES, [LAYERS.Dense(4, "tanh")], 3, "mae", lambda y, p: tf.abs(y - p)),
    "a class for each position": (SEQUENCES, classes(6), [], 4, "sparse_categorical_crossentropy", surprise),
    "with an axis of one": (SEQUENCES, classes(6, 1), [], 4, "sparse_categorical_crossentropy", surprise),
    "in float": (SEQUENCES, classes(6) + 0.0, [], 4, "sparse_categorical_crossentropy", surprise),
    "one position": (SEQUENCES[:, :1], classes(1), [], 4, "sparse_categorical_crossentropy", surprise),
    "an autoencoder": (IMAGES, IMAGES, [LAYERS.Conv2D(3, 3, padding="same", activation="relu")], 1, "mse", squares),
    "a segmentation": (IMAGES, np.sign(IMAGES) / 2 + 0.5, [], 1, "binary_crossentropy", binary),
    "with classes": (IMAGES, classes(5, 4), [], 4, "sparse_categorical_crossentropy", surprise),
    "one loss for each element": (SEQUENCES, SEQUENCES, [], 3, squares, squares),
    "no positions, several outputs": (SEQUENCES[:, 0], SEQUENCES[:, 1], [], 3, "mse", squares),
    "no positions": (SEQUENCES[:, 0], SEQUENCES[:, 1, 0], [], 1, "mse", lambda y, p: squares(y[:, None], p)),
}
ACTIVATIONS = {"sparse_categorical_crossentropy": "softmax", "binary_crossentropy": "sigmoid"}


def clipped_sum(model, loss, x, y, weights):
    """Return Σ min(1, C/‖g‖) g / B, with one tape for each row and the mean of its losses times its weight."""
    variables, total = [v.value for v in model.trainable_variables], 0.0
    for i, weight in enumerate(weights):
        with tf.GradientTape() as tape:
            value = weight * tf.reduce_mean(loss(y[i : i + 1], model(x[i : i + 1])))
        row = np.concatenate([g.numpy().ravel() for g in tape.gradient(value, variables)])
        norm = np.linalg.norm(row)
        total = total + row * (min(1.0, CLIP / norm) if norm else 0.0)
    return total / SIZE


def flat(model):
    return np.concatenate([v.numpy().ravel() for v in model.trainable_variables])


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", CASES)
def test_the_weight_of_a_row_counts_for_all_its_positions(name):
    x, y, layers, outputs, loss, losses = CASES[name]
    last = LAYERS.Dense(outputs, ACTIVATIONS.get(loss))
    model = keras.Sequential([keras.Input(x.shape[1:], dtype="float64"), *in_float64([*layers, last])])
    data = privacy.poisson_batches(x, y, SIZE, 1, seed=3, sample_weight=FACTORS)
    given, wanted, weights = next(data.as_numpy_iterator())
    assert weights.size == len(given) > np.count_nonzero(weights)
    expected, before = clipped_sum(model, losses, given, wanted, weights.ravel().astype(float)), flat(model)
    model.compile(privacy.DPOptimizer(keras.optimizers.SGD(1.0), CLIP, 0.0, batch_size=SIZE), loss, jit_compile=False)
    model.fit(data, shuffle=False, verbose=0)
    np.testing.assert_allclose(before - flat(model), expected, atol=1e-6 * np.abs(expected).max())


def in_float64(layers):
    keras.utils.set_random_seed(0)
    return [type(layer).from_config({**layer.get_config(), "dtype": "float64"}) for layer in layers]


def test_each_target_has_weights_of_its_rank():
    targets = {"a": classes(), "b": classes(6), "c": IMAGES, "d": SEQUENCES, "e": classes(1)}
    _, _, weights = next(privacy.poisson_batches(SEQUENCES, targets, SIZE, 1, seed=3).as_numpy_iterator())
    assert {name: each.shape[1:] for name, each in weights.items()} == {
        "a": (), "b": (1,), "c": (1, 1), "d": (1, 1), "e": ()
    }  # fmt: skip


@pytest.mark.parametrize("rows", [6, 20])
def test_weights_that_keras_gives_to_positions_are_refused(rows):
    """Of six rows with six positions, Keras multiplies position j of each by the weight of row j."""
    model = keras.Sequential([keras.Input((6, 3)), LAYERS.Dense(1)])
    model.compile(privacy.DPOptimizer(keras.optimizers.SGD(1.0), CLIP, 0.0), "mse", jit_compile=False)
    data = tf.data.Dataset.from_tensors((SEQUENCES[:rows], SEQUENCES[:rows, :, :1], FACTORS[:rows]))
    data = data.map(lambda *each: tuple(tf.ensure_shape(t, [None, *t.shape[1:]]) for t in each))
    with pytest.raises((privacy.NotApart, ValueError), match=r"decide.*give them as|must be equal"):
        model.fit(data, shuffle=False, verbose=0)


@pytest.mark.by_day(None)
def test_a_loss_of_one_number_for_each_example_takes_weights_of_one_axis():
    model = keras.Sequential([keras.Input((5, 4, 1)), LAYERS.Dense(3)])
    y = np.repeat(IMAGES, 3, axis=-1)
    data = privacy.poisson_batches(IMAGES, y, SIZE, 1, seed=3)
    for given in data, data.map(lambda x, y, w: (x, y, tf.reshape(w, [-1]))):
        optimizer = privacy.DPOptimizer(keras.optimizers.SGD(1.0), CLIP, 0.0, batch_size=SIZE)
        model.compile(optimizer, lambda y, p: tf.reduce_mean((y - p) ** 2, axis=[1, 2, 3]), jit_compile=False)
        if given is data:
            with pytest.raises(privacy.NotApart, match=r"those of losses \[n\] as \[n\]"):
                model.fit(given, shuffle=False, verbose=0)
        else:
            model.fit(given, shuffle=False, verbose=0)
