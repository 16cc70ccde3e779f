"""What is said after a fit that went wrong is true of it."""

import warnings

import keras
import numpy as np
import pytest

import tfjac

X = np.random.default_rng(0).normal(size=(96, 4)).astype("float32")
Y = (X.sum(axis=1, keepdims=True) > 0).astype("float32")


def model_of(last, loss):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1, last)])
    model.compile(tfjac.LevenbergMarquardt(), loss)
    return model


def said(model, *data, **options):
    """Return what tfjac warns of in `fit`, as one string."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*data, verbose=0, **options)
    return " ".join(str(each.message) for each in caught if "tfjac" in str(each.message))


@pytest.mark.by_day(None)
@pytest.mark.parametrize("row", [3, 95])
def test_nan_in_the_data_is_no_weight_below_zero(row):
    x = X.copy()
    x[row, 2] = np.nan
    text = said(model_of("linear", "mse"), x, Y, batch_size=32, epochs=2, shuffle=False)
    assert "was not finite at the start" in text and "Received: 1 such step" in text
    assert "The loss itself was finite" not in text


@pytest.mark.by_day(None)
def test_steps_of_both_kinds_are_told_apart():
    x = X.copy()
    x[3, 2] = np.nan
    weights = np.where(np.arange(96) == 40, -0.5, 1.0)
    text = said(model_of("linear", "mse"), x, Y, batch_size=32, shuffle=False, sample_weight=weights)
    assert "The loss itself was finite in 1 of them: look for sample or class weights below zero" in text
    assert "Received: 2 such steps" in text


def grown(last, loss, bias):
    """Return what is said of a model whose outputs are far away by its last step, and were not by its first."""
    model = model_of(last, loss)
    model.fit(X, Y, batch_size=96, verbose=0)
    model.layers[-1].bias.assign([bias])
    model.optimizer._state._damping[0].assign(1e30)  # no step changes anything
    return said(model, X, Y, batch_size=96)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize(
    ("last", "loss", "bias"),
    [("linear", keras.losses.BinaryCrossentropy(from_logits=True), 1e9), ("exponential", "mse", 12.0)],
    ids=["cross-entropy", "exponential"],
)
def test_what_has_diverged_asks_for_larger_batches_not_for_other_targets(last, loss, bias):
    text = grown(last, loss, bias)
    assert "the loss is far above where it began" in text and "larger batches" in text
    assert "targets" not in text


@pytest.mark.by_day(None)
def test_large_squares_of_a_linear_layer_are_of_targets():
    text = grown("linear", "mse", 1e6)
    assert "standardise the targets, (y - y.mean()) / y.std(), or call tfjac.fit" in text and "diverged" not in text


def test_targets_that_a_last_layer_cannot_take_standardised_are_divided():
    model = model_of("exponential", "mse")
    model.optimizer.build(model.trainable_variables)
    model.optimizer._state._damping[0].assign(1e30)
    text = said(model, X, 1e4 * Y, batch_size=96)
    assert "y / y.std() where outputs are positive alone" in text and "diverged" not in text


@pytest.mark.by_day(None)
def test_a_poisson_loss_of_large_counts_is_nothing_to_warn_of():
    assert not said(model_of("exponential", "poisson"), X, 1e8 * Y, batch_size=96)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("what", ["NaN", "a Poisson loss of a linear output", "moving statistics"])
def test_what_is_seen_is_said_at_once(what):
    """NaN in the first epoch; statistics as soon as the data are seen to be one batch, not after the last of 40."""
    x, model = X.copy(), model_of("linear", "mse" if what != "a Poisson loss of a linear output" else "poisson")
    if what == "NaN":
        x[3] = np.nan
    if what == "moving statistics":
        model = keras.Sequential([keras.Input([4]), keras.layers.BatchNormalization(), keras.layers.Dense(1)])
        model.compile(tfjac.LevenbergMarquardt(), "mse")
    said = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        count = lambda epoch, logs: said.append([str(each.message) for each in caught if "tfjac" in str(each.message)])  # noqa: E731
        model.fit(
            x, Y, batch_size=96, epochs=8, verbose=0, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=count)]
        )
    words = "moving statistics" if what == "moving statistics" else "softplus or exponential, not linear"
    first = 3 if what == "moving statistics" else 0
    assert [words in " ".join(each) for each in said] == [epoch >= first for epoch in range(8)]
    assert len(said[-1]) == 1
