"""How `tfjac.fit` and `Convergence` end: data that are not finite, Ctrl-C, errors. The weights are the best ones."""

import os
import signal
import warnings

import keras
import numpy as np
import pytest

import tfjac
from tests.optimizers.test_tfjac_fit import X, Y, loss_of, mlp


def _with_nan(values, row=3):
    return np.where(np.arange(len(values))[:, None] == row, np.nan, values)


class _Press(keras.callbacks.Callback):
    """Presses Ctrl-C after an epoch, once or twice, and notes the weights of each epoch."""

    def __init__(self, epoch, times=1):
        super().__init__()
        self.epoch, self.times, self.weights = epoch, times, []

    def on_epoch_end(self, epoch, logs=None):
        self.weights.append(self.model.get_weights())
        for _ in range(self.times if epoch == self.epoch else 0):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("where", ["targets", "inputs", "weights"])
def test_a_validation_loss_that_is_nan_is_no_lowest_one(where):
    model, x, y = mlp(), X[60:], Y[60:]
    data = {"targets": (x, _with_nan(y)), "inputs": (_with_nan(x), y), "weights": (x, y, _with_nan(y)[:, 0])}[where]
    with pytest.warns(UserWarning, match=r"the validation loss is not finite.*Received: a validation loss of nan"):
        losses = tfjac.fit(model, X[:60], Y[:60], validation_data=data, max_steps=40, patience=3).history["loss"]
    assert len(losses) > 10 and losses[-1] < 0.1 * losses[0]
    np.testing.assert_allclose(loss_of(model, X[:60], Y[:60]), losses[-1], rtol=1e-4)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("times", [1, 2])
def test_after_an_interrupt_the_weights_are_the_best(times):
    model, press = mlp(units=30), _Press(9, times)
    given = {"validation_split": 1 / 3, "patience": 100, "callbacks": press}
    if times == 2:  # at once
        with pytest.raises(KeyboardInterrupt):
            tfjac.fit(model, X, Y, **given)
    else:
        assert tfjac.fit(model, X, Y, **given).status is tfjac.Status.INTERRUPTED
    assert 10 <= len(press.weights) <= 12
    found, losses = loss_of(model, X[60:], Y[60:]), []
    for weights in press.weights:
        model.set_weights(weights)
        losses.append(loss_of(model, X[60:], Y[60:]))
    assert np.argmin(losses) < len(losses) - 1
    np.testing.assert_allclose(found, min(losses), rtol=1e-6)


@pytest.mark.by_day(None)
@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_without_validation_keeps_the_last_step():
    model, press = mlp(units=30), _Press(0)
    history = tfjac.fit(model, X, Y, callbacks=press)
    assert history.status is tfjac.Status.INTERRUPTED and len(history.history["loss"]) <= 2
    np.testing.assert_allclose(history.history["loss"][-1], loss_of(model, X, Y), rtol=1e-4)


@pytest.mark.by_day(None)
def test_an_error_in_a_callback_leaves_the_best_weights():
    model, press = mlp(units=30), _Press(99)

    def fail(epoch, logs):
        if epoch == 10:
            raise RuntimeError("stop")

    callbacks = [press, keras.callbacks.LambdaCallback(on_epoch_begin=fail)]
    with pytest.raises(RuntimeError, match="stop"):
        tfjac.fit(model, X, Y, validation_split=1 / 3, patience=100, callbacks=callbacks)
    found, losses = loss_of(model, X[60:], Y[60:]), []
    for weights in press.weights:
        model.set_weights(weights)
        losses.append(loss_of(model, X[60:], Y[60:]))
    np.testing.assert_allclose(found, min(losses), rtol=1e-6)


@pytest.mark.by_day(None)
@pytest.mark.filterwarnings("ignore:tfjac. the loss, or its gradient, was not finite")
@pytest.mark.parametrize(("size", "options"), [(90, {}), (30, {}), (30, {"memory": "epoch"})])
def test_convergence_ends_where_a_row_is_nan(size, options):
    model, convergence = mlp(units=2), tfjac.callbacks.Convergence(ftol=1e-2)
    model.compile(tfjac.LevenbergMarquardt(**options), "mse")
    y = np.where(np.arange(90)[:, None] // size == 0, _with_nan(Y), 0.0)
    epochs = model.fit(X, y, batch_size=size, epochs=300, verbose=0, shuffle=False, callbacks=[convergence]).epoch
    assert convergence.status is tfjac.Status.NOT_FINITE and len(epochs) < 100
    assert all(np.all(np.isfinite(weight)) for weight in model.get_weights())


@pytest.mark.by_day(None)
@pytest.mark.filterwarnings("ignore:tfjac. the loss, or its gradient, was not finite")
def test_tfjac_fit_ends_where_a_row_is_nan():
    history = tfjac.fit(mlp(), X, _with_nan(Y))
    assert history.status is tfjac.Status.NOT_FINITE and len(history.history["loss"]) < 3


def test_negative_weights_are_named():
    weights = np.where(np.arange(90) == 4, -0.5, 1.0)
    with pytest.raises(ValueError, match=r"sample_weight must not be negative.*Received: sample_weight with -0.5"):
        tfjac.fit(mlp(), X, Y, sample_weight=weights)
    with pytest.raises(ValueError, match=r"class_weight must not be negative.*with -2"):
        tfjac.fit(mlp(), X, Y > 0, class_weight={0: 1.0, 1: -2.0})
    model = mlp()
    model.compile(tfjac.LevenbergMarquardt(), "mse")
    with pytest.warns(UserWarning, match=r"The loss itself was finite: look for sample or class weights below zero"):
        model.fit(X, Y, batch_size=90, sample_weight=weights, verbose=0)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize(("size", "said"), [(40, True), (45, False), (90, False)])
def test_batches_of_several_sizes_under_xla_are_said(size, said):
    model = mlp(units=2)
    model.compile(tfjac.LevenbergMarquardt(), "mse", jit_compile=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, Y, batch_size=size, epochs=2, verbose=0)
    assert any("compiles the step again for each" in str(each.message) for each in caught) == said
