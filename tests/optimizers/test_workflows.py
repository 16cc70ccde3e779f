"""What people do around `fit`: callbacks that stop, save and restore; freezing and sharing; data with holes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfjac.optimizers import LevenbergMarquardt, Status

layers, callbacks = keras.layers, keras.callbacks
RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 4)).astype("float32")
Y = np.sin(X @ RNG.normal(size=(4, 1)).astype("float32")) + 0.1 * RNG.normal(size=(64, 1)).astype("float32")


def compiled(seed=1, loss="mse"):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([layers.Input((4,)), layers.Dense(6, activation="tanh"), layers.Dense(1)])
    model.compile(optimizer=LevenbergMarquardt(), loss=loss)
    return model


def fit(model, epochs, x=X, y=Y, **options):
    return model.fit(x, y, batch_size=len(x), epochs=epochs, verbose=0, shuffle=False, **options).history


def bits(model):
    return [weight.tobytes() for weight in model.get_weights()]


@pytest.mark.by_day(None)
def test_backup_and_restore_goes_on_as_if_never_stopped(tmp_path):
    class Crash(callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 2:
                raise KeyboardInterrupt

    model = compiled()
    with pytest.raises(KeyboardInterrupt):
        fit(model, 6, callbacks=[callbacks.BackupAndRestore(tmp_path / "backup"), Crash()])
    resumed = fit(compiled(seed=2), 6, callbacks=[callbacks.BackupAndRestore(tmp_path / "backup")])["loss"]
    np.testing.assert_array_equal(resumed, fit(model, 3)["loss"])


@pytest.mark.by_day(None)
def test_early_stopping_restores_the_best_weights(tmp_path):
    model = compiled()
    stop = callbacks.EarlyStopping(patience=4, restore_best_weights=True)
    keep = callbacks.ModelCheckpoint(tmp_path / "best.keras", monitor="val_loss", save_best_only=True)
    losses = fit(model, 60, X[:40], Y[:40], validation_data=(X[40:], Y[40:]), callbacks=[stop, keep])["val_loss"]
    assert len(losses) < 60
    np.testing.assert_allclose(model.evaluate(X[40:], Y[40:], verbose=0), min(losses), rtol=1e-5)
    assert bits(keras.models.load_model(tmp_path / "best.keras")) == bits(model)


def test_freezing_in_the_middle_needs_another_optimizer():
    model = compiled()
    fit(model, 2)
    model.layers[0].trainable = False
    model.compile(optimizer=model.optimizer, loss="mse")
    with pytest.raises(ValueError, match=r"make another optimizer.*Received: a call without .'sequential.*/kernel'"):
        fit(model, 1)
    model.compile(optimizer=LevenbergMarquardt(), loss="mse")
    frozen = model.layers[0].get_weights()[0].tobytes()
    fit(model, 2)
    assert model.layers[0].get_weights()[0].tobytes() == frozen and model.optimizer.num_accepted


@pytest.mark.by_day(None)
def test_a_second_compile_goes_on_with_the_optimizer_and_a_second_model_cannot_have_it():
    through, twice = compiled(), compiled()
    expected = fit(through, 5)["loss"]
    fit(twice, 2)
    twice.compile(optimizer=twice.optimizer, loss="mse")
    np.testing.assert_array_equal(fit(twice, 3)["loss"], expected[2:])
    other = compiled()
    other.compile(optimizer=twice.optimizer, loss="mse")
    with pytest.raises(ValueError, match=r"Unknown variable.*recreate a new optimizer"):
        fit(other, 1)


def without_missing(y, prediction):
    return tf.reduce_mean(tf.where(tf.math.is_nan(y), 0.0, tf.square(y - prediction)))


@pytest.mark.by_day(None)
def test_missing_labels_that_the_loss_leaves_out():
    """0·NaN is NaN in the gradient of such a loss, so that other optimizers fail; here it is a residual of zero."""
    holes, known = Y.copy(), np.arange(64) % 5 > 0
    holes[~known] = np.nan
    model, expected = compiled(loss=without_missing), compiled()
    fit(model, 3, y=holes)
    fit(expected, 3, y=np.nan_to_num(holes), sample_weight=known.astype("float32"))
    for ours, theirs in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-2, atol=1e-3)
    assert model.optimizer.num_accepted == 3


@pytest.mark.by_day(None)
def test_a_batch_without_weight_is_no_reason_to_follow_the_regulariser():
    """Its loss is the regulariser alone, which would take all weights to zero in one step."""
    keras.utils.set_random_seed(1)
    hidden = layers.Dense(6, activation="tanh", kernel_regularizer="l2")
    model = keras.Sequential([layers.Input((4,)), hidden, layers.Dense(1)])
    model.compile(optimizer=LevenbergMarquardt(solver="kernel"), loss="mse")
    fit(model, 3, sample_weight=np.ones(64, "float32"))
    before, damping = bits(model), model.optimizer.current_damping
    model.train_on_batch(X, Y, sample_weight=np.zeros(64, "float32"))
    assert bits(model) == before and model.optimizer.current_damping == damping
    assert model.optimizer.status is Status.GRADIENT_TOLERANCE


@pytest.mark.by_day(None)
@pytest.mark.parametrize("scale", [1e-10, 1e10])
def test_a_model_of_one_parameter_on_any_scale_and_then_nothing_left_to_do(scale):
    model = keras.Sequential([layers.Input((1,)), layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    model.compile(optimizer=LevenbergMarquardt(), loss="mse")
    x = np.arange(8.0, dtype="float32")[:, None]
    fit(model, 6, x, 2 * x * scale)
    np.testing.assert_allclose(model.get_weights()[0], [[2 * scale]], rtol=1e-5)
    before = bits(model)
    fit(model, 1, x, model.predict(x, verbose=0, batch_size=8))
    assert model.optimizer.status is Status.GRADIENT_TOLERANCE and bits(model) == before


@pytest.mark.by_day(None)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_training_step_is_traced_once(jit_compile):
    """A variable that a function makes in its first trace has TensorFlow trace it again."""
    traces = []

    def loss(y_true, y_pred):
        traces.append(y_pred)
        return tf.square(y_true - y_pred)

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(LevenbergMarquardt(), loss=loss, jit_compile=jit_compile)
    x = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
    model.fit(x, x[:, :1], epochs=2, batch_size=20, verbose=0)
    assert len([y for y in traces if isinstance(y, tf.Tensor)]) == 1
