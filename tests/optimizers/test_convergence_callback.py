"""The callback `Convergence`: it stops where SciPy's minimum is, for a reason that holds, and shows the steps."""

import keras
import numpy as np
import pytest
import scipy.optimize

import tfjac
from tests.optimizers.test_fit import X, Y, compiled, fit, mlp, weights
from tests.precision import floating
from tfjac.optimizers import LevenbergMarquardt, Status


def linear(seed=0):
    keras.utils.set_random_seed(seed)
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])


def converged_fit(model, epochs=60, batch_size=96, x=X, y=Y, **options):
    callback = tfjac.callbacks.Convergence(**options)
    return callback, fit(model, epochs, batch_size, x, y, callbacks=[callback])


@pytest.mark.by_day(None)
def test_it_stops_at_the_minimum():
    """A linear model: that of the normal equations; more steps would change nothing."""
    with floating("float64"):
        model = compiled(linear())
        callback, history = converged_fit(model)
    design = np.concatenate([X, np.ones((96, 1))], axis=1).astype("float64")
    expected = np.linalg.lstsq(design, Y.astype("float64"), rcond=None)[0]
    assert callback.status.converged and callback.message == callback.status.message and len(history["loss"]) < 20
    kernel, bias = model.get_weights()
    np.testing.assert_allclose(np.concatenate([kernel, bias[None]]), expected, atol=1e-6)
    assert model.optimizer.last_report.reduction <= 1e-8 * history["loss"][-1]


@pytest.mark.by_day(None)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_first_step_may_build_the_model(dtype):
    """Tolerances are those of its dtype; wrong ones are refused before the first step."""
    with floating(dtype):
        for layers in [keras.layers.Dense(2)], [keras.Input((4,)), keras.layers.Dense(2)]:
            keras.utils.set_random_seed(0)
            model = compiled(keras.Sequential(layers))
            callback, history = converged_fit(model)
            assert callback.status.converged and len(history["loss"]) < 20
    assert min(callback._limits) == np.sqrt(np.finfo(dtype).eps)
    with pytest.raises(ValueError, match="xtol"):
        converged_fit(compiled(keras.Sequential([keras.layers.Dense(2)])), xtol=2.0)


@pytest.mark.by_day(None)
def test_it_logs_what_the_steps_did():
    """The gradient norm is that of Keras' own loss, before the last step."""
    model = compiled(linear())
    before = [weight.copy() for weight in model.get_weights()]
    _, history = converged_fit(model, epochs=1)
    error = X @ before[0] + before[1] - Y
    expected = max(np.abs(2 * X.T @ error / error.size).max(), np.abs(2 * error.sum(axis=0) / error.size).max())
    np.testing.assert_allclose(history["gradient_norm"], [expected], rtol=1e-5)
    assert history["accepted_steps"] == [1] and history["damping"] == [model.optimizer.current_damping]


@pytest.mark.by_day(None)
def test_mini_batches_do_not_converge_while_one_does_not():
    """The first half is fitted exactly from the start, the second is not: both are asked."""
    model = compiled(linear())
    y = Y.copy()
    y[:48] = model.predict(X[:48], verbose=0)
    callback, history = converged_fit(model, epochs=3, batch_size=48, y=y, xtol=0, ftol=0, gtol=1e-6)
    assert callback.status is Status.MAX_STEPS and len(history["loss"]) == 3


def test_reasons_are_true():
    model = compiled()
    patience, history = converged_fit(model, epochs=9, x=np.full_like(X, np.nan), patience=2)
    assert patience.status is Status.NOT_FINITE and len(history["loss"]) == 1
    used_up, _ = converged_fit(model, epochs=1)
    assert used_up.status is Status.MAX_STEPS
    stopped = tfjac.callbacks.Convergence(verbose=1)
    stop = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: setattr(model, "stop_training", True))
    fit(model, 5, callbacks=[stopped, stop])
    assert stopped.status is Status.STOPPED


def test_tolerances_are_checked():
    with pytest.raises(ValueError, match=r"ftol must be.*Received: ftol=-1"):
        converged_fit(compiled(), ftol=-1)
    with pytest.raises(TypeError, match=r"Convergence reads .*Received: a model compiled with Adam"):
        converged_fit(compiled(optimizer=keras.optimizers.Adam()))


@pytest.mark.by_day(None)
def test_a_convex_loss_below_zero_converges():
    """Poisson's loss is negative for large counts: the gradient's tolerance is relative to its size."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    y = rng.poisson(np.exp(3 + x @ [0.3, -0.2])).astype("float64")[:, None]
    with floating("float64"):
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, "exponential")])
        model.compile(LevenbergMarquardt(), "poisson")
        callback, history = converged_fit(model, 80, 80, x, y, ftol=0, xtol=0, gtol=1e-9)
    assert callback.status is Status.GRADIENT_TOLERANCE and history["loss"][-1] < 0
    design = np.concatenate([x, np.ones((80, 1))], axis=1)

    def loss(w):
        return np.mean(np.exp(design @ w) - y[:, 0] * (design @ w))

    found = scipy.optimize.minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(weights(model), found, atol=1e-5)
    probability = np.exp(design @ weights(model))
    slope, diagonal = design.T @ (probability - y[:, 0]) / 80, (design**2).T @ probability / 80
    assert np.max(np.abs(slope) / np.sqrt(diagonal * 2 * abs(loss(weights(model))))) < 1e-8


@pytest.mark.by_day(None)
def test_steps_per_batch():
    model = compiled(mlp(), LevenbergMarquardt(steps_per_batch=20))
    callback, history = converged_fit(model, epochs=200, ftol=1e-3)
    assert callback.status in (Status.COST_TOLERANCE, Status.GRADIENT_TOLERANCE) and 1 < len(history["loss"]) < 200
