"""`memory=β` on streams: a linear model is held to recursive least squares with forgetting, a curve to SciPy's."""

import keras
import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from tests.digits import load_digits
from tests.optimizers.test_fit import weights
from tests.precision import floating
from tfjac.drive.streamed.batch_weight import weight_among_batches
from tfjac.drive.streamed.least_damping import LeastDamping
from tfjac.optimizers import LevenbergMarquardt, MultiplicativeDamping, NielsenDamping, Status

layers = keras.layers
RNG = np.random.default_rng(0)
UNDAMPED = MultiplicativeDamping(1e-14, minimum=1e-15)


def stream(batches, size, truth, noise=0.1):
    """Return x `[batches, size, 3]` and y `[batches, size]`, a line through noise."""
    x = RNG.normal(size=(batches, size, 3))
    return x, x @ truth + noise * RNG.normal(size=(batches, size))


def linear(**options):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([layers.Input((3,)), layers.Dense(1, use_bias=False)])
    model.compile(LevenbergMarquardt(**options), loss="mse", jit_compile=False)
    return model


@pytest.fixture
def no_least(monkeypatch):
    """Take away what keeps steps from being those of the recursion."""
    monkeypatch.setattr(LeastDamping, "raised", lambda self, state, *_: state)


def recursive_least_squares(x, y, decay):
    """Return the estimate after every batch: the minimum of the batches' mean squares, as they fade.

    The first batch is taken alone, as it does not show that data are new.
    """
    gram, right, path = np.zeros((3, 3)), np.zeros(3), [np.linalg.lstsq(x[0], y[0])[0]]
    for rows, values in zip(x[1:], y[1:]):
        gram = decay * gram + rows.T @ rows / len(rows)
        right = decay * right + rows.T @ values / len(rows)
        path.append(np.linalg.lstsq(gram, right)[0])
    return np.array(path)


def trained(model, x, y):
    """Return the weights after every batch."""
    path = []
    for rows, values in zip(x, y):
        model.train_on_batch(rows, values[:, None])
        path.append(weights(model))
    return np.array(path)


@pytest.mark.by_day(None)
def test_a_linear_model_is_recursive_least_squares(no_least):
    x, y = stream(30, 6, [1.0, -2.0, 0.5])
    with floating("float64"):
        model = linear(memory=0.9, damping=UNDAMPED)
        path = trained(model, x, y)
    np.testing.assert_allclose(path, recursive_least_squares(x, y, 0.9), rtol=1e-8)
    assert model.optimizer.num_accepted == 30


@pytest.mark.by_day(None)
def test_damping_holds_back_but_loses_nothing(no_least):
    """Damped at first, the estimate gets to where it would be: batches of two examples, fewer than parameters."""
    x, y = stream(80, 2, [1.0, -2.0, 0.5])
    with floating("float64"):
        path = trained(linear(memory=0.98, damping=NielsenDamping(10.0)), x, y)
    expected = recursive_least_squares(x, y, 0.98)
    assert np.abs(path[3] - expected[3]).max() > 1e-2
    np.testing.assert_allclose(path[-20:], expected[-20:], rtol=1e-5)


@pytest.mark.core
def test_many_weights_take_a_step_for_an_eighth_as_many_examples(no_least):
    """Batches between steps are remembered: each step is that of recursive least squares on all before it."""
    size, batch, count, decay = 264, 8, 60, 0.99
    x = RNG.normal(size=(count, batch, size))
    y = x @ RNG.normal(size=size) + 0.1 * RNG.normal(size=(count, batch))
    path = []
    with floating("float64"):
        model = keras.Sequential([layers.Input((size,)), layers.Dense(1, use_bias=False)])
        model.compile(LevenbergMarquardt(memory=decay, damping=UNDAMPED), loss="mse", jit_compile=False)
        note = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: path.append(weights(model)))
        flat = x.reshape(-1, size), y.reshape(-1, 1)
        model.fit(*flat, batch_size=batch, shuffle=False, verbose=0, callbacks=[note])
    assert model.optimizer.num_accepted == count // 4 and model.optimizer.num_steps == count
    fading = np.repeat(decay ** np.arange(count)[::-1], batch)
    for k in range(40, count):
        seen = (k // 4 * 4 + 1) * batch  # all up to the last step
        root = np.sqrt(fading[-seen:])
        expected = np.linalg.lstsq(root[:, None] * flat[0][:seen], root * flat[1][:seen, 0])[0]
        np.testing.assert_allclose(path[k], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.by_day(None)
def test_it_follows_what_changes_and_settles_where_nothing_does():
    first, second = stream(40, 8, [1.0, -2.0, 0.5]), stream(60, 8, [-1.0, 0.0, 2.0])
    model = linear(memory=0.8, gram_dtype="float64")
    np.testing.assert_allclose(trained(model, *first)[-1], [1.0, -2.0, 0.5], atol=0.1)
    np.testing.assert_allclose(trained(model, *second)[-1], [-1.0, 0.0, 2.0], atol=0.1)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("damping", ["nielsen", "multiplicative", "trust_region"])
def test_it_follows_after_a_long_time_with_nothing_to_gain(damping, dtype):
    """Steps within the rounding of what they are judged by do not raise the damping."""
    (x, _), late = stream(60, 8, [1.0, -2.0, 0.5]), stream(25, 8, [-1.0, 0.0, 2.0])
    with floating(dtype):
        model = linear(memory=0.8, damping=damping)
        trained(model, x, x @ [1.0, -2.0, 0.5])
        path = trained(model, late[0], late[0] @ [-1.0, 0.0, 2.0])
    assert np.abs(path[-1] - [-1.0, 0.0, 2.0]).max() < 10 * 0.8**25 * 3


@pytest.mark.by_day(None)
def test_a_curve_from_a_stream_of_its_points():
    """The stream goes over the same 200 points again and again: it ends near the least squares of all of them."""
    x = RNG.uniform(-2, 2, (200, 1)).astype("float32")
    y = 1.5 * np.tanh(0.8 * x - 0.3) + 0.05 * RNG.normal(size=x.shape).astype("float32")

    def residuals(w):
        return (w[2] * np.tanh(w[0] * x + w[1]) - y).ravel()

    best = scipy.optimize.least_squares(residuals, [1.0, 0.0, 1.0], method="lm")
    keras.utils.set_random_seed(2)
    hidden = layers.Dense(1, "tanh", kernel_initializer="ones")
    model = keras.Sequential([layers.Input((1,)), hidden, layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    model.compile(LevenbergMarquardt(memory=0.99), loss="mse", jit_compile=False)
    model.fit(x, y, batch_size=5, epochs=10, verbose=0)
    found = weights(model)
    assert (residuals(found) ** 2).sum() < 1.02 * 2 * best.cost
    np.testing.assert_allclose(found, best.x, atol=0.05)


@pytest.mark.by_day(None)
def test_saved_and_gone_on(tmp_path):
    x, y = stream(20, 6, [1.0, -2.0, 0.5])
    whole, half = linear(memory=0.9), linear(memory=0.9)
    trained(whole, x, y)
    trained(half, x[:10], y[:10])
    half.save(tmp_path / "half.keras")
    loaded = keras.models.load_model(tmp_path / "half.keras")
    assert loaded.optimizer.get_config()["memory"] == 0.9
    trained(loaded, x[10:], y[10:])
    np.testing.assert_allclose(weights(loaded), weights(whole), rtol=1e-6)


@pytest.mark.by_day(None)
def test_what_is_not_finite_is_not_remembered():
    x, y = stream(12, 6, [1.0, -2.0, 0.5])
    with_gap, without = linear(memory=0.9), linear(memory=0.9)
    trained(with_gap, x[:6], y[:6])
    before = weights(with_gap)
    trained(with_gap, np.full_like(x[:1], np.nan), y[:1])
    assert with_gap.optimizer.status is Status.NOT_FINITE
    np.testing.assert_array_equal(weights(with_gap), before)
    trained(with_gap, x[6:], y[6:])
    trained(without, x, y)
    np.testing.assert_array_equal(weights(with_gap), weights(without))


@pytest.mark.by_day(None)
@pytest.mark.parametrize("memory", [0.98, 0.998])
def test_rare_labels_are_learnt(memory):
    """3 % of labels are one. Undamped, steps ended at losses of 1e22 in the first epoch: nearly all are certain."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 12)).astype("float32")
    highest = np.tanh(x @ rng.normal(size=(12, 20)) / 2).sum(axis=1) + rng.normal(size=2000)
    y = (highest > np.quantile(highest, 0.97)).astype("float32")[:, None]
    keras.utils.set_random_seed(0)
    hidden = [layers.Dense(units, "relu") for units in (32, 16)]
    model = keras.Sequential([layers.Input((12,)), *hidden, layers.Dense(1)])
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(LevenbergMarquardt(memory=memory), loss, jit_compile=False)
    model.fit(x, y, batch_size=32, epochs=3, verbose=0)
    assert model.evaluate(x, y, batch_size=500, verbose=0) < 0.8 * -(0.03 * np.log(0.03) + 0.97 * np.log(0.97))


@pytest.mark.by_day(None)
def test_classes_are_learnt():
    """Undamped, the mean loss of digits was 4 in the first epoch, and 6 in the second."""
    x, y = load_digits()
    keras.utils.set_random_seed(0)
    model = keras.Sequential([layers.Input((64,)), layers.Dense(10, "tanh"), layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(LevenbergMarquardt(memory=0.99), loss, jit_compile=False)
    losses = model.fit(x.reshape(-1, 64), y, batch_size=32, epochs=2, verbose=0).history["loss"]
    assert losses[0] < 1 and losses[1] < 0.3


def test_a_regulariser_fades_with_the_batches(no_least):
    """Ridge regression of each batch's mean: its pull does not grow against the data, nor fall behind."""
    x, y = stream(25, 6, [1.0, -2.0, 0.5])
    gram, right = np.zeros((3, 3)), np.zeros(3)
    for rows, values in zip(x[1:], y[1:]):
        gram = 0.9 * gram + rows.T @ rows / 6 + 0.25 * np.eye(3)
        right = 0.9 * right + rows.T @ values / 6
    with floating("float64"):
        held = layers.Dense(1, use_bias=False, kernel_regularizer=keras.regularizers.L2(0.25))
        model = keras.Sequential([layers.Input((3,)), held])
        model.compile(LevenbergMarquardt(memory=0.9, damping=UNDAMPED), loss="mse", jit_compile=False)
        trained(model, x, y)
    np.testing.assert_allclose(weights(model), np.linalg.solve(gram, right), rtol=1e-8)


@pytest.mark.by_day(None)
def test_by_hand(no_least):
    x, y = stream(30, 6, [1.0, -2.0, 0.5])
    w, optimizer = tf.Variable(np.zeros(3)), LevenbergMarquardt(memory=0.9, damping=UNDAMPED)
    for rows, values in zip(x, y):
        optimizer.minimize(lambda x, y: tf.linalg.matvec(x, w) - y, [w], args=(rows, values))
    np.testing.assert_allclose(w, recursive_least_squares(x, y, 0.9)[-1], rtol=1e-8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": 1.5}, r"a number between 0 and 1 .* Received: memory=1.5 of type float"),
        ({"memory": 1.0}, r"an integer, how many batches make up one step.* Received: memory=1.0 of type float"),
        ({"memory": True}, r"memory must be 'auto', None .* Received: memory=True of type bool"),
        ({"memory": "epochs"}, r"'epoch' for all of an epoch. Received: memory='epochs' of type str"),
        ({"solver": "kernel"}, r"Received: memory=0.9 and solver='kernel'"),
        ({"steps_per_batch": 3}, "memory=0.9 goes without steps_per_batch"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LevenbergMarquardt(**{"memory": 0.9, **options})


# ------------------------------------------------------------------------ what a batch counts for


def sequence(*between, masks=True):
    embedding = layers.Embedding(9, 3, mask_zero=masks)
    return keras.Sequential([layers.Input((5,), dtype="int32"), embedding, *between, layers.Dense(2)])


def dense(*between, **options):
    return keras.Sequential([layers.Input((5,)), layers.Dense(3, **options), *between, layers.Dense(2)])


def two_outputs():
    tokens = layers.Input((5,), dtype="int32")
    hidden = layers.Embedding(9, 3, mask_zero=True)(tokens)
    return keras.Model(tokens, [layers.Dense(2)(hidden), layers.Dense(2)(hidden)])


def normalised(y, z):
    return tf.reduce_mean(tf.square(y - z) * tf.abs(y) / tf.reduce_mean(tf.abs(y)))


def by_hand(y, z):
    return tf.reduce_sum(tf.square(y - z) * tf.abs(y)) / (tf.reduce_sum(tf.abs(y)) + 1e-7)


def over_examples(y, z):
    return tf.reduce_mean(tf.square(y - z), axis=0)


BY_WEIGHTS = keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
EXAMPLES, VALID, SIZES = lambda x, y, w: len(x), lambda x, y, w: np.sum(x != 0), lambda x, y, w: np.sum(np.abs(y))
COUNTS = {
    "mask": (sequence, "mse", VALID),
    "mask behind a recurrent layer": (lambda: sequence(layers.LSTM(3, return_sequences=True)), "mse", VALID),
    "no mask": (lambda: sequence(masks=False), "mse", EXAMPLES),
    "weights": (dense, BY_WEIGHTS, lambda x, y, w: np.sum(w)),
    "weights and a mask": (sequence, BY_WEIGHTS, lambda x, y, w: np.sum(w * (x != 0))),
    "outputs with a mask": (two_outputs, ["mse", "mse"], VALID),
    "batch normalisation": (lambda: dense(layers.BatchNormalization()), "mse", EXAMPLES),
    "regularisers": (lambda: dense(activity_regularizer="l2", kernel_regularizer="l2"), "mse", EXAMPLES),
    "weights in the loss": (dense, normalised, SIZES),
    "a mean by hand": (dense, by_hand, SIZES),
    "a mean for each output": (dense, over_examples, EXAMPLES),
    "a number, times weights": (dense, by_hand, lambda x, y, w: SIZES(x, y, w) * len(x) / np.sum(w)),
    "a sum": (dense, keras.losses.MeanSquaredError(reduction="sum"), lambda x, y, w: 1),
}


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("name", COUNTS)
def test_what_a_batch_counts_for_is_what_its_loss_is_the_mean_of(name):
    make, loss, counts = COUNTS[name]
    model, rng, found, expected = make(), np.random.default_rng(0), [], []
    model.compile("sgd", loss)
    is_sequence = model.inputs[0].dtype == "int32"

    @tf.function(reduce_retracing=True, jit_compile=name == "mask")
    def weight(x, y, sample_weight):
        loss = model.compute_loss(x, y, model(x, training=True), sample_weight)
        return weight_among_batches(loss, model.trainable_variables)

    for number in (16, 7, 3):  # the first is traced with its size known, the others with an open one
        x = rng.integers(0, 9, (number, 5)) if is_sequence else rng.normal(size=(number, 5))
        shape, w = (number, 5, 2) if is_sequence else (number, 2), rng.uniform(size=x.shape if is_sequence else number)
        y, w = rng.normal(size=shape).astype("float32"), w.astype("float32")
        x = tf.constant(x, model.inputs[0].dtype)
        weighed = w if "weights" in name and loss is not normalised else None
        labels = [tf.constant(y)] * len(model.outputs) if len(model.outputs) > 1 else tf.constant(y)
        found.append(weight(x, labels, weighed).numpy())
        expected.append(counts(x.numpy(), y, w))
    np.testing.assert_allclose(np.divide(found, found[0]), np.divide(expected, expected[0]), rtol=1e-5)
