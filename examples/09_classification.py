"""Classify handwritten digits with generalised Gauss–Newton steps, next to Adam and L-BFGS: loss by wall time.

    python examples/09_classification.py [--steps 25] [--plot FILE.png]

A plain Keras CNN, compiled with `loss="sparse_categorical_crossentropy"` and `tfjac.LevenbergMarquardt()`, sees all
1,500 digits of the UCI set (shipped in data/) in every step. Adam gets shuffled mini-batches, ten steps per compiled
call and a learning rate that falls with a cosine, SciPy's L-BFGS the loss and its gradient over all digits, and both
the wall time that Levenberg–Marquardt took. All start from the same weights and lower the same function, cross-entropy
plus a little weight decay. Tracing and compilation count for none of them.

Who is ahead? L-BFGS. It gets to a low loss first, and Levenberg–Marquardt only catches up with it below 0.01: a step of
Levenberg–Marquardt costs many gradients, and 810 weights with a cross-entropy hardly repay them. Adam is quick at first
and then stays behind both. The three networks read new digits about equally well.
"""

import argparse
import math
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize
import tensorflow as tf
from example_data import load_digits
from example_figures import save_figure
from example_training import warm_up

import tfjac

BATCH, PEAK_RATE, STEPS_PER_CALL = 50, 1e-2, 10
PLOT = pathlib.Path(__file__).parent / "plots" / "09_classification.png"


def build_model() -> keras.Model:
    """A small CNN, 810 weights, with the same initial weights every time."""
    keras.utils.set_random_seed(3)
    decay = keras.regularizers.L2(1e-5)
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(8, 3, strides=2, activation="tanh", kernel_regularizer=decay),
            keras.layers.Flatten(),
            keras.layers.Dense(10, activation="softmax", kernel_regularizer=decay),
        ]
    )


class Objective:
    """What all minimise, over all training digits: cross-entropy plus decay, with its gradient."""

    def __init__(self, model: keras.Model, x: np.ndarray, y: np.ndarray):
        self.weights = [variable.value for variable in model.trainable_variables]
        x, y, loss = tf.constant(x), tf.constant(y), keras.losses.SparseCategoricalCrossentropy()
        self.value = tf.function(lambda: loss(y, model(x)) + tf.add_n(model.losses))
        self.value_and_gradient = tf.function(self._value_and_gradient)

    def _value_and_gradient(self):
        with tf.GradientTape() as tape:
            value = self.value()
        return value, tf.concat([tf.reshape(g, [-1]) for g in tape.gradient(value, self.weights)], 0)

    def assign(self, flat: np.ndarray) -> None:
        parts = np.split(flat, np.cumsum([weight.shape.num_elements() for weight in self.weights])[:-1])
        for weight, part in zip(self.weights, parts, strict=True):
            weight.assign(part.reshape(weight.shape))

    def start(self) -> np.ndarray:
        return np.concatenate([weight.numpy().ravel() for weight in self.weights])


class Stopwatch:
    """Seconds and losses, with the clock stopped while the loss is looked at."""

    def __init__(self, objective: Objective):
        self.objective, self.seconds = objective, 0.0
        self.curve = [(0.0, float(objective.value()))]
        self.resumed = time.perf_counter()

    def tick(self) -> float:
        self.seconds += time.perf_counter() - self.resumed
        self.curve.append((self.seconds, float(self.objective.value())))
        self.resumed = time.perf_counter()
        return self.seconds


def train_levenberg_marquardt(digits, steps: int):
    """Every step sees every digit."""
    model = build_model()
    model.compile(optimizer=tfjac.LevenbergMarquardt(), loss="sparse_categorical_crossentropy")
    data = tf.data.Dataset.from_tensors((digits.x_train, digits.y_train)).repeat()
    warm_up(model, data, 1)
    watch = Stopwatch(Objective(model, digits.x_train, digits.y_train))
    tick = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: watch.tick())
    model.fit(data, steps_per_epoch=steps, shuffle=False, verbose=0, callbacks=[tick])
    return model, watch


def train_adam(digits, seconds: float):
    """Shuffled mini-batches until the time is up."""
    model = build_model()
    adam = keras.optimizers.Adam(PEAK_RATE)
    model.compile(adam, loss="sparse_categorical_crossentropy", steps_per_execution=STEPS_PER_CALL)
    rows = tf.data.Dataset.from_tensor_slices((digits.x_train, digits.y_train)).cache()
    data = rows.shuffle(len(digits.x_train), seed=1).batch(BATCH, drop_remainder=True).repeat().prefetch(4)
    warm_up(model, data, 2 * STEPS_PER_CALL)
    watch = Stopwatch(Objective(model, digits.x_train, digits.y_train))

    def tick(batch, logs):
        part = min(watch.tick() / seconds, 1.0)
        adam.learning_rate = PEAK_RATE * 0.5 * (1.0 + math.cos(math.pi * part))
        model.stop_training = part == 1.0

    callback = keras.callbacks.LambdaCallback(on_train_batch_end=tick)
    model.fit(data, steps_per_epoch=1_000_000, shuffle=False, verbose=0, callbacks=[callback])
    return model, watch


def train_lbfgs(digits, seconds: float):
    """SciPy's L-BFGS, with TensorFlow's gradient, until the time is up."""
    model = build_model()
    objective = Objective(model, digits.x_train, digits.y_train)
    start = objective.start()
    objective.value_and_gradient()
    watch = Stopwatch(objective)

    def evaluate(flat):
        objective.assign(flat)
        value, gradient = objective.value_and_gradient()
        return float(value), gradient.numpy().astype(float)

    def stop(flat):
        objective.assign(flat)
        if watch.tick() >= seconds:
            raise StopIteration

    options = {"maxiter": 100_000, "maxfun": 1_000_000, "ftol": 0.0, "gtol": 0.0, "maxcor": 30}
    scipy.optimize.minimize(evaluate, start, jac=True, method="L-BFGS-B", callback=stop, options=options)
    return model, watch


def accuracy(model: keras.Model, x: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(model.predict(x, verbose=0).argmax(-1) == y))


def save_plot(runs: dict, path: pathlib.Path) -> None:
    """Draw training loss against wall time."""
    figure, axis = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    for (name, (_, watch)), color in zip(runs.items(), ("#c2410c", "#475569", "#0369a1"), strict=True):
        axis.plot(*zip(*watch.curve, strict=True), color=color, linewidth=2, label=name)
    axis.set(yscale="log", xlabel="seconds of training", ylabel="cross-entropy + L2, all training digits")
    axis.set_title("UCI digits, Keras CNN of 810 weights: same start", fontsize=11, loc="left")
    axis.grid(True, which="major", color="#e2e8f0")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    save_figure(figure, path, dpi=150)


def main(arguments: list[str] | None = None) -> dict[str, tuple[float, float, float]]:
    """Run the comparison; return seconds, training loss and test accuracy of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=25, help="Levenberg–Marquardt steps; the others get their time")
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="where to draw")
    options = parser.parse_args(arguments)
    digits = load_digits()
    runs = {"Levenberg–Marquardt": train_levenberg_marquardt(digits, options.steps)}
    seconds = runs["Levenberg–Marquardt"][1].seconds
    runs |= {"Adam": train_adam(digits, seconds), "L-BFGS": train_lbfgs(digits, seconds)}
    results = {
        name: (*watch.curve[-1], accuracy(model, digits.x_test, digits.y_test)) for name, (model, watch) in runs.items()
    }
    print(f"\n{'':20}{'seconds':>10}{'training loss':>16}{'test accuracy':>16}")
    for name, (time_taken, loss, right) in results.items():
        print(f"{name:20}{time_taken:10.2f}{loss:16.2e}{right:16.1%}")
    goals = (0.1, 0.01, 0.008)
    print(f"\n{'seconds to a loss of':20}" + "".join(f"{goal:>14}" for goal in goals))
    for name, (_, watch) in runs.items():
        reached = [next((f"{at:.2f}" for at, loss in watch.curve if loss <= goal), "not reached") for goal in goals]
        print(f"{name:20}" + "".join(f"{seconds:>14}" for seconds in reached))
    save_plot(runs, options.plot)
    print(f"plot: {options.plot}")
    return results


if __name__ == "__main__":
    main()
