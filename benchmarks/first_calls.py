"""What users wait for before the first step: ops that are traced, and processor seconds, of thirteen first calls.

python -m benchmarks.first_calls             # all, each in a process that has warmed TensorFlow, three times
python -m benchmarks.first_calls curve_fit   # some

The number of ops says how long a first call takes, is the same on every machine, and is held by
`tests/test_first_calls.py`.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

import tfjac


@contextlib.contextmanager
def graphs_made() -> Iterator[list]:
    """Give a list of all graphs of functions that are made meanwhile."""
    from tensorflow.python.framework.func_graph import FuncGraph

    made, begin = [], FuncGraph.__init__

    def noted(graph, *given, **options):
        begin(graph, *given, **options)
        made.append(graph)

    FuncGraph.__init__ = noted
    try:
        yield made
    finally:
        FuncGraph.__init__ = begin


def ops_traced(call: Callable) -> int:
    """Return how many ops all graphs have that `call` makes."""
    with graphs_made() as made:
        call()
    return sum(len(graph.get_operations()) for graph in made)


RNG = np.random.default_rng(0)


def decay(t, a, b, c):
    return a * tf.exp(-b * t) + c


def curve_fit():
    """A curve of three parameters, 33 points."""
    t = np.linspace(0, 4, 33)
    y = 2.5 * np.exp(-1.3 * t) + 0.5 + 0.02 * RNG.normal(size=33)
    return lambda: tfjac.curve_fit(decay, t, y, p0=[1.0, 1.0, 0.0])


def single_precision():
    """`least_squares` of the same in float32."""
    t = np.linspace(0, 4, 33).astype(np.float32)
    x = tf.Variable([1.0, 1.0, 0.0])
    return lambda: tfjac.least_squares(lambda x, t: decay(t, *tf.unstack(x)) - tf.cos(t), x, args=(t,))


def named_parameters():
    """The same with named parameters and bounds."""
    t = np.linspace(0, 4, 33)
    y = 2.5 * np.exp(-1.3 * t) + 0.5
    named = tfjac.Parameters(a={"value": 1.0, "min": 0.0}, b=1.0, c=0.0)
    return lambda: tfjac.curve_fit(decay, t, y, named)


def network(width, outputs, activation=None):
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(width, activation="tanh"), keras.layers.Dense(outputs, activation=activation)]
    return keras.Sequential([keras.Input([8]), *layers])


def trained(model, loss, targets, batch_size, optimizer=None):
    inputs = RNG.normal(size=[256, 8]).astype(np.float32)

    def fit():
        model.compile(optimizer=optimizer or tfjac.LevenbergMarquardt(), loss=loss)
        model.fit(inputs, targets(inputs), epochs=1, batch_size=batch_size, verbose=0, shuffle=False)

    return fit


def sines(inputs):
    return np.sin(inputs[:, :1])


def classes(inputs):
    return (np.abs(inputs[:, 0] * 5).astype(int) % 10)[:, None]


def keras_full_batch():
    """Keras' `fit`, 8-20-1, the whole batch."""
    return trained(network(20, 1), "mse", sines, 256)


def keras_batches():
    """Keras' `fit`, 8-20-1, batches of 32."""
    return trained(network(20, 1), "mse", sines, 32)


def keras_kronecker():
    """Keras' `fit`, 8-200-10 with classes: Kronecker factors."""
    return trained(network(200, 10, "softmax"), "sparse_categorical_crossentropy", classes, 32)


def keras_recurrent():
    """Keras' `fit`, `LSTM(32)` and ten classes, batches of 32 whose last one is smaller."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input([8, 8]), keras.layers.LSTM(32), keras.layers.Dense(10)])
    inputs = RNG.normal(size=[65, 8, 8]).astype(np.float32)

    def fit():
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=tfjac.LevenbergMarquardt(), loss=loss)
        model.fit(inputs, classes(inputs[:, 0]), epochs=1, batch_size=32, verbose=0, shuffle=False)

    return fit


def keras_adam():
    """Keras' `fit` with Adam, 8-20-1: what Keras itself takes."""
    return trained(network(20, 1), "mse", sines, 256, "adam")


def many_fits():
    """500 decays at once."""
    t = np.linspace(0, 4, 33)
    rates = RNG.uniform(0.5, 2, [500, 1])
    y = 2 * np.exp(-rates * t)
    x = tf.Variable(np.tile([1.0, 1.0, 0.0], [500, 1]))

    def residuals(x, y):
        return x[:, :1] * tf.exp(-x[:, 1:2] * t) + x[:, 2:] - y

    return lambda: tfjac.least_squares(residuals, x, args=(y,), batch_dims=1)


def sparse():
    """A chain of 3,000 parameters, each tied to the next."""
    x = tf.Variable(np.zeros(3000))
    target = np.cos(np.arange(3000) / 100)

    def residuals():
        here, there = tf.gather(x, np.arange(2999)), tf.gather(x, np.arange(1, 3000))
        return tf.concat([there - here - 0.01 * tf.sin(here), 0.1 * (x - target)], axis=0)

    return lambda: tfjac.least_squares(residuals, x)


def convolutions():
    """`per_example_jacobian` of a small convolutional network."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input([8, 8, 1]), layers.Conv2D(4, 3, activation="relu"), layers.Flatten(), layers.Dense(3)]
    )
    images = tf.constant(RNG.normal(size=[16, 8, 8, 1]), tf.float32)
    return lambda: tfjac.per_example_jacobian(lambda: model(images), model.trainable_variables)


def recurrent():
    """`per_example_jacobian` of an LSTM."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input([6, 2]), keras.layers.LSTM(4), keras.layers.Dense(1)])
    series = tf.constant(RNG.normal(size=[16, 6, 2]), tf.float32)
    return lambda: tfjac.per_example_jacobian(lambda: model(series), model.trainable_variables)


def pose_graph():
    """A loop of 400 poses in the plane, on SE2."""
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    truth = np.stack([10 * np.cos(angle), 10 * np.sin(angle), angle + np.pi / 2], axis=1)
    poses = tf.Variable(truth + 0.05 * RNG.normal(size=truth.shape))
    one, two = np.arange(400), np.roll(np.arange(400), -1)
    step = 20 * np.sin(np.pi / 400)

    def residuals():
        a, b = tf.gather(poses, one), tf.gather(poses, two)
        moved, turned = b[:, :2] - a[:, :2], b[:, 2] - a[:, 2] - 2 * np.pi / 400
        ahead = a[:, 2] + np.pi / 400
        along = tf.stack([tf.cos(ahead), tf.sin(ahead)], axis=1)
        return tf.concat([moved - step * along, tf.sin(turned)[:, None], (a[:, :1] - truth[:, :1]) / 100], axis=1)

    return lambda: tfjac.least_squares(residuals, poses)


def bundle():
    """A bundle of 12 cameras and 200 points: the points are eliminated."""
    points = tf.Variable(RNG.normal(size=[200, 3]))
    cameras = tf.Variable(np.c_[0.1 * RNG.normal(size=[12, 2]), np.linspace(4, 6, 12)])
    which, seen = np.repeat(np.arange(12), 200), np.tile(np.arange(200), 12)
    start = points.numpy(), cameras.numpy()
    measured = (start[0][seen, :2] + start[1][which, :2]) / (start[0][seen, 2:] + start[1][which, 2:] + 4)

    def residuals():
        camera, point = tf.gather(cameras, which), tf.gather(points, seen)
        return (point[:, :2] + camera[:, :2]) / (point[:, 2:] + camera[:, 2:] + 4) - measured

    points.assign_add(0.01 * RNG.normal(size=[200, 3]))
    return lambda: tfjac.least_squares(residuals, [cameras, points], max_steps=20)


CASES = [
    curve_fit, single_precision, named_parameters, keras_full_batch, keras_batches, keras_kronecker, keras_recurrent,
    many_fits, sparse, convolutions, recurrent, pose_graph, bundle,
]  # fmt: skip


def once(name: str) -> dict:
    """Return what the first call of a case takes in this process, and the median of later ones in milliseconds."""
    tf.function(lambda x: tf.linalg.solve(x, x))(tf.eye(3))  # what TensorFlow itself does once
    call = globals()[name]()
    before = os.times()
    with graphs_made() as made:
        call()
    after = os.times()
    ops = sum(len(graph.get_operations()) for graph in made)
    seconds = after.user + after.system - before.user - before.system
    return {"graphs": len(made), "ops": ops, "seconds": seconds, "again": 1e3 * again(call)}


def again(call: Callable, times: int = 9) -> float:
    """Return the median time of more calls, seconds: Keras compiles again, others begin where the first one ended."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def main(names: list[str]) -> None:
    """Print a table, a row for each case."""
    if names[:1] == ["--once"]:
        print(json.dumps(once(names[1])))
        return
    print("first call of         graphs    ops   CPU s (three processes)   again, ms")
    for name in names or [case.__name__ for case in [*CASES, keras_adam]]:
        found = []
        for _ in range(3):
            process = [sys.executable, "-m", "benchmarks.first_calls", "--once", name]
            said = subprocess.run(process, capture_output=True, text=True, check=True, timeout=600)
            found.append(json.loads(said.stdout.splitlines()[-1]))
        times = sorted(each["seconds"] for each in found)
        middle = statistics.median(times)
        counts = f"{found[0]['graphs']:7d} {found[0]['ops']:6d}"
        later = statistics.median(each["again"] for each in found)
        print(f"{name:20s} {counts}   {middle:.2f} ({times[0]:.2f}–{times[-1]:.2f})        {later:9.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
