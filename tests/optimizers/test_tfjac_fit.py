"""`tfjac.fit`: the minimum of SciPy and of the normal equations, whole or summed, and the pits around plain `fit`."""

import warnings

import keras
import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

import tfjac
from tests.precision import floating
from tfjac.keras.fitting_data import FittingData

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 4))
Y = np.sin(X @ RNG.normal(size=(4, 1))) + 0.1 * RNG.normal(size=(90, 1))


def mlp(units=5, seed=3, inputs=True):
    keras.utils.set_random_seed(seed)
    front = [keras.Input((4,))] if inputs else []
    return keras.Sequential([*front, keras.layers.Dense(units, activation="tanh"), keras.layers.Dense(1)])


def loss_of(model, x, y):
    return np.mean((model.predict(x, verbose=0, batch_size=len(x)) - y) ** 2)


def warned(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    return [str(each.message) for each in caught if "tfjac" in str(each.message)], result


@pytest.mark.by_day(None)
def test_it_ends_at_the_minimum_of_scipy():
    with floating("float64"):
        model = mlp(units=2)
        shapes = [weight.shape for weight in model.get_weights()]
        cuts = np.cumsum([np.prod(shape) for shape in shapes])[:-1]

        def residuals(flat):
            w1, b1, w2, b2 = (part.reshape(shape) for part, shape in zip(np.split(flat, cuts), shapes))
            return (np.tanh(X @ w1 + b1) @ w2 + b2 - Y)[:, 0]

        history = tfjac.fit(model, X, Y)
        flat = np.concatenate([weight.ravel() for weight in model.get_weights()])
    assert history.status.converged and isinstance(history, keras.callbacks.History)
    there = np.sum(residuals(flat) ** 2)
    onwards = scipy.optimize.least_squares(residuals, flat, method="lm", ftol=1e-14, xtol=1e-14, gtol=1e-14)
    np.testing.assert_allclose(there, 2 * onwards.cost, rtol=1e-4)
    np.testing.assert_allclose(history.history["loss"][-1], there / len(X), rtol=1e-10)
    assert model.optimizer.steps_per_batch > 1 and len(history.history["loss"]) < 100


@pytest.mark.by_day(None)
def test_summed_batches_take_the_same_steps():
    with floating("float64"):
        models, histories = [mlp(), mlp()], []
        models[0].compile(optimizer=tfjac.LevenbergMarquardt(), loss="mse")
        histories.append(tfjac.fit(models[0], X, Y, max_steps=4).history["loss"])
        histories.append(tfjac.fit(models[1], X, Y, max_steps=12, batch_size=25).history["loss"])
    found = [loss for k, loss in enumerate(histories[1]) if k == 0 or loss < histories[1][k - 1]]
    np.testing.assert_allclose(found[1:4], histories[0][:3], rtol=1e-8)
    assert models[1].optimizer.memory == "epoch"


@pytest.mark.by_day(None)
def test_the_best_weights_by_validation_are_restored():
    model = mlp(units=30)
    history = tfjac.fit(model, X, Y, validation_split=1 / 3, patience=5)
    losses = history.history["val_loss"]
    assert history.status is tfjac.Status.STOPPED and len(losses) == np.argmin(losses) + 6
    np.testing.assert_allclose(loss_of(model, X[60:], Y[60:]), min(losses), rtol=1e-4)
    again = mlp(units=30)
    given = tfjac.fit(again, X[:60], Y[:60], validation_data=(X[60:], Y[60:]), patience=5)
    np.testing.assert_array_equal(given.history["val_loss"], losses)


@pytest.mark.by_day(None)
def test_a_compiled_model_keeps_what_it_has():
    model, optimizer = mlp(), tfjac.LevenbergMarquardt(damping="multiplicative")
    model.compile(optimizer=optimizer, loss=keras.losses.Huber(), metrics=["mae"])
    history = tfjac.fit(model, X, Y, max_steps=7)
    assert model.optimizer is optimizer and len(history.history["mae"]) <= 7
    error = np.abs(model.predict(X, verbose=0) - Y)
    expected = np.mean(np.where(error <= 1, error**2 / 2, error - 0.5))
    np.testing.assert_allclose(history.history["loss"][-1], expected, rtol=1e-4)


@pytest.mark.by_day(None)
def test_data_sets_unbuilt_models_and_weights():
    weights = np.arange(90) % 3
    whole, summed = mlp(inputs=False), mlp(inputs=False)
    tfjac.fit(whole, X, Y, sample_weight=weights, max_steps=60)
    data = tf.data.Dataset.from_tensor_slices((X.astype("float32"), Y, weights)).batch(40)
    history = tfjac.fit(summed, data, max_steps=60)
    assert history.status is not tfjac.Status.RUNNING and summed.optimizer.memory == "epoch"
    first, second = (np.average((m.predict(X, verbose=0) - Y) ** 2, weights=weights[:, None]) for m in (whole, summed))
    np.testing.assert_allclose(first, second, rtol=0.3)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("options", [{}, {"validation_split": 0.2}, {"batch_size": 30}])
def test_lists_stand_for_several_inputs_and_outputs_as_in_keras(options):
    def fitted(kind):
        keras.utils.set_random_seed(0)
        inputs = [keras.Input((1,)), keras.Input((3,))]
        hidden = keras.layers.Dense(4, activation="tanh")(keras.layers.Concatenate()(inputs))
        model = keras.Model(inputs, [keras.layers.Dense(1)(hidden), keras.layers.Dense(2)(hidden)])
        x, y = kind([X[:, :1], X[:, 1:]]), kind([Y, X[:, :2]])
        validation = {} if "validation_split" in options else {"validation_data": (x, y)}
        return tfjac.fit(model, x, y, loss=["mse", "mse"], max_steps=3, **validation, **options).history

    by_lists, by_tuples = fitted(list), fitted(tuple)
    assert by_lists["loss"][-1] < by_lists["loss"][0]
    np.testing.assert_array_equal(by_lists["val_loss"], by_tuples["val_loss"])


def test_memory_decides_between_one_batch_and_sums():
    model, data = mlp(), FittingData.of(X, Y, None, 0)
    assert data.batches(model, None, 2**30) is None
    batches = data.batches(model, None, 2**12)
    sizes = [len(x) for x, _ in batches]
    assert len(sizes) > 1 and sum(sizes) == 90
    forward = 4 * (5 + 5 + 5 + 1 + 1)  # bytes of an example in float32: product, sum and activation; product and sum
    assert sizes[0] * 2 * forward <= 2**12 <= 2 * sizes[0] * 2 * forward  # forwards, and back for its one output


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: tfjac.fit(lambda x: x, X, Y), r"tfjac.least_squares.*Received: a function"),
        (lambda m: (setattr(m, "trainable", False), tfjac.fit(m, X, Y)), "There is nothing to train"),
        (lambda m: tfjac.fit(m, X), r"arrays x and y.*Received: x of type ndarray without y"),
        (lambda m: tfjac.fit(m, X, Y, validation_split=1.0), r"fraction.*Received: validation_split=1.0"),
        (lambda m: tfjac.fit(m, X, Y, validation_split=0.1, validation_data=(X, Y)), "leave one of them out"),
        (lambda m: tfjac.fit(m, X, Y, validation_data=X), r"\(x, y\).*Received: a ndarray"),
        (lambda m: tfjac.fit(m, X[1:], Y), r"same number of examples.*Received: \[89, 90\]"),
        (lambda m: tfjac.fit(m, tf.data.Dataset.from_tensors((X, Y)), Y), "holds targets and weights itself"),
        (lambda m: (m.compile("adam", "mse"), tfjac.fit(m, X, Y)), r"or not at all.*compiled with Adam"),
        (lambda m: (m.compile(tfjac.LevenbergMarquardt(), "mse"), tfjac.fit(m, X, Y, loss="mae")), "leave loss out"),
        (lambda m: (m.compile(tfjac.LevenbergMarquardt(), "mse"), tfjac.fit(m, X, Y, batch_size=9)), "does not sum up"),
        (lambda m: tfjac.fit(X, Y, m), r"trains a Keras model.*Received: a ndarray"),
        (lambda m: tfjac.fit(m, X, Y, epochs=3), r"no argument 'epochs': .*max_steps.*Received: epochs, 3 of type int"),
        (lambda m: tfjac.fit(m, X, Y, max_step=3), r"'max_step'. Did you mean 'max_steps'"),
        (lambda m: tfjac.fit(m, X.tolist(), Y.tolist()), r"np.asarray.*Received: x of type list"),
        (lambda m: tfjac.fit(m, X[:0], Y[:0]), "0 examples"),
        (lambda m: tfjac.fit(m, tf.data.Dataset.from_tensor_slices((X, Y))), r"batch\(size\).*\(4,\), \(1,\)"),
        (lambda m: tfjac.fit(m, tf.data.Dataset.from_tensor_slices((X, Y[:, 0]))), r"batch\(size\)"),
        (lambda m: tfjac.fit(m, tf.data.Dataset.from_tensors((X, Y)).repeat()), r"leave repeat\(\) out"),
        (lambda m: tfjac.fit(m, tf.data.Dataset.from_tensors(X)), r"must hold batches \(x, y\)"),
    ],
)
def test_refusals(change, words):
    with pytest.raises((ValueError, TypeError), match=words):
        change(mlp())


@pytest.mark.by_day(None)
def test_class_weights_are_the_weights_of_the_examples_and_one_callback_needs_no_list():
    labels, weights = (Y[:, 0] > 0).astype(int), {0: 1.0, 1: 5.0}
    models = mlp(), mlp()
    for model in models:
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
        model.compile(tfjac.LevenbergMarquardt(), loss)
    seen = []
    callback = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch))
    first = tfjac.fit(models[0], X, labels, class_weight=weights, max_steps=4, callbacks=callback)
    second = tfjac.fit(models[1], X, labels, sample_weight=np.where(labels, 5.0, 1.0), max_steps=4, callbacks=None)
    np.testing.assert_allclose(first.history["loss"], second.history["loss"], rtol=1e-5)
    assert seen == [0, 1, 2, 3]
    logits = models[0].predict(X, verbose=0)[:, 0]
    each = np.where(labels, 5 * np.logaddexp(0, -logits), np.logaddexp(0, logits))
    np.testing.assert_allclose(first.history["loss"][-1], each.mean(), rtol=1e-4)


# ------------------------------------------------------------------------------------------------ plain fit


def trained(epochs=2, x=X, callbacks=(), batch_size=32, units=20, **options):
    model = mlp(units)
    model.compile(optimizer=tfjac.LevenbergMarquardt(**options), loss="mse")
    said, _ = warned(lambda: model.fit(x, Y, epochs=epochs, verbose=0, batch_size=batch_size, callbacks=[*callbacks]))
    return said, model


@pytest.mark.by_day(None)
def test_small_batches_are_warned_of_once():
    said, model = trained(memory=None)
    assert len(said) == 1
    for words in ("fewer residuals than the model has weights (121)", "batch_size=len(x)", "tfjac.fit(model, x, y)"):
        assert words in said[0]
    assert 'memory="epoch"' in said[0] and "Received: 1 step on such" in said[0]
    assert warned(lambda: model.fit(X, Y, verbose=0))[0] == []


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 90},
        {"batch_size": 90, "steps_per_batch": 3},
        {"units": 4},
        {"memory": "epoch", "callbacks": [tfjac.callbacks.StepMonitor()]},
        {"memory": 0.9},
        {},
        {"batch_size": 90, "regularization": "bayesian"},
    ],
    ids=lambda options: "-".join(options),
)
def test_what_is_right_is_not_warned_of(options):
    assert trained(**options)[0] == []


@pytest.mark.by_day(None)
def test_dropout_of_one_batch_is_not_taken_for_several_batches():
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(20), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
    )
    assert warned(lambda: tfjac.fit(model, X[:30], Y[:30], max_steps=20))[0] == []


@pytest.mark.by_day(None)
def test_a_batch_that_is_not_finite_is_said_once_with_its_status():
    said, model = trained(x=np.where(np.arange(90)[:, None] == 3, np.nan, X), epochs=3, batch_size=90)
    assert len(said) == 1 and "NOT_FINITE" in said[0] and "Received: 1 such step" in said[0]
    assert model.optimizer.status is tfjac.Status.NOT_FINITE


def normalised(momentum):
    keras.utils.set_random_seed(5)
    parts = [keras.layers.Dense(3), keras.layers.BatchNormalization(momentum=momentum), keras.layers.Activation("tanh")]
    return keras.Sequential([keras.Input((4,)), *parts, keras.layers.Dense(1)])


def test_moving_statistics_are_those_of_all_examples():
    """At the weights that stay, by NumPy: so the model predicts as it was trained, after a few steps."""
    with floating("float64"):
        model = normalised(momentum=0.99)
        said, history = warned(lambda: tfjac.fit(model, X, Y, validation_data=(X[:30], Y[:30]), max_steps=8))
        dense, norm = model.layers[:2]
        outputs = X @ dense.kernel.numpy() + dense.bias.numpy()
        np.testing.assert_allclose(norm.moving_mean.numpy(), outputs.mean(0), atol=1e-10)
        np.testing.assert_allclose(norm.moving_variance.numpy(), outputs.var(0), rtol=1e-10)
        inside = loss_of(model, X[:30], Y[:30])
    assert not said and norm.momentum == 0.99
    np.testing.assert_allclose(min(history.history["val_loss"]), inside, rtol=1e-8)


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    ("momentum", "epochs", "warns"), [(0.99, 2, True), (0.9, 2, True), (0.9, 50, False), (0.0, 2, False)]
)
def test_moving_statistics_that_stay_behind_are_named(momentum, epochs, warns):
    """0.9⁵⁰ is 0.005: of the start next to nothing is left."""
    model = normalised(momentum)
    model.compile(tfjac.LevenbergMarquardt(), "mse")
    said, _ = warned(lambda: model.fit(X, Y, batch_size=len(X), epochs=epochs, verbose=0))
    assert bool([text for text in said if "BatchNormalization(momentum=0.0)" in text]) is warns


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("options", [{}, {"steps_per_execution": 2}])
@pytest.mark.parametrize("assigns", [True, False])
def test_weights_that_a_layer_assigns_are_named(options, assigns):
    keras.utils.set_random_seed(0)
    dense = keras.layers.Dense(3)
    layer = keras.layers.SpectralNormalization(dense) if assigns else dense
    model = keras.Sequential([keras.Input((4,)), layer, keras.layers.Dense(1)])
    model.compile(tfjac.LevenbergMarquardt(), "mse", **options)
    said, _ = warned(lambda: model.fit(X, Y, batch_size=len(X), epochs=2, verbose=0))
    assert len(said) == assigns and (not assigns or "kernel" in said[0].split("Received")[1])


@pytest.mark.by_day(None)
def test_a_mean_over_the_batch_beside_the_model_is_no_moving_statistic():
    """The seed of a dropout is assigned, too: it is no average."""
    keras.utils.set_random_seed(5)
    layers = keras.layers
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, "tanh"), layers.Dropout(0.2), layers.Dense(1)])
    model.compile(tfjac.LevenbergMarquardt(), "mse")
    said, _ = warned(lambda: model.fit(X, Y, batch_size=len(X), epochs=2, verbose=0))
    assert not [text for text in said if "moving" in text]
