"""Several steps on a batch, in one call or in one epoch: the same as as many epochs of one step."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.optimizers.test_fit import X, Y, compiled, fit, mlp, weights
from tests.precision import floating
from tfjac.optimizers import LevenbergMarquardt, Status


@pytest.fixture(scope="module")
def eight_steps():
    """A model after as many epochs of one step."""
    with floating("float64"):
        model = compiled(mlp())
        fit(model, epochs=8)
    return model


@pytest.mark.by_day(None)
@pytest.mark.parametrize(("solver", "jit_compile"), [("cholesky", True), ("kernel", False)])
def test_steps_in_one_call(solver, jit_compile, eight_steps):
    with floating("float64"):
        model = compiled(mlp(), LevenbergMarquardt(solver=solver, steps_per_batch=4), jit_compile=jit_compile)
        losses = fit(model, epochs=2)["loss"]
    np.testing.assert_allclose(weights(model), weights(eight_steps), rtol=1e-6, atol=1e-8)
    assert model.optimizer.num_accepted == eight_steps.optimizer.num_accepted
    assert int(model.optimizer.iterations) == 8 and losses[1] < losses[0]


@pytest.mark.by_day(None)
@pytest.mark.parametrize("loss", ["huber", "log_cosh"])
def test_a_loss_is_the_same_function_in_every_step(loss):
    """What curvature it has follows from its constants, such as the width of Huber's, which are around the loop."""
    ends = []
    with floating("float64"):
        for steps in (1, 3):
            model = mlp()
            model.compile(LevenbergMarquardt(steps_per_batch=steps), loss=loss)
            model.fit(X, 5 * Y, batch_size=len(X), epochs=3 // steps, verbose=0)
            ends.append(weights(model))
    np.testing.assert_allclose(*ends, rtol=1e-7)


@pytest.mark.by_day(None)
def test_an_epoch_of_steps(eight_steps):
    with floating("float64"):
        model = compiled(mlp(), steps_per_execution=4)
        model.fit(tfjac.full_batch(X, Y, steps=4), epochs=2, verbose=0)
    np.testing.assert_allclose(weights(model), weights(eight_steps), rtol=1e-6, atol=1e-8)


@pytest.mark.by_day(None)
def test_a_regulariser_weights_and_dropout():
    """One mask for all steps on a batch: a quadratic, of which no step is rejected; masks drawn again would differ."""
    with floating("float64"):
        keras.utils.set_random_seed(3)
        inputs = keras.Input((4,))
        hidden = keras.layers.Dropout(0.5)(inputs, training=True)
        model = keras.Model(inputs, keras.layers.Dense(2, kernel_regularizer=keras.regularizers.L2(1e-3))(hidden))
        model.compile(LevenbergMarquardt(steps_per_batch=3), loss="mse")
        model.fit(X, Y, sample_weight=np.linspace(0, 1, len(X)), batch_size=len(X), epochs=1, verbose=0)
    assert model.optimizer.num_accepted == model.optimizer.num_attempts == 3
    assert model.optimizer.last_ratio == pytest.approx(1, abs=1e-3)


@pytest.mark.by_day(None)
def test_it_ends_where_there_is_nothing_more_to_do():
    model = compiled(optimizer=LevenbergMarquardt(steps_per_batch=5))
    model.train_on_batch(np.full_like(X, np.nan), Y)
    assert model.optimizer.status is Status.NOT_FINITE and int(model.optimizer.iterations) == 1
    model.train_on_batch(X, Y, sample_weight=np.zeros(len(X)))
    assert model.optimizer.status is Status.GRADIENT_TOLERANCE and int(model.optimizer.iterations) == 2


def test_mini_batches_and_saving(tmp_path):
    model = compiled(optimizer=LevenbergMarquardt(steps_per_batch=3, verify=True))
    fit(model, epochs=1, batch_size=32)
    assert int(model.optimizer.iterations) == 9
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    for each in (model, loaded):
        fit(each, epochs=1, batch_size=32)
    np.testing.assert_allclose(weights(loaded), weights(model), rtol=1e-5)


def test_parts_of_a_full_batch():
    whole = tfjac.full_batch({"a": X, "b": X[:, 0] > 0}, Y.astype("float64"), np.ones(len(X)), steps=3)
    assert whole.cardinality() == 3
    for x, y, weight in whole:
        assert x["b"].dtype == tf.bool and y.dtype == weight.dtype == tf.float32
        np.testing.assert_array_equal(x["a"], X)
        np.testing.assert_array_equal(y, Y)
    (alone,) = next(iter(tfjac.full_batch(X)))
    np.testing.assert_array_equal(alone, X)
    with pytest.raises(ValueError, match=r"same number of examples. Received: \[95, 96\]"):
        tfjac.full_batch(X, Y[1:])
    with pytest.raises(ValueError, match=r"steps must be an integer of at least 1. Received: steps=0"):
        tfjac.full_batch(X, Y, steps=0)
    with pytest.raises(ValueError, match="steps_per_batch must be an integer of at least 1"):
        LevenbergMarquardt(steps_per_batch=0)
