"""Hooks and edits where two replicas train: as on one device, with a custom gradient in the model's code."""

import numpy as np
import pytest

from tests.memory import run_alone

SCRIPT = """
import json

import keras
import numpy as np
import tensorflow as tf

import tfjac

devices = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
x = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")
edits = {"hid": tfjac.handlers.scale(-2.0), "out/bias": tfjac.handlers.scale(3.0)}


def network():
    keras.utils.set_random_seed(0)
    dense = keras.layers.Dense
    return keras.Sequential([keras.Input((4,)), dense(5, "tanh", name="hid"), dense(2, name="out")])


class Edited(keras.Model):
    def __init__(self, net):
        super().__init__()
        self.net, self.edited = net, tfjac.intercept(net, edits)

    def call(self, x):
        return self.edited(x)


def trained(model):
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(x, x[:, :2], batch_size=8, epochs=2, verbose=0, shuffle=False)
    return [variable.numpy().tolist() for variable in model.trainable_variables]


def by_hand(factor):
    # the same by a loop, with the gradient of the last bias times a factor
    scaled = tf.custom_gradient(lambda v: (tf.identity(v), lambda d: -2.0 * d))
    net = network()
    hidden, out = net.layers
    variables = [v.value for v in net.trainable_variables]
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((out(scaled(hidden(x))) - x[:, :2]) ** 2)
        for variable, gradient, rate in zip(variables, tape.gradient(loss, variables), [0.1] * 3 + [0.1 * factor]):
            variable.assign_sub(rate * gradient)
    return [variable.numpy().tolist() for variable in variables]


with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    edited, hooked = Edited(network()), network()
by_edits = trained(edited)
with tfjac.hook(hooked.layers[0], backward=edits["hid"]):
    by_hook = trained(hooked)
print(json.dumps([by_edits, by_hand(3.0), by_hook, by_hand(1.0)]))
"""


@pytest.mark.by_day(None)
def test_two_replicas():
    by_edits, edited, by_hook, hooked = run_alone(SCRIPT)
    for got, expected in [*zip(by_edits, edited), *zip(by_hook, hooked)]:
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
