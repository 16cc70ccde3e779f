"""Targets in any unit, such as prices, by `tfjac.fit` and `model.fit`: the start, held to NumPy, and what is left."""

import contextlib
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5)).astype("float32")
G = np.sin(X[:, :1]) + 0.5 * X[:, 1:2] * X[:, 2:3] + 0.3 * X[:, 3:4]
G = (G - G.mean()) / G.std()
FAR = 2e5 + 8e4 * G
SAID = r"tfjac.fit: the targets are far .* begins with its last layer.*Standardise.*Received: targets with errors of 2"


def mlp(*last, units=1):
    keras.utils.set_random_seed(0)
    layers = last or (keras.layers.Dense(units),)
    return keras.Sequential([keras.Input((5,)), keras.layers.Dense(16, "tanh"), keras.layers.Dense(8, "tanh"), *layers])


def explained(model, y=FAR):
    return 1 - np.mean((model.predict(X, verbose=0) - y) ** 2) / np.var(y, axis=0).mean()


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize(
    "options",
    [{}, {"batch_size": 150}, {"validation_split": 0.2}, {"sample_weight": np.ones(400)}],
    ids=["whole", "summed", "validated", "weights"],
)
def test_prices_are_fitted_as_standardised_ones(options):
    model = mlp()
    with pytest.warns(UserWarning, match=SAID) if "batch_size" in options else contextlib.nullcontext():
        tfjac.fit(model, X, FAR, max_steps=100, **options)
    assert explained(model) > 0.99


@pytest.mark.by_day("values")
@pytest.mark.parametrize("y", [1e-3 * G, 1e-5 * G, 1000 + G, 7 + 0.15 * G], ids=["small", "tiny", "offset", "narrow"])
def test_other_units_are_fitted_as_standardised_targets(y):
    """The last layer begins in proportion to the targets: steps are those for standardised ones."""
    model = mlp()
    tfjac.fit(model, X, y, max_steps=60)
    assert explained(model, y) > 0.9999


@pytest.mark.by_day(None)
@pytest.mark.parametrize("compiled", [False, True])
def test_several_targets_and_a_compiled_model(compiled):
    model, y = mlp(units=2), np.concatenate([FAR, -0.01 * FAR], axis=1)
    if compiled:
        model.compile(tfjac.LevenbergMarquardt(), keras.losses.MeanSquaredError())
    tfjac.fit(model, X, y, max_steps=60)
    assert explained(model, y) > 0.9


@pytest.mark.by_day(None)
@pytest.mark.parametrize("loss", ["mse", "huber"])
@pytest.mark.parametrize(("offset", "size"), [(1000, 1), (0, 1e-3), (-5, 1e-2), (2e5, 5e4)])
def test_the_start_is_that_of_numpy(offset, size, loss):
    """The first step is s w of the last layer, the mean of the targets for its bias, and nothing else."""
    model, y = mlp(), offset + size * G
    model.compile(tfjac.LevenbergMarquardt(), loss)
    before, outputs = model.get_weights(), model.predict(X, verbose=0)
    error = np.abs(outputs - y)
    weights = np.ones_like(y) if loss == "mse" else np.minimum(1, 1 / error)  # Huber's slope over the error
    mean = np.average(y, weights=weights)
    s = min(1, np.sqrt((weights * (y - mean) ** 2).sum() / (weights * outputs**2).sum()))
    model.fit(X, y, batch_size=400, epochs=1, verbose=0)
    *after, kernel, bias = model.get_weights()
    for one, other in zip(before, after):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(kernel, s * before[-2], rtol=2e-3)
    np.testing.assert_allclose(bias, mean, rtol=1e-4, atol=1e-6)
    report = model.optimizer.last_report
    assert report.accepted and model.optimizer._state.unit.numpy() == 0
    left = model.evaluate(X, y, batch_size=400, verbose=0)
    np.testing.assert_allclose(report.cost, left, rtol=1e-3, atol=1e-6 * report.cost_before)


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    ("y", "loss"), [(G, "mse"), (0.5 + 1.5 * G, "mse"), (G, "huber"), (1.0 * (G > 1.5), "binary_crossentropy")]
)
def test_other_targets_have_no_start(y, loss):
    """Steps are those of D = I, to the bit, but for the unit."""
    weights = []
    for scaling in ("outputs", "identity"):
        keras.utils.set_random_seed(1)
        model = mlp(keras.layers.Dense(1, "sigmoid" if loss.startswith("binary") else None))
        model.compile(tfjac.LevenbergMarquardt(scaling=scaling), loss)
        model.fit(X, y, batch_size=400, epochs=2, verbose=0)
        weights.append(model.get_weights())
    for one, other in zip(*weights):
        np.testing.assert_array_equal(one, other)


@pytest.mark.by_day(None)
def test_a_batch_that_is_not_finite_is_no_start():
    model, y = mlp(), np.where(np.arange(400)[:, None] == 3, np.nan, FAR)
    model.compile(tfjac.LevenbergMarquardt(), "mse")
    before = model.get_weights()
    model.fit(X, y, batch_size=400, epochs=1, verbose=0)
    for one, other in zip(before, model.get_weights()):
        np.testing.assert_array_equal(one, other)


@pytest.mark.by_day("values")
@pytest.mark.parametrize("loss", ["mse", "huber"])
@pytest.mark.parametrize(("offset", "size"), [(0, 1e-3), (0, 1e5), (1000, 1)])
def test_plain_fit_in_batches_is_as_good_in_any_unit(offset, size, loss):
    model, y = mlp(), offset + size * G
    model.compile(tfjac.LevenbergMarquardt(), loss)
    model.fit(X, y, batch_size=32, epochs=15, verbose=0)
    assert explained(model, y) > (0.999 if loss == "mse" else 0.95)


@pytest.mark.by_day(None)
def test_training_goes_on_from_where_it_was():
    model = mlp()
    tfjac.fit(model, X, FAR, max_steps=20)
    reached = explained(model)
    tfjac.fit(model, X, FAR, max_steps=5)
    assert explained(model) >= reached - 1e-6


@pytest.mark.by_day(None)
def test_a_layer_behind_the_last_one_may_be_linear():
    model = mlp(keras.layers.Dense(1), keras.layers.Rescaling(3.0, 1.0))
    tfjac.fit(model, X, FAR, max_steps=60)
    assert explained(model) > 0.99


@pytest.mark.by_day(None)
def test_the_last_layer_is_that_of_least_squares():
    """Of sums over batches: the outputs after no accepted step are those of NumPy's least squares on the features."""
    model = mlp()
    features = keras.Model(model.inputs, model.layers[-1].input).predict(X, verbose=0)
    weights = RNG.uniform(size=400)
    h = np.concatenate([features, np.ones((400, 1))], axis=1)
    root = np.sqrt(weights)[:, None]
    expected = h @ np.linalg.lstsq(root * h, root * FAR, rcond=None)[0]
    stop = keras.callbacks.LambdaCallback(on_train_begin=lambda logs: kept.append(model.predict(X, verbose=0)))
    kept: list = []
    with pytest.warns(UserWarning, match=SAID):
        tfjac.fit(model, X, FAR, sample_weight=weights, batch_size=150, max_steps=1, callbacks=stop)
    np.testing.assert_allclose(kept[0], expected, atol=0.02 * FAR.std())


def test_a_last_layer_that_is_not_linear_is_said():
    model = mlp(keras.layers.Dense(1), keras.layers.Rescaling(1.0))
    with pytest.warns(UserWarning, match=r"tfjac.fit: the targets are far .* training may end early. Standardise"):
        tfjac.fit(model, X, FAR, batch_size=150, max_steps=1)


@pytest.mark.by_day(None)
def test_fit_says_that_the_loss_is_large():
    model = mlp()
    model.compile(tfjac.LevenbergMarquardt(scaling="identity"), "mse")
    with pytest.warns(UserWarning, match=r"the loss is still large.*Received: a loss of \S+e\+"):
        model.fit(X, FAR, batch_size=400, epochs=2, verbose=0)
    assert not tf.executing_eagerly() or model.optimizer.num_steps == 2


@pytest.mark.by_day(None)
def test_fit_is_as_good_in_the_unit_of_the_targets():
    model = mlp()
    model.compile(tfjac.LevenbergMarquardt(), "mse")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="tfjac")
        model.fit(X, FAR, batch_size=400, epochs=100, verbose=0)
    assert explained(model) > 0.99
