"""Private steps whose batch is taken by slices, against one tape for each example."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.privacy.test_dp_optimizer import (
    CLIP,
    MODELS,
    N,
    clipped_mean,
    compiled,
    data_of,
    gradients_of_examples,
    one_step,
    weights_of,
)
from tfjac import privacy
from tfjac.jacobians import batch_slices


@pytest.fixture
def loops(monkeypatch):
    """Slices of five of the twelve examples, whatever the model; the list has an entry for each loop that was made."""
    made, loop = [], batch_slices.while_loop
    for name, value in {"FEWEST": 5, "MOST": 5, "_takes_windows": lambda analysis: True}.items():
        monkeypatch.setattr(batch_slices, name, value)
    monkeypatch.setattr(batch_slices, "while_loop", lambda *args, **options: made.append(1) or loop(*args, **options))
    return made


def _expected(model, x, y, clip=CLIP):
    rows, of_weights = gradients_of_examples(model, x, y)
    return [clipped + plain for clipped, plain in zip(clipped_mean(rows, clip)[0], of_weights)]


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", MODELS)
def test_a_step_by_slices_is_the_mean_of_the_clipped_gradients(name, loops):
    model = compiled(name, batch_size=N)
    x, y = data_of(model, np.random.default_rng(1))
    expected, before = _expected(model, x, y), weights_of(model)
    data = tf.data.Dataset.from_tensor_slices((tuple(x) if isinstance(x, list) else x, y)).batch(N)  # an open size
    model.fit(data, shuffle=False, verbose=0)
    for start, end, wanted in zip(before, weights_of(model), expected):
        np.testing.assert_allclose(start - end, wanted, rtol=2e-4, atol=2e-6)
    assert loops


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", ["dense", "convolution", "attention", "two outputs"])
def test_batches_of_a_static_size_too(name, loops):
    model = compiled(name)
    x, y = data_of(model, np.random.default_rng(2))
    expected, before = _expected(model, x, y), weights_of(model)
    model.train_on_batch(x if isinstance(x, list) else np.asarray(x), y)
    for start, end, wanted in zip(before, weights_of(model), expected):
        np.testing.assert_allclose(start - end, wanted, rtol=2e-4, atol=2e-6)
    assert loops


def test_each_layer_has_its_own_norm_in_slices(loops):
    model = compiled("convolution", batch_size=N, clipping="per_layer", clip=0.1)
    x, y = data_of(model, np.random.default_rng(3))
    rows, _ = gradients_of_examples(model, x, y)
    paths = [variable.path.rpartition("/")[0] for variable in model.trainable_variables]
    bound = 0.1 / len(set(paths)) ** 0.5
    found = one_step(model, x, y)
    for path in set(paths):
        chosen = [k for k, each in enumerate(paths) if each == path]
        expected, _ = clipped_mean([[row[k] for k in chosen] for row in rows], bound)
        for k, wanted in zip(chosen, expected):
            np.testing.assert_allclose(found[k], wanted, rtol=2e-4, atol=2e-6)
    assert loops


@pytest.mark.by_day(None)
def test_an_example_that_is_not_finite_adds_nothing_in_its_slice(loops):
    model = compiled("convolution", batch_size=N)
    x, y = data_of(model, np.random.default_rng(4))
    rows, _ = gradients_of_examples(model, x, y)
    x = x.copy()
    x[8] = np.nan  # in the second slice, and again in the third, which begins at the seventh example
    expected, _ = clipped_mean(rows[:8] + rows[9:], CLIP)
    for got, wanted in zip(one_step(model, x, y), expected):
        np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-6)
    assert loops


def test_a_dropout_in_slices_is_that_of_the_loss(loops):
    """The loss is Σ 2 w_n kept_n / N with w_n = 2ⁿ, so it tells which examples were kept."""
    keras.utils.set_random_seed(1)
    layer = keras.layers.Dense(1, use_bias=False)
    model = keras.Sequential([keras.Input((N,)), keras.layers.Dropout(0.5), layer])
    layer.set_weights([2.0 ** np.arange(N)[:, None]])
    model.compile(
        privacy.DPOptimizer(keras.optimizers.SGD(1.0), 100.0, 0.0, batch_size=N),
        loss=lambda y_true, y_pred: tf.reduce_sum(y_pred, axis=-1),
    )
    before = layer.get_weights()[0][:, 0]
    loss = model.fit(np.eye(N), np.zeros((N, 1)), batch_size=N, verbose=0).history["loss"][0]
    kept = [round(loss * N / 2) >> n & 1 for n in range(N)]
    assert 0 < sum(kept) < N
    np.testing.assert_allclose(before - layer.get_weights()[0][:, 0], 2 * np.array(kept) / N, atol=2e-4)
    assert loops


@pytest.mark.by_day(None)
def test_what_is_shared_stays_that_of_the_whole_batch(loops):
    """A loss that is multiplied by the number of rows of the batch, by way of a shape."""
    model = compiled("dense", batch_size=N, clip=1e3)
    inputs, model_of = model.inputs, keras.layers.Lambda(lambda z: z * tf.cast(tf.shape(z)[0], z.dtype))
    scaled = keras.Model(inputs, model_of(model.output))
    scaled.compile(
        privacy.DPOptimizer(keras.optimizers.SGD(1.0), 1e3, 0.0, batch_size=N),
        loss=lambda y_true, y_pred: tf.reduce_sum(y_pred, axis=-1),
    )
    x, _ = data_of(model, np.random.default_rng(5))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(model(x))
    expected = tape.gradient(total, scaled.trainable_variables[-1])  # Σ N z_n / N
    found = one_step(scaled, x, np.zeros((N, 1)))[-1]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert loops


@pytest.mark.by_day(None)
def test_a_number_of_examples_that_a_loop_takes_as_a_float_is_that_of_the_whole_batch(loops):
    """Inside of the loop nothing tells it from that of a slice, so such a batch is taken whole."""
    model = compiled("dense", batch_size=N, clip=1e3)

    def doubled_and_scaled(z):
        return tf.while_loop(
            lambda k, _: k < 2, lambda k, v: (k + 1, v * tf.cast(tf.shape(v)[0], v.dtype)), (tf.constant(0), z)
        )[1]

    scaled = keras.Model(model.inputs, keras.layers.Lambda(doubled_and_scaled, output_shape=(1,))(model.output))
    scaled.compile(
        privacy.DPOptimizer(keras.optimizers.SGD(1.0), 1e6, 0.0, batch_size=N),
        loss=lambda y_true, y_pred: tf.reduce_sum(y_pred, axis=-1),
    )
    x, _ = data_of(model, np.random.default_rng(5))
    with tf.GradientTape() as tape:
        total = N * tf.reduce_sum(model(x))
    expected, before = tape.gradient(total, scaled.trainable_variables[-1]), weights_of(scaled)[-1]
    scaled.fit(tf.data.Dataset.from_tensor_slices((x, np.zeros((N, 1)))).batch(N), shuffle=False, verbose=0)
    np.testing.assert_allclose(before - weights_of(scaled)[-1], expected, rtol=1e-4)
    assert not loops


@pytest.mark.by_day(None)
def test_small_batches_and_those_without_windows_are_taken_whole(loops, monkeypatch):
    monkeypatch.undo()
    made, loop = [], batch_slices.while_loop
    monkeypatch.setattr(batch_slices, "while_loop", lambda *args, **options: made.append(1) or loop(*args, **options))
    for name in "convolution", "dense":
        model = compiled(name, batch_size=N)
        one_step(model, *data_of(model, np.random.default_rng(6)))
    assert not made
