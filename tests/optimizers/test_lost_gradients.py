"""What lost its gradient is said: a term that trains on as if all were well, a variable that stays, and where."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.optimizers.gauss_newton import damped_step, first_step
from tfjac.objective.residuals import objective_of_loss
from tfjac.optimizers import ConjugateGradientSolver, LevenbergMarquardt, least_squares

layers = keras.layers
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(8, 4)).astype("float32"), RNG.normal(size=(8, 2)).astype("float32")


def mse(y, p):
    return tf.reduce_mean((y - p) ** 2)


def in_numpy(y, p):
    return tf.ensure_shape(tf.numpy_function(lambda a, b: np.mean((a - b) ** 2), [y, p], tf.float32), [])


LOST = {
    "NumPy": (in_numpy, "PyFunc"),
    "rounded": (lambda y, p: tf.reduce_mean((tf.round(p) - y) ** 2), "Round"),
    "cast": (lambda y, p: tf.reduce_mean(tf.cast(tf.cast(10 * p, tf.int32), tf.float32) ** 2), "Cast"),
    "stopped": (lambda y, p: tf.reduce_mean(tf.stop_gradient(p - y) ** 2), "StopGradient"),
    "counted": (lambda y, p: tf.reduce_mean(tf.cast(p > y, tf.float32)), "Greater"),
    "floor": (lambda y, p: tf.reduce_mean((p // 1 - y) ** 2), "FloorDiv"),
}


def messages(caught):
    """What tfjac warned of; once, however often the function was traced."""
    return sorted({str(warning.message) for warning in caught if "tfjac" in str(warning.message)})


def said_of(loss):
    """Return what is said while a loss of a prediction is traced."""
    weight = tf.Variable(RNG.normal(size=(4, 2)).astype("float32"))

    @tf.function(autograph=False)
    def trace():
        return objective_of_loss(loss(Y, tf.tanh(X @ weight)), [weight]).cost

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace.get_concrete_function()
    return messages(caught)


def trained(loss, outputs=1):
    """Fit a model for two epochs and return the optimizer, and what tfjac warned of."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((4,))
    hidden = layers.Dense(3, activation="tanh", name="hidden")(inputs)
    heads = [layers.Dense(2, name=f"head{k}")(hidden) for k in range(outputs)]
    model = keras.Model(inputs, heads if outputs > 1 else heads[0])
    model.compile(optimizer=LevenbergMarquardt(), loss=loss)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, [Y] * outputs if outputs > 1 else Y, batch_size=8, epochs=2, verbose=0)
    return model, messages(caught)


@pytest.mark.parametrize("name", LOST)
def test_a_term_of_the_loss_without_a_gradient(name):
    lost, stop = LOST[name]
    (message,) = said_of(lambda y, p: mse(y, p) + 0.1 * lost(y, p))
    assert "a term of the loss" in message and f"of type {stop}" in message
    assert message.endswith("Put something with a gradient in its place.")


@pytest.mark.by_day(None)
def test_a_term_of_the_loss_without_a_gradient_in_fit():
    _, (message,) = trained(lambda y, p: mse(y, p) + 0.1 * in_numpy(y, p))
    assert "gradients stop at op 'compile_loss/" in message and "of type PyFunc" in message


def test_nothing_is_said_where_gradients_may_well_stop():
    """Targets, weights, masks and conditions that are computed from the variables are no terms of the loss."""

    def loss(y, p):
        target, weight = tf.stop_gradient(0.9 * p + y), tf.stop_gradient(1 / (1 + tf.abs(p)))
        asymmetric = tf.where(p > y, 2.0, 1.0) * (p - y) ** 2
        return tf.reduce_mean(weight * (p - target) ** 2) + tf.reduce_mean(asymmetric) + 3.0

    assert said_of(loss) == []


@pytest.mark.by_day(None)
def test_a_head_without_a_loss():
    """It stays as it is; the others take the step of a model without it."""
    model, said = trained(["mse", None], outputs=2)
    (message,) = said
    assert "head1/kernel" in message and "head1/bias" in message and "head0" not in message
    assert model.optimizer.num_accepted == 2
    keras.utils.set_random_seed(0)
    alone, _ = trained("mse")
    for ours, expected in zip(model.get_weights()[:4], alone.get_weights()):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("solver", ["cholesky", "kernel", "qr", ConjugateGradientSolver(1e-10)])
def test_a_variable_without_influence_with_every_solver(solver):
    used, unused = (tf.Variable(RNG.normal(size=(4, 2))) for _ in range(2))
    error = lambda: tf.tanh(X.astype(float) @ used) - Y  # noqa: E731
    expected = damped_step(lambda: np.sqrt(2) * error(), [used], 1.0)
    with pytest.warns(UserWarning, match="does not depend on some of the trainable variables"):
        step, _ = first_step(lambda: tf.reduce_sum(error() ** 2), [used, unused], 1.0, solver)
    np.testing.assert_allclose(step, [*expected, *np.zeros(8)], rtol=1e-6, atol=1e-9)


class Spare(layers.Layer):
    def build(self, shape):
        self.spare = self.add_weight(shape=(2,), name="spare")

    def call(self, x):
        return x + tf.stop_gradient(self.spare)[0]


def test_a_variable_that_no_gradient_reaches():
    model = keras.Sequential([keras.Input((4,)), layers.Dense(2), Spare()])
    model.compile(optimizer=LevenbergMarquardt(), loss="mse")
    with pytest.raises(ValueError, match=r"stop at op '.*' of type StopGradient.*Received: variable '.*/spare'"):
        model.fit(X, Y, batch_size=8, verbose=0)


@pytest.mark.by_day(None)
def test_residuals():
    used, unused = tf.Variable([1.0, 2.0]), tf.Variable([1.0, 2.0])
    with pytest.raises(ValueError, match=r"must depend on every variable.*on which the residuals do not depend"):
        least_squares(lambda: used - 3, [used, unused])
    with pytest.raises(ValueError, match=r"Gradients stop at op .* of type Round.*Received: variable"):
        least_squares(lambda: used - tf.round(unused), [used, unused])
    with pytest.warns(UserWarning, match=r"a block of residuals, op .*stop at op .* of type Floor"):
        result = least_squares(lambda: [used - 3, 0.0 * tf.floor(used)], [used])
    np.testing.assert_allclose(result.x[0], [3, 3], rtol=1e-6)
