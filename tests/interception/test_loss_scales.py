"""Handlers see the gradient of the loss itself where Keras scales the loss, as under `mixed_float16`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac import handlers

X = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")
Y = np.random.default_rng(1).normal(size=(8, 2)).astype("float32")


def _model(optimizer, policy="mixed_float16", around=None, **options):
    keras.utils.set_random_seed(0)
    hidden = keras.layers.Dense(6, "tanh", name="hidden", dtype=policy)
    layers = [keras.Input((4,)), hidden, keras.layers.Dense(2, name="out", dtype=policy)]
    model = (around or keras.Sequential)(layers)
    model.compile(optimizer, "mse", **options)
    return model


class OwnStep(keras.Sequential):
    """A model with the training step of a user: the loss is scaled by hand, and a plain backward pass follows."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
            scaled = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, self.trainable_variables)
        again = tape.gradient(loss, self.trainable_variables)  # not scaled: the handler must not divide
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss, "norm": tf.linalg.global_norm(again)}


def _true_gradient(model, x=X, y=Y):
    """The gradient at the output of `hidden`, by formulas in float64."""
    kernel, bias, out, last = (np.float64(v.numpy()) for v in model.trainable_variables)
    hidden = np.tanh(x @ kernel + bias)
    return 2 * (hidden @ out + last - y) / y.size @ out.T


def _scaling(inner, scale):
    return keras.optimizers.LossScaleOptimizer(inner, initial_scale=scale)


OPTIMIZERS = {
    "wrapped by compile": lambda: keras.optimizers.SGD(0.0),
    "a wrapper": lambda: _scaling(keras.optimizers.SGD(0.0), 64.0),
    "a factor": lambda: keras.optimizers.SGD(0.0, loss_scale_factor=128.0),
    "both": lambda: _scaling(keras.optimizers.SGD(0.0, loss_scale_factor=4.0), 64.0),
}


@pytest.mark.by_day(None)
@pytest.mark.parametrize("options", [{}, {"run_eagerly": True}], ids=["graph", "eager"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_what_is_recorded_is_the_gradient_of_the_loss(optimizer, options):
    model, written = _model(OPTIMIZERS[optimizer](), **options), []
    expected = _true_gradient(model)
    with tfjac.hook(model.get_layer("hidden"), backward=handlers.record(written)):
        model.fit(X, Y, epochs=2, shuffle=False, verbose=0)
    assert len(written) == 2
    for each in written:
        np.testing.assert_allclose(each.value, expected, atol=3e-3)


@pytest.mark.by_day(None)
def test_gradients_too_small_for_half_precision_reach_the_handler_and_the_weights():
    model = _model(_scaling(keras.optimizers.SGD(1.0), 2.0**13), weighted_metrics=[])
    model.layers[-1].kernel.assign(model.layers[-1].kernel * 1e-5)  # gradients of about 1e-7
    expected, written = _true_gradient(model), []
    before = model.layers[0].bias.numpy()
    hidden = np.tanh(X @ np.float64(model.layers[0].kernel.numpy()))
    with tfjac.hook(model.get_layer("hidden"), backward=handlers.record(written)):
        model.fit(X, Y, verbose=0, batch_size=8, shuffle=False)
    np.testing.assert_allclose(written[0].value, expected, rtol=0.05, atol=2e-8)
    step = (expected * (1 - hidden**2)).sum(axis=0)
    np.testing.assert_allclose(before - model.layers[0].bias.numpy(), step, rtol=0.05, atol=5e-8)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_clipping_is_that_of_the_true_gradient(jit_compile):
    model = _model(keras.optimizers.SGD(1.0), jit_compile=jit_compile)
    expected, bound = _true_gradient(model), 0.1
    hidden = np.tanh(X @ np.float64(model.layers[0].kernel.numpy()))
    assert np.linalg.norm(expected) > bound
    with tfjac.hook(model.get_layer("hidden"), backward=handlers.clip_by_global_norm(bound)):
        model.fit(X, Y, verbose=0, batch_size=8, shuffle=False)
    step = (expected * bound / np.linalg.norm(expected) * (1 - hidden**2)).sum(axis=0)
    np.testing.assert_allclose(-model.layers[0].bias.numpy(), step, rtol=0.02, atol=1e-3)


@pytest.mark.by_day(None)
def test_a_pass_that_is_not_scaled_is_not_divided():
    model, written = _model(_scaling(keras.optimizers.SGD(0.0), 64.0), around=OwnStep), []
    expected = _true_gradient(model)
    with tfjac.hook(model.get_layer("hidden"), backward=handlers.record(written)):
        model.fit(X, Y, verbose=0, batch_size=8, shuffle=False)
    assert len(written) == 2
    for each in written:
        np.testing.assert_allclose(each.value, expected, atol=3e-3)


@pytest.mark.by_day(None)
def test_a_handler_in_the_users_loop_is_given_the_value_too():
    net, seen = _model("sgd"), []
    optimizer = _scaling(keras.optimizers.SGD(0.0), 64.0)

    def keep(gradient, value):
        assert gradient.dtype == value.dtype == tf.float32
        tf.numpy_function(lambda *two: seen.append(two), [gradient, value], [])
        return gradient

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(tf.reduce_mean((tf.cast(net(X), tf.float32) - Y) ** 2))
        return tape.gradient(loss, net.trainable_variables[0].value)

    with tfjac.hook(net.get_layer("hidden"), backward=keep):
        step()
    np.testing.assert_allclose(seen[0][0], _true_gradient(net), atol=3e-3)
    hidden = np.tanh(X @ np.float64(net.trainable_variables[0].numpy()))
    np.testing.assert_allclose(seen[0][1], hidden, atol=3e-3)


def test_an_intercepted_model_in_fit_and_in_an_eager_tape():
    net, written = _model("sgd"), []
    edited = tfjac.intercept(net, {"hidden": handlers.record(written)})
    optimizer = _scaling(keras.optimizers.SGD(0.0), 64.0)

    def step():
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(tf.reduce_mean((tf.cast(edited(X), tf.float32) - Y) ** 2))
        tape.gradient(loss, net.trainable_variables[0].value)

    tf.function(step)()
    np.testing.assert_allclose(written[0].value, _true_gradient(net), atol=3e-3)
    with pytest.warns(UserWarning, match=r"The handler of .*hidden.* is given the gradient times the loss scale"):
        step()  # its backward pass is traced before the scale is known


@pytest.mark.by_day(None)
def test_functions_of_single_examples_give_what_each_backward_pass_alone_gives():
    """So `clip_by_global_norm` clips each example alone."""
    net, layer = _model("sgd", policy="float32"), "hidden"
    variables = [v.value for v in net.trainable_variables]
    with tfjac.hook(net.get_layer(layer), backward=handlers.clip_by_global_norm(0.1)):

        def losses():
            return tf.reduce_sum((net(X) - Y) ** 2, axis=1)

        rows = tfjac.per_example_gradients(losses, variables)
        norms = tfjac.per_example_gradient_norms(losses, variables)
        for n in range(len(X)):
            with tf.GradientTape() as tape:
                loss = losses()[n]
            expected = tape.gradient(loss, variables)
            for row, one in zip(rows, expected):
                np.testing.assert_allclose(row[n], one, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(norms[n], tf.linalg.global_norm(expected), rtol=1e-5)
