"""LevenbergMarquardt in Keras' `fit`: plain models, all of Keras' ways to run them, saving and going on."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.precision import floating
from tfjac.optimizers import (
    ConjugateGradientSolver,
    LevenbergMarquardt,
    NielsenDamping,
    Status,
    StepMonitor,
    TrustRegionDamping,
)

layers = keras.layers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(96, 4)).astype("float32")
Y = np.sin(X @ RNG.normal(size=(4, 2)).astype("float32"))


def mlp(seed=1, hidden=8, **options):
    keras.utils.set_random_seed(seed)
    hidden_layer = layers.Dense(hidden, activation="tanh", **options)
    return keras.Sequential([layers.Input((4,)), hidden_layer, layers.Dense(2)])


def compiled(model=None, optimizer=None, **options):
    model = model or mlp()
    model.compile(optimizer=optimizer or LevenbergMarquardt(), loss="mse", **options)
    return model


def fit(model, epochs=5, batch_size=96, x=X, y=Y, **options):
    return model.fit(x, y, batch_size=batch_size, epochs=epochs, verbose=0, shuffle=False, **options).history


def weights(model):
    return np.concatenate([weight.ravel() for weight in model.get_weights()])


@pytest.mark.by_day(None)
def test_full_batch_falls_at_every_step():
    losses = fit(compiled(jit_compile=True), epochs=25)["loss"]
    assert losses[-1] < 0.01 * losses[0]
    assert (np.diff(losses) <= 0).all()


@pytest.mark.core
def test_every_solver_trains_alike():
    solvers = ["cholesky", "kernel", "qr", ConjugateGradientSolver(1e-5)]
    optimizers = [LevenbergMarquardt(solver=each, acceleration="geodesic") for each in solvers]
    expected, *others = [fit(compiled(optimizer=each), epochs=4)["loss"] for each in optimizers]
    for losses in others:
        np.testing.assert_allclose(losses, expected, rtol=2e-2)


@pytest.mark.core
@pytest.mark.parametrize(
    ("damping", "scaling"), [("nielsen", "marquardt"), ("multiplicative", "more"), ("trust_region", "more")]
)
def test_every_damping_and_scaling_trains(damping, scaling):
    losses = fit(compiled(optimizer=LevenbergMarquardt(damping, scaling)), epochs=15)["loss"]
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.by_day(None)
def test_mini_batches_with_validation_metrics_and_callbacks():
    stop = keras.callbacks.EarlyStopping(monitor="val_loss", patience=50, restore_best_weights=True)
    model = compiled(metrics=["mae"])
    history = fit(model, 4, batch_size=40, validation_data=(X[:10], Y[:10]), callbacks=[stop])
    assert set(history) == {"loss", "mae", "val_loss", "val_mae"}
    assert history["val_loss"][-1] < history["val_loss"][0]
    assert int(model.optimizer.iterations.numpy()) == 12


@pytest.mark.by_day(None)
def test_steps_per_execution_changes_nothing():
    """By XLA; without it, `test_an_epoch_of_steps` has several in one call."""
    one, three = compiled(), compiled(steps_per_execution=3, jit_compile=True)
    fit(one, epochs=2, batch_size=32)
    fit(three, epochs=2, batch_size=32)
    np.testing.assert_allclose(weights(three), weights(one), rtol=1e-3, atol=1e-4)
    assert three.optimizer.num_attempts == one.optimizer.num_attempts


@pytest.mark.core
def test_float64_model_with_sample_weights():
    with floating("float64"):
        model = compiled(mlp(), LevenbergMarquardt(scaling="more"))
        losses = fit(model, epochs=20, sample_weight=np.linspace(0, 1, 96))["loss"]
        assert losses[-1] < 0.02 * losses[0]
        assert model.optimizer.current_damping > 0


@pytest.mark.core
def test_minimum_of_a_linear_model_with_l2_is_that_of_the_normal_equations():
    """Ridge regression has a closed form: ½-free, mean over n·m, plus l2‖W‖²; the bias is free."""
    model = keras.Sequential([layers.Input((4,)), layers.Dense(2, kernel_regularizer=keras.regularizers.L2(0.1))])
    fit(compiled(model, LevenbergMarquardt(NielsenDamping(1e-7))), epochs=6)
    design = np.concatenate([X, np.ones((96, 1))], axis=1).astype("float64")
    gram = design.T @ design / (96 * 2) + 0.1 * np.diag([1, 1, 1, 1, 0])
    expected = np.linalg.solve(gram, design.T @ Y / (96 * 2))
    np.testing.assert_allclose(
        np.concatenate([model.get_weights()[0], model.get_weights()[1][None]]), expected, atol=1e-5
    )


@pytest.mark.core
@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_batch_without_use_changes_no_bit_and_training_goes_on(jit_compile):
    """With a NaN; with a negative weight; without weight."""
    model, ones = compiled(jit_compile=jit_compile), np.ones(96, "float32")
    first = model.train_on_batch(X, Y, sample_weight=ones)
    before, damping = weights(model).tobytes(), model.optimizer.current_damping
    poisoned = X.copy()
    poisoned[3, 1] = np.nan
    for x, weight, status in (
        (poisoned, 1, Status.NOT_FINITE), (X, -1, Status.NOT_FINITE), (X, 0, Status.GRADIENT_TOLERANCE),
    ):  # fmt: skip
        model.train_on_batch(x, Y, sample_weight=weight * ones)
        assert weights(model).tobytes() == before
        assert model.optimizer.status is status and model.optimizer.current_damping == damping
    model.reset_metrics()  # Keras 3.12 gives the mean over all batches so far
    losses = [model.train_on_batch(X, Y, sample_weight=ones) for _ in range(3)]
    assert np.isfinite(losses).all() and losses[-1] < first


@pytest.mark.by_day(None)
def test_dropout_judges_with_the_mask_of_the_step():
    """The loss of the trial has the same dropout mask as the loss of the linearisation: else gain ratios are noise."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [layers.Input((4,)), layers.Dense(8, activation="tanh"), layers.Dropout(0.5), layers.Dense(2)]
    )
    compiled(model, LevenbergMarquardt(NielsenDamping(10.0), max_attempts=1))
    for _ in range(5):
        model.train_on_batch(X, Y)
        assert model.optimizer.last_ratio > 0.5


@pytest.mark.by_day(None)
def test_batch_normalisation_in_training_is_exact():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [layers.Input((4,)), layers.Dense(3), layers.BatchNormalization(), layers.Activation("tanh"), layers.Dense(2)]
    )
    losses = fit(compiled(model), epochs=8, x=X[:16], y=Y[:16], batch_size=16)["loss"]
    assert (np.diff(losses) <= 0).all() and losses[-1] < 0.6 * losses[0]


@pytest.mark.by_day(None)
def test_convolutions():
    keras.utils.set_random_seed(1)
    images = RNG.normal(size=(24, 6, 6, 1)).astype("float32")
    model = keras.Sequential(
        [layers.Input((6, 6, 1)), layers.Conv2D(3, 3, activation="tanh"), layers.Flatten(), layers.Dense(2)]
    )
    losses = fit(compiled(model), epochs=8, batch_size=24, x=images, y=Y[:24])["loss"]
    assert losses[-1] < 0.05 * losses[0]


class InnerFunction(layers.Layer):
    """A layer whose call is a `tf.function` of the user's."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], 6))

    @tf.function
    def call(self, x):
        return tf.tanh(tf.matmul(x, self.kernel))


@tf.function
def mean_square(y, prediction):
    return tf.reduce_mean(tf.square(prediction - y))


@pytest.mark.by_day(None)
def test_functions_within_the_function():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([layers.Input((4,)), InnerFunction(), layers.Dense(2)])
    model.compile(optimizer=LevenbergMarquardt(), loss=mean_square)
    losses = fit(model, epochs=10)["loss"]
    assert losses[-1] < 0.3 * losses[0]


@pytest.mark.by_day(None)
def test_masked_recurrent_model_with_two_outputs():
    keras.utils.set_random_seed(1)
    tokens = keras.Input((6,))
    hidden = layers.Embedding(9, 3, mask_zero=True)(tokens)
    hidden = layers.LSTM(4, return_sequences=True, kernel_regularizer=keras.regularizers.L2(1e-3))(hidden)
    model = keras.Model(tokens, [layers.Dense(2)(hidden), layers.Dense(1)(layers.LSTM(2)(hidden))])
    model.compile(LevenbergMarquardt(), loss=["mse", "mse"], loss_weights=[1.0, 0.3])
    x, targets = (
        RNG.integers(0, 9, (32, 6)),
        [RNG.normal(size=size).astype("float32") for size in ((32, 6, 2), (32, 1))],
    )
    losses = model.fit(x, targets, batch_size=32, epochs=8, verbose=0).history["loss"]
    assert (np.diff(losses) <= 0).all() and losses[-1] < 0.9 * losses[0]


@pytest.mark.by_day(None)
def test_large_model_on_small_and_large_batches():
    """Where the batch is open while tracing, the kernel serves small batches and JᵀJ large ones."""
    model = compiled(mlp(hidden=250), LevenbergMarquardt(memory=None))
    losses = fit(model, epochs=5, batch_size=72)["loss"]
    assert model.optimizer.solver_used == "kernel" and losses[-1] < 0.5 * losses[0]


@pytest.mark.by_day(None)
def test_a_train_step_of_ones_own():
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(2)

        def call(self, x):
            return self.dense(x)

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.optimizer.scale_loss(tf.reduce_mean(tf.square(self(x) - y)))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
            return {"loss": loss}

    model = Model()
    model.compile(optimizer=LevenbergMarquardt())
    error = lambda: float(np.mean((model.predict(X, verbose=0) - Y) ** 2))  # noqa: E731
    before = error()
    fit(model, epochs=4)
    assert error() < 0.5 * before


# ------------------------------------------------------------------ state

OPTIMIZERS = {
    "default": LevenbergMarquardt,
    "more": lambda: LevenbergMarquardt(scaling="more", solver="cholesky", max_attempts=2, min_gain=0.01),
    "objects": lambda: LevenbergMarquardt(TrustRegionDamping(factor=0.5)),
}


def state(optimizer):
    return [variable.numpy() for variable in optimizer.variables]


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_saved_model_goes_on_as_if_never_stopped(make, tmp_path):
    model = compiled(mlp(), make())
    fit(model, epochs=3)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for ours, theirs in zip(state(loaded.optimizer), state(model.optimizer)):  # the first batch makes the others
        np.testing.assert_array_equal(ours, theirs)
    for each in (model, loaded):
        fit(each, epochs=3)
    np.testing.assert_array_equal(weights(loaded), weights(model))
    for ours, theirs in zip(state(loaded.optimizer), state(model.optimizer), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.optimizer.num_accepted == model.optimizer.num_accepted


@pytest.mark.by_day(None)
def test_checkpoint_goes_on_as_if_never_stopped(tmp_path):
    through, restored = (compiled(mlp(seed), LevenbergMarquardt(scaling="more")) for seed in (1, 2))
    fit(through, epochs=3)
    path = tf.train.Checkpoint(model=through, optimizer=through.optimizer).save(tmp_path / "checkpoint")
    restored.optimizer.build(restored.trainable_variables)
    tf.train.Checkpoint(model=restored, optimizer=restored.optimizer).restore(path).assert_existing_objects_matched()
    for each in (through, restored):
        fit(each, epochs=3)
    np.testing.assert_array_equal(weights(restored), weights(through))
    for ours, theirs in zip(state(restored.optimizer), state(through.optimizer), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.core
@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_config_round_trip(make):
    config = make().get_config()
    assert LevenbergMarquardt.from_config(config).get_config() == config
    serialized = keras.optimizers.serialize(make())
    assert keras.optimizers.deserialize(serialized).get_config() == config


@pytest.mark.by_day(None)
def test_step_monitor_adds_to_the_logs_and_stops():
    model = compiled(optimizer=LevenbergMarquardt(max_attempts=1))
    history = fit(model, epochs=4, batch_size=48, callbacks=[StepMonitor()])
    optimizer = model.optimizer
    assert sum(history["accepted_steps"]) == optimizer.num_accepted and max(history["accepted_steps"]) == 2
    assert history["damping"][-1] == optimizer.current_damping and history["gain_ratio"][-1] == optimizer.last_ratio
    poisoned = np.full_like(X, np.nan)
    history = fit(model, epochs=9, x=poisoned, callbacks=[StepMonitor(patience=2)])
    assert history["accepted_steps"] == [0, 0]


def test_step_monitor_needs_levenberg_marquardt():
    with pytest.raises(TypeError, match=r"Received: a model compiled with Adam"):
        fit(compiled(optimizer=keras.optimizers.Adam()), epochs=1, callbacks=[StepMonitor()])


@pytest.mark.by_day(None)
def test_what_users_can_ask():
    optimizer = LevenbergMarquardt()
    assert optimizer.status is Status.RUNNING and optimizer.num_attempts == 0 and optimizer.current_damping == 0
    fit(compiled(optimizer=optimizer), epochs=3)
    assert optimizer.solver_used == "cholesky" and 1 <= optimizer.num_accepted <= 3 <= optimizer.num_attempts
    assert optimizer.status is Status.RUNNING and optimizer.last_ratio > 0
    assert float(optimizer.learning_rate) == 1.0
