"""Steps on the examples of several replicas: as on one device, to rounding, and together."""

import numpy as np
import pytest

from tests.memory import run_alone

SCRIPT = """
import contextlib
import io
import json
import warnings

import keras
import numpy as np
import tensorflow as tf

import tfjac

devices = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
keras.config.set_floatx("float64")
random = np.random.default_rng(0)
x = random.normal(size=(32, 4))
y, weights = np.sin(x[:, :2]), random.uniform(size=32)
two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
results = {}


def model_of(strategy, optimizer, loss="mse", regularizer=None, layers=(), **options):
    keras.utils.set_random_seed(0)
    with strategy.scope() if strategy else contextlib.nullcontext():
        hidden = keras.layers.Dense(4, "tanh", kernel_regularizer=regularizer)
        model = keras.Sequential([keras.Input((4,)), hidden, *layers, keras.layers.Dense(2)])
        model.compile(optimizer, loss, **options)
    return model


def state(model):
    optimizer = model.optimizer
    weights = np.concatenate([weight.ravel() for weight in model.get_weights()])
    return [*weights, optimizer.current_damping, optimizer.num_attempts, optimizer.num_accepted]


def batches(*sizes):
    data = [tf.data.Dataset.from_tensor_slices((x[:size], y[:size])).batch(size) for size in sizes]
    return data[0] if len(data) == 1 else data[0].concatenate(batches(*sizes[1:]))


def refusal(run):
    try:
        run()
    except Exception as error:
        return [type(error).__name__, str(error)]


# L2 and sample weights; then NaN among the examples of the second replica
pair = []
for strategy in (None, two):
    model = model_of(strategy, tfjac.LevenbergMarquardt(), regularizer="l2")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        history = model.fit(x, y, sample_weight=weights, batch_size=32, epochs=4, shuffle=False, verbose=2).history
    results["lines of the first step"] = out.getvalue().count("tracing the step")
    pair.append([*history["loss"], *state(model)])
results["squares"] = pair
copies = lambda model: [two.experimental_local_results(variable.value) for variable in model.weights]
before = [[copy.numpy() for copy in each] for each in copies(model)]
model.fit(x, np.where(np.arange(32)[:, None] < 31, y, np.nan), sample_weight=weights, batch_size=32, verbose=0)
unmoved = all(np.array_equal(one, copy) for each, was in zip(copies(model), before) for copy in each for one in was)
results["nan"] = [unmoved, model.optimizer.status.name, [len(each) for each in before]]

# batches of unequal parts, and of one example: sums are those of the batch
pair = []
loss = keras.losses.CategoricalCrossentropy(from_logits=True, reduction="sum")
for strategy in (None, two):
    model = model_of(strategy, tfjac.LevenbergMarquardt(solver="cg"), loss)
    model.fit(batches(16, 7, 1).map(lambda x, y: (x, tf.nn.softmax(3 * y))), epochs=2, shuffle=False, verbose=0)
    pair.append(state(model))
results["sums"] = pair

# mini-batches, of which earlier ones are remembered
pair = []
for strategy in (None, two):
    model = model_of(strategy, tfjac.LevenbergMarquardt())
    model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(8), epochs=3, shuffle=False, verbose=0)
    pair.append([*state(model), int(model.optimizer._memory._streams.numpy())])
results["memory"] = pair

# means are Keras' means of replicas: of 4 and of 3 examples here
pair = []
for strategy, weight in ((None, np.repeat([7 / 8, 7 / 6], [4, 3])), (two, np.ones(7))):
    model = model_of(strategy, tfjac.LevenbergMarquardt(steps_per_batch=2))
    weight = np.concatenate([np.ones(8), weight])
    data = tf.data.Dataset.from_tensor_slices((x[:15], y[:15], weight)).batch(8)
    model.fit(data, verbose=0, shuffle=False)
    pair.append(state(model))
results["means"] = pair

# a loop of one's own, on a linear problem
with two.scope():
    variable = tf.Variable(np.zeros((4, 2)))
    optimizer = tfjac.LevenbergMarquardt()
    optimizer.build([variable])


@tf.function
def step(x, y):
    return two.run(lambda x, y: optimizer.minimize(lambda: x @ variable - y, [variable]).cost, args=(x, y))


data = iter(two.experimental_distribute_dataset(batches(32).repeat(12)))
costs = [float(step(*next(data))) for _ in range(12)]
results["linear"] = [[copy.numpy().tolist() for copy in two.experimental_local_results(variable)], costs[-1]]

# a batch of one example, of which the second replica has none: the step is that in the first row
before = variable.numpy()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    alone = float(step(*next(iter(two.experimental_distribute_dataset(batches(1))))))
copies = [copy.numpy().tolist() for copy in two.experimental_local_results(variable)]
told = [str(warning.message) for warning in caught if "tfjac" in str(warning.message)]
results["one example"] = [before.tolist(), copies, alone, optimizer.last_report.damping.item(), told]

minimize = lambda: optimizer.minimize(lambda: variable, [variable])
lm, normal = tfjac.LevenbergMarquardt, keras.layers.BatchNormalization
fit = lambda model: refusal(lambda: model.fit(x, y, batch_size=32, verbose=0))
with two.scope():
    outside = refusal(minimize)
    inside = refusal(lambda: tfjac.least_squares(lambda: variable - 1.0, variable))
lonely = tf.Variable(np.zeros((4, 2)))
unshared = lm()
unshared.build([lonely])
results["refusals"] = {
    "outside of strategy.run": outside,
    "Call this outside of the scope": inside,
    "within a tf.function": refusal(lambda: two.run(minimize)),
    "within strategy.scope()": refusal(
        lambda: tf.function(lambda: two.run(lambda: unshared.minimize(lambda: 1 - lonely, [lonely])))()
    ),
    "use jit_compile=False": fit(model_of(two, lm(), jit_compile=True)),
    "BatchNormalization(synchronized=False)": fit(model_of(two, lm(), layers=[normal(synchronized=True)])),
}

keras.distribution.set_distribution(keras.distribution.DataParallel(devices=["cpu:0", "cpu:1"]))
with warnings.catch_warnings(record=True) as caught:
    model_of(None, tfjac.LevenbergMarquardt()).fit(x, y, verbose=0)
results["warnings"] = [str(warning.message) for warning in caught]
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results():
    return run_alone(SCRIPT)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("case", ["squares", "sums", "means", "memory"])
def test_as_on_one_device(results, case):
    one, two = results[case]
    np.testing.assert_allclose(two, one, rtol=1e-7, atol=1e-9)


@pytest.mark.by_day(None)
def test_the_first_step_is_told_of_once(results):
    assert results["lines of the first step"] == 1


def test_not_finite_on_one_replica_is_not_finite_for_all(results):
    assert results["nan"] == [True, "NOT_FINITE", [2, 2, 2, 2]]


def test_a_loop_of_ones_own(results):
    random = np.random.default_rng(0)
    x = random.normal(size=(32, 4))
    y = np.sin(x[:, :2])
    expected, squares, _, _ = np.linalg.lstsq(x, y, rcond=None)
    copies, cost = results["linear"]
    np.testing.assert_allclose(copies, [expected, expected], rtol=1e-6)
    np.testing.assert_allclose(cost, squares.sum() / 2, rtol=1e-9)


def test_a_replica_without_examples_has_no_part_in_the_step(results):
    before, copies, cost, damping, told = results["one example"]
    random = np.random.default_rng(0)
    x = random.normal(size=(32, 4))
    row, values = x[:1], np.sin(x[:1, :2])
    step = np.linalg.solve(row.T @ row + damping * np.eye(4), row.T @ (values - row @ before))
    np.testing.assert_allclose(copies, [before + step] * 2, rtol=1e-7)
    assert cost == pytest.approx(((row @ (before + step) - values) ** 2).sum() / 2, rel=1e-6) and told == []


def test_refusals_say_what_to_do(results):
    for advice, (error, message) in results["refusals"].items():
        assert error == "ValueError" and advice in message and "Received: " in message


def test_distribution_that_keras_ignores_is_warned_of(results):
    assert any("keras.distribution" in message and "DataParallel" in message for message in results["warnings"])
