"""Memory of a long life: new functions and models, one after the other, in one process; does it stay flat?

python -m benchmarks.long_life            # all loops, each beside the same in plain TensorFlow: half an hour
python -m benchmarks.long_life curve_fit  # one

Each loop runs in a process of its own. What counts is by how much the memory of the process grows in each round beyond
the first tenth of its rounds; before that, caches fill up.
"""

import gc
import json
import os
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

import tfjac

TIMES = np.linspace(0, 4, 33)


def curve_fit(index):
    """A fit of a function that was never seen before."""
    tfjac.curve_fit(lambda t, a, b: a * tf.exp(-b * t) + index, TIMES, np.exp(-TIMES) + index, p0=[0.5, 0.5])


def least_squares(index):
    """A minimisation of residuals and variables that were never seen before."""
    x = tf.Variable(np.zeros(300) + 0.1)
    tfjac.least_squares(lambda: tf.concat([x - index, tf.sin(x[1:] - x[:-1])], 0), x, max_steps=5)


def keras_fit(index):
    """A training of a new Keras model."""
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(5, activation="tanh"), keras.layers.Dense(1)])
    model.compile(optimizer=tfjac.LevenbergMarquardt(), loss="mse")
    x = np.random.default_rng(index).normal(size=[64, 4])
    model.fit(x, np.sin(x[:, :1]), epochs=1, batch_size=64, verbose=0)


def per_example_jacobian(index):
    """Per-example Jacobians of a new model."""
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(5, activation="tanh"), keras.layers.Dense(1)])
    x = tf.random.stateless_normal([64, 4], [index, 0])
    tfjac.per_example_jacobian(lambda: model(x), model.trainable_variables)


def plain_function(index):
    """Beside `curve_fit` and `least_squares`: a new function of TensorFlow, with its gradient."""
    x = tf.Variable([0.5, 0.5])

    @tf.function
    def gradient():
        with tf.GradientTape() as tape:
            cost = tf.reduce_sum(tf.square(x[0] * tf.exp(-x[1] * TIMES.astype(np.float32)) - index))
        return tape.gradient(cost, x)

    gradient()


def plain_adam(index):
    """Beside `keras_fit`: a training of a new Keras model by Adam."""
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(5, activation="tanh"), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")
    x = np.random.default_rng(index).normal(size=[64, 4])
    model.fit(x, np.sin(x[:, :1]), epochs=1, batch_size=64, verbose=0)


def plain_tape(index):
    """Beside `per_example_jacobian`: `tape.jacobian` of a new model, in a function."""
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(5, activation="tanh"), keras.layers.Dense(1)])
    x = tf.random.stateless_normal([64, 4], [index, 0])

    @tf.function
    def jacobian():
        with tf.GradientTape() as tape:
            outputs = model(x)
        return tape.jacobian(outputs, model.trainable_variables)

    jacobian()


ROUNDS = {
    "curve_fit": 1000, "least_squares": 300, "plain_function": 1000, "keras_fit": 100, "plain_adam": 100,
    "per_example_jacobian": 100, "plain_tape": 100,
}  # fmt: skip


def resident() -> float:
    """Return the memory of this process, MB."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def lived(name: str, rounds: int) -> dict:
    """Return the memory after the first tenth of the rounds, at half of them, and at the end, MB."""
    loop, at = globals()[name], {}
    for index in range(rounds):
        loop(index)
        if index + 1 in (rounds // 10, rounds // 2, rounds):
            at[index + 1] = resident()
    return at


def main(arguments: list[str]) -> None:
    """Print a table, a row for each loop."""
    if arguments[:1] == ["--once"]:
        print(json.dumps(lived(arguments[1], int(arguments[2]))))
        return
    print("loop                   rounds   MB at a tenth, half, end    MB for each round beyond the tenth, the half")
    for name in arguments or ROUNDS:
        process = [sys.executable, "-m", "benchmarks.long_life", "--once", name, str(ROUNDS[name])]
        said = subprocess.run(process, capture_output=True, text=True, check=True, timeout=3600)
        at = {int(key): value for key, value in json.loads(said.stdout.splitlines()[-1]).items()}
        (first, one), (half, two), (last, three) = sorted(at.items())
        grown = (three - one) / (last - first), (three - two) / (last - half)
        print(f"{name:22s} {last:6d}   {one:7.0f} {two:7.0f} {three:7.0f}         {grown[0]:.3f}  {grown[1]:.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
