"""What bad input gets: a ValueError or TypeError that says what is wrong, what was received, and what to do."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.precision import floating
from tfjac.optimizers import LevenbergMarquardt, NielsenDamping

pytestmark = pytest.mark.core

layers = keras.layers
X, Y = np.ones((8, 4), "float32"), np.ones((8, 2), "float32")


def model_of(*hidden, optimizer=None, loss="mse", **options):
    model = keras.Sequential([layers.Input((4,)), *hidden])
    model.compile(optimizer=optimizer or LevenbergMarquardt(), loss=loss, **options)
    return model


def fit(model, epochs=2, **options):
    model.fit(X, Y, epochs=epochs, batch_size=8, verbose=0, **options)


OPTIONS = {
    "learning_rate": 0.1,
    "weight_decay": 0.01,
    "clipnorm": 1.0,
    "clipvalue": 1.0,
    "global_clipnorm": 1.0,
    "use_ema": True,
    "ema_overwrite_frequency": 5,
    "loss_scale_factor": 2.0,
    "gradient_accumulation_steps": 2,
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_keras_that_mean_nothing_here(name):
    with pytest.raises(ValueError, match=rf"does not take {name}: .*Received: {name}={OPTIONS[name]}"):
        LevenbergMarquardt(**{name: OPTIONS[name]})


def test_options_that_are_off_are_fine():
    LevenbergMarquardt(clipnorm=None, use_ema=False, ema_momentum=0.99, weight_decay=None)


def test_unknown_arguments():
    with pytest.raises(TypeError, match=r"has no argument 'momentum'. Received: momentum=0.9"):
        LevenbergMarquardt(momentum=0.9)
    with pytest.raises(TypeError, match=r"Did you mean 'max_attempts'\? Received: max_attemps=3"):
        LevenbergMarquardt(max_attemps=3)
    with pytest.raises(ValueError, match=r"Unknown solver; choose one of 'auto', .*object. Received: solver='lu'"):
        LevenbergMarquardt(solver="lu")
    with pytest.raises(ValueError, match=r"Did you mean 'cholesky'\? Received: solver='Cholesky'"):
        LevenbergMarquardt(solver="Cholesky")
    with pytest.raises(ValueError, match=r"Did you mean 'trust_region'\? Received: damping='trust-region'"):
        LevenbergMarquardt(damping="trust-region")
    with pytest.raises(ValueError, match=r"Did you mean 'marquardt'\?"):
        LevenbergMarquardt(scaling="marquart")
    with pytest.raises(TypeError, match=r"solver must be one of .*Received: solver=3"):
        LevenbergMarquardt(solver=3)
    with pytest.raises(TypeError, match=r"Received: damping=1.0"):
        LevenbergMarquardt(damping=1.0)
    with pytest.raises(ValueError, match=r"max_attempts must be an integer of at least 1. Received: max_attempts=0"):
        LevenbergMarquardt(max_attempts=0)
    with pytest.raises(ValueError, match=r"min_gain must be a number between 0 and 1"):
        LevenbergMarquardt(min_gain=2)


def test_learning_rate_schedules():
    model = model_of(layers.Dense(2))
    with pytest.raises(ValueError, match=r"has no learning rate to set.*Received: learning_rate=0.1"):
        fit(model, callbacks=[keras.callbacks.LearningRateScheduler(lambda epoch: 0.1)])
    with pytest.raises(ValueError, match=r"damping adapts"):
        LevenbergMarquardt().learning_rate = 0.5
    with pytest.raises(ValueError, match=r"ReduceLROnPlateau and their like. Received: learning_rate=0.1"):
        fit(model, epochs=9, callbacks=[keras.callbacks.ReduceLROnPlateau("loss", patience=1, min_delta=1e9)])


@pytest.mark.parametrize("options", [{}, {"memory": None}, {"memory": 0.9}, {"memory": 4}, {"steps_per_batch": 2}])
def test_schedules_where_there_are_no_kronecker_factors(options):
    schedule = keras.optimizers.schedules.CosineDecay(1.0, 10)
    with pytest.raises(ValueError, match=r"scales steps with Kronecker factors alone.*leave learning_rate out"):
        fit(model_of(layers.Dense(2), optimizer=LevenbergMarquardt(learning_rate=schedule, **options)))


def test_a_schedule_is_in_the_configuration():
    optimizer = LevenbergMarquardt(learning_rate=keras.optimizers.schedules.CosineDecay(1.0, 10))
    again = LevenbergMarquardt.from_config(optimizer.get_config())
    assert again.get_config() == optimizer.get_config() and float(again.learning_rate) == 1.0


def test_eager_execution():
    with pytest.raises(ValueError, match=r"run_eagerly=False.*scale_loss\(loss\).*or call optimizer.minimize"):
        fit(model_of(layers.Dense(2), run_eagerly=True))
    with pytest.raises(ValueError, match=r"eager execution"):
        LevenbergMarquardt().apply_gradients([(tf.ones([2]), tf.Variable(tf.ones([2])))])


def test_gradients_of_another_function():
    model, optimizer = model_of(layers.Dense(2)), LevenbergMarquardt()
    variables = model.trainable_variables

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(tf.reduce_mean(tf.square(model(X) - Y)))
        return tape.gradient(loss, variables)

    step = tf.function(lambda given: optimizer.apply(given, variables), autograph=False)
    with pytest.raises(ValueError, match=r"have both, and the tape, in the same tf.function.*another graph"):
        step(gradients())


def test_nothing_to_train():
    frozen = layers.Dense(2)
    model = model_of(frozen)
    frozen.trainable = False
    model.compile(optimizer=LevenbergMarquardt(), loss="mse")
    with pytest.warns(UserWarning, match=r"trainable"), pytest.raises(ValueError, match=r"nothing to train"):
        fit(model)
    with pytest.raises(ValueError, match=r"nothing to train.*Received: no trainable weights"):
        LevenbergMarquardt().build([])


def test_a_loss_that_is_not_a_sum_of_squares_names_the_op_when_training_starts():
    with pytest.raises(ValueError, match=r"sum of squares.*Received: op 'compile_loss/mae/Abs' of type Abs"):
        fit(model_of(layers.Dense(2), loss="mae"))


def test_reduced_precision():
    with pytest.raises(ValueError, match=r"must compute in the dtype of its variables.*bfloat16"):
        fit(model_of(layers.Dense(2, dtype="mixed_bfloat16"), optimizer=LevenbergMarquardt(memory=None)))
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        with pytest.raises(ValueError, match=r"^LevenbergMarquardt does not go with mixed_float16: .*float32"):
            fit(model_of(layers.Dense(2)))
    finally:
        keras.config.set_dtype_policy(policy)


@pytest.mark.parametrize("dtype", ["int32", "bfloat16", "float16"])
def test_variables_that_are_not_floating(dtype):
    variable = tf.Variable(tf.ones([2], dtype), name="counts")
    with pytest.raises(ValueError, match=rf"all be float32, or all float64.*Received: counts:?0?: {dtype}"):
        LevenbergMarquardt().minimize(lambda: tf.cast(variable, tf.float32), [variable])


def test_variables_of_several_kinds():
    mixed = [tf.Variable(tf.ones([2], dtype)) for dtype in (tf.float32, tf.float64)]
    with pytest.raises(ValueError, match=r"all be float32, or all float64"):
        LevenbergMarquardt().minimize(lambda: mixed[0], mixed)
    with pytest.raises(ValueError, match=r"listed twice"):
        LevenbergMarquardt().minimize(lambda: mixed[0] + 1, [mixed[0], mixed[0]])
    with pytest.raises(TypeError, match=r"must be a tf.Variable or a keras.Variable"):
        LevenbergMarquardt().minimize(lambda: mixed[0] + 1, [tf.ones([2])])


def test_residuals_of_minimize():
    weight, other = tf.Variable([1.0]), tf.Variable([2.0])
    with pytest.raises(TypeError, match=r"must be a callable that reads the variables.*Received: residuals="):
        LevenbergMarquardt().minimize(weight, [weight])
    with pytest.raises(ValueError, match=r"residuals must depend on every variable.*do not depend"):
        LevenbergMarquardt().minimize(lambda: weight * 2, [weight, other])
    with pytest.raises(ValueError, match=r"Gradients stop at op .* of type StopGradient"):
        LevenbergMarquardt().minimize(lambda: tf.stop_gradient(weight) * 2, [weight])
    with pytest.raises(TypeError, match=r"floating-point tensors"):
        LevenbergMarquardt().minimize(lambda: tf.cast(weight, tf.int32), [weight])


def test_other_variables_than_the_optimizer_was_built_for():
    one, two = tf.Variable([1.0]), tf.Variable([2.0])
    optimizer = LevenbergMarquardt()
    optimizer.build([one, two])
    with pytest.raises(ValueError, match=r"step is taken in all variables at once.*without .'Variable:0'"):
        optimizer.minimize(lambda: one - 3.0, [one])
    with pytest.raises(ValueError, match=r"Unknown variable"):
        optimizer.minimize(lambda: one - 3.0, [tf.Variable([1.0])])


def test_a_train_step_that_does_not_call_scale_loss():
    optimizer, weight = LevenbergMarquardt(), tf.Variable([1.0])

    @tf.function
    def step():
        optimizer.apply_gradients([(tf.ones([1]), weight)])

    with pytest.raises(ValueError, match=r"call loss = optimizer.scale_loss.*Received: no loss"):
        step()


def test_damping_object_is_not_shared_state():
    damping = NielsenDamping()
    one, two = (LevenbergMarquardt(damping) for _ in range(2))
    weight = tf.Variable([1.0])
    one.minimize(lambda: weight - 3.0, [weight])
    assert one.current_damping > 0 and two.current_damping == 0


def test_a_loss_object_of_another_precision_is_to_be_made_again():
    loss = keras.losses.MeanSquaredError()
    with (
        floating("float64"),
        pytest.raises(ValueError, match=r"of the moment they are made, here float64: make them again"),
    ):
        fit(model_of(layers.Dense(2), loss=loss))


@pytest.mark.parametrize("form", ["maximum", "absolute", "chosen"])
def test_a_quantile_loss_names_the_op_first_and_a_smooth_one_that_is_taken(form):
    forms = {
        "maximum": lambda u: tf.maximum(0.9 * u, -0.1 * u),
        "absolute": lambda u: 0.5 * tf.abs(u) + 0.4 * u,
        "chosen": lambda u: tf.where(u > 0, 0.9 * u, -0.1 * u),
    }
    op = {"maximum": "Maximum", "absolute": "Abs", "chosen": "SelectV2"}[form]
    with pytest.raises(ValueError, match=rf"^Op '.*{op}' has no .*tau \* u \+ s \* softplus\(-u / s\)"):
        fit(model_of(layers.Dense(2), loss=lambda y, z: forms[form](y - z)))
    if form == "maximum":
        fit(model_of(layers.Dense(2), loss=lambda y, z: 0.9 * (y - z) + 0.1 * tf.math.softplus((z - y) / 0.1)))
