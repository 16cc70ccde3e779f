"""Losses that layers add when they are called, where the call is traced into a graph that is copied or read."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.interception.networks import X


class Penalty(keras.layers.Layer):
    def call(self, x):
        self.add_loss(tf.reduce_sum(x**2))
        return x


def network():
    keras.utils.set_random_seed(4)
    dense, x = keras.layers.Dense, keras.Input((5,))
    hidden = dense(4, activation="tanh", activity_regularizer="l2", name="hidden")(x)
    return keras.Model(x, dense(2, kernel_regularizer="l2", name="head")(Penalty(name="penalty")(hidden)))


def by_hand(model, x):
    """The model with a gradient doubled at the first layer; its regulariser counts before, the penalty after."""
    hidden = model.get_layer("hidden")(x)
    doubled = tf.custom_gradient(lambda h: (tf.identity(h), lambda d: 2.0 * d))(hidden)
    regulariser = 0.01 * tf.reduce_sum(hidden**2) / len(X)
    kernel = 0.01 * tf.reduce_sum(model.get_layer("head").kernel.value ** 2)
    return model.get_layer("head")(doubled), [regulariser, tf.reduce_sum(doubled**2), kernel]


def gradients(compute, losses_of, model):
    with tf.GradientTape() as tape:
        outputs, losses = compute(tf.constant(X)), losses_of()
        total = tf.reduce_sum(outputs**2) + tf.add_n(losses)
    return sorted(map(float, losses)), tape.gradient(total, [v.value for v in model.trainable_variables])


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("twice", [False, True])
def test_losses_after_an_eager_call(calls, twice):
    model = network()
    edited = tfjac.intercept(model, {"hidden": tfjac.handlers.scale(2.0)})
    edited = tfjac.intercept(edited, {"head": lambda d: d}) if twice else edited
    for _ in range(calls):  # the second is not traced
        model(2.0 * X)
        got = gradients(edited, lambda: model.losses, model)
    expected = []
    wanted = gradients(lambda x: expected.append(by_hand(model, x)) or expected[0][0], lambda: expected[0][1], model)
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-5)
    for one, other in zip(got[1], wanted[1]):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_losses_inside_a_function():
    model = network()
    edited = tfjac.intercept(model, {"hidden": tfjac.handlers.scale(2.0)})

    @tf.function
    def total(x):
        return edited(x), model.losses

    outputs, losses = total(tf.constant(X))
    expected = by_hand(model, tf.constant(X))
    np.testing.assert_allclose(outputs, expected[0], rtol=1e-5)
    np.testing.assert_allclose(sorted(map(float, losses)), sorted(map(float, expected[1])), rtol=1e-5)


def test_a_table_leaves_the_losses_alone():
    model = network()
    model(X)
    before = list(map(float, model.losses))
    listed = tfjac.nodes(model, 3.0 * X)
    assert list(map(float, model.losses)) == before
    assert listed.where(kind="op", layer=f"{model.name}/penalty"), "what is added to the losses is listed, too"
