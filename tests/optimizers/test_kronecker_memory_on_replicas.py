"""Kronecker factors of a batch that two replicas share: those of one device, and so is each step."""

import numpy as np
import pytest

from tests.memory import run_alone

SCRIPT = """
import contextlib
import json
import warnings

import keras
import numpy as np
import tensorflow as tf

import tfjac
from tfjac.keras import memory

warnings.simplefilter("ignore")
memory.SMALL = memory.MOST_OUTPUTS = 0
devices = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
keras.config.set_floatx("float64")
layers, random = keras.layers, np.random.default_rng(0)
x = random.normal(size=(71, 4))
y, classes = np.sin(x[:, :1]), np.argmax(x[:, :3], 1)
two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
results = {}


def fitted(strategy, body, outputs, loss, labels, epochs=3, x=x, **options):
    keras.utils.set_random_seed(0)
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = keras.Sequential([keras.Input((4,)), layers.Dense(6), *body(), layers.Dense(outputs)])
        model.compile(tfjac.LevenbergMarquardt(**options), loss, jit_compile=False)
    data = tf.data.Dataset.from_tensor_slices((x, labels)).batch(16)
    losses = model.fit(data, epochs=epochs, shuffle=False, verbose=0).history["loss"]
    return model, [type(getattr(model.optimizer._memory, "model", None)).__name__, model.optimizer.solver_used, losses]


tanh = lambda: [layers.Activation("tanh")]
for name, strategy in (("one", None), ("two", two)):
    model, told = fitted(strategy, tanh, 1, keras.losses.MeanSquaredError(reduction="sum"), y)
    kept = [np.ravel(side.numpy()) for part in model.optimizer._memory.model._parts for side in part._sides]
    weights = [weight.ravel() for weight in model.get_weights()]
    results[name] = [*told, *(np.concatenate(each).tolist() for each in (weights, kept))]
local = [two.experimental_local_results(variable.value) for variable in model.weights]
results["copies"] = [[copy.numpy().tolist() for copy in each] for each in local]

means = [fitted(each, tanh, 1, "mse", y[:66], 1, x[:66], memory=0.9)[0].get_weights() for each in (None, two)]
results["means"] = [np.concatenate([weight.ravel() for weight in each]).tolist() for each in means]

before = model.get_weights()
model.fit(x[:16], np.where(np.arange(16)[:, None] < 15, y[:16], np.nan), batch_size=16, verbose=0)
results["unmoved"] = all(np.array_equal(one, was) for one, was in zip(model.get_weights(), before))

cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
schedule = keras.optimizers.schedules.CosineDecay(1.0, 20, alpha=0.5)
normalised = lambda: [layers.BatchNormalization(), layers.Activation("tanh")]
results["normalised"] = fitted(two, normalised, 3, cross_entropy, classes, epochs=4, learning_rate=schedule)[1]
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results():
    return run_alone(SCRIPT)


@pytest.mark.by_day(None)
def test_factors_and_steps_are_those_of_one_device(results):
    """Of one output the sign that is drawn does not matter; the last batch has 4 and 3 examples, which are summed."""
    assert results["one"][:2] == results["two"][:2] == ["KroneckerMemory", "kronecker"]
    for one, two in zip(results["one"][3:], results["two"][3:], strict=True):  # Keras weighs the losses it logs
        np.testing.assert_allclose(two, one, rtol=1e-9, atol=1e-12)


def test_a_smaller_last_batch_counts_for_what_it_has(results):
    """Four batches of 16 and one of two, each a mean: of two replicas, of half as many each."""
    np.testing.assert_allclose(results["means"][1], results["means"][0], rtol=1e-8)


def test_replicas_hold_the_same_bits(results):
    for first, second in results["copies"]:
        assert first == second


def test_what_is_not_finite_on_one_replica_moves_none(results):
    assert results["unmoved"]


def test_classes_are_learned_with_batch_normalisation(results):
    """Each replica has the statistics of its own examples; a schedule scales the steps."""
    kind, solver, losses = results["normalised"]
    assert kind == "KroneckerMemory" and solver == "kronecker" and losses[-1] < 0.7 * losses[0]
