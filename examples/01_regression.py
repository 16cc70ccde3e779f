"""Train a plain Keras model with Levenberg–Marquardt, and with Adam for the same wall time.

    python examples/01_regression.py [--steps 100] [--split 0] [--plot FILE.png]

The data are 308 towing-tank measurements of sailing yachts (UCI "yacht hydrodynamics", shipped in data/). Both
optimizers start from the same weights and run through `model.fit`; both are warmed up first, so that tracing and
compilation count for neither, and the clock stands still while a curve is recorded. Levenberg–Marquardt sees all
training rows in every step. Adam gets what suits it: shuffled mini-batches, ten steps per compiled call, and a
learning rate that falls with a cosine over the time it has.
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
import tensorflow as tf
from example_data import Split, load_yacht
from example_figures import save_figure
from example_training import warm_up

import tfjac

SEED = 7
ADAM_BATCH = 32
ADAM_PEAK_RATE = 1e-2
ADAM_STEPS_PER_CALL = 10
CURVE_POINTS = 100
PLOT = pathlib.Path(__file__).parent / "plots" / "01_regression.png"


def build_model() -> keras.Model:
    """Two small tanh layers with a little weight decay, and the same initial weights every time."""
    keras.utils.set_random_seed(SEED)
    decay = keras.regularizers.L2(1e-6)
    return keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(16, activation="tanh", kernel_regularizer=decay),
            keras.layers.Dense(8, activation="tanh", kernel_regularizer=decay),
            keras.layers.Dense(1, kernel_regularizer=decay),
        ]
    )


class Stopwatch(keras.callbacks.Callback):
    """Records (seconds, steps, training loss) with the clock stopped meanwhile; ends training after `limit` seconds."""

    def __init__(self, loss_now, limit: float = math.inf):
        super().__init__()
        self.loss_now, self.limit = loss_now, limit
        self.interval = limit / CURVE_POINTS if math.isfinite(limit) else 0.0
        self.seconds, self.curve = 0.0, [(0.0, 0, loss_now())]

    def on_train_begin(self, logs=None):
        self.resumed = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        elapsed = self.seconds + time.perf_counter() - self.resumed
        self.model.stop_training = elapsed >= self.limit
        if self.model.stop_training or elapsed >= self.curve[-1][0] + self.interval:
            self.curve.append((elapsed, int(self.model.optimizer.iterations), self.loss_now()))
            self.seconds, self.resumed = elapsed, time.perf_counter()


class CosineRate(keras.callbacks.Callback):
    """Lowers the learning rate from its peak to zero over the stopwatch's time."""

    def __init__(self, stopwatch: Stopwatch):
        super().__init__()
        self.stopwatch = stopwatch

    def on_train_batch_begin(self, batch, logs=None):
        part = min(self.stopwatch.curve[-1][0] / self.stopwatch.limit, 1.0)
        self.model.optimizer.learning_rate = ADAM_PEAK_RATE * 0.5 * (1.0 + math.cos(math.pi * part))


def full_loss(model: keras.Model, split: Split):
    """Return a function that computes what both minimise, over all training rows: mean squared error plus decay."""
    x, y = tf.constant(split.x_train), tf.constant(split.y_train)

    @tf.function
    def loss():
        return tf.reduce_mean(tf.square(model(x) - y)) + tf.add_n(model.losses)

    return lambda: float(loss())


def train_levenberg_marquardt(split: Split, steps: int) -> tuple[keras.Model, Stopwatch]:
    """Train with every row in every step."""
    model = build_model()
    model.compile(optimizer=tfjac.LevenbergMarquardt(), loss="mse")
    data = tf.data.Dataset.from_tensors((split.x_train, split.y_train)).repeat()
    warm_up(model, data, steps=1)
    stopwatch = Stopwatch(full_loss(model, split))
    model.fit(data, steps_per_epoch=steps, shuffle=False, verbose=0, callbacks=[stopwatch])
    return model, stopwatch


def train_adam(split: Split, seconds: float) -> tuple[keras.Model, Stopwatch]:
    """Train on shuffled mini-batches until the time is up."""
    model = build_model()
    model.compile(optimizer=keras.optimizers.Adam(ADAM_PEAK_RATE), loss="mse", steps_per_execution=ADAM_STEPS_PER_CALL)
    rows = tf.data.Dataset.from_tensor_slices((split.x_train, split.y_train)).cache()
    data = rows.shuffle(len(split.x_train), seed=SEED).batch(ADAM_BATCH, drop_remainder=True).repeat().prefetch(4)
    warm_up(model, data, steps=2 * ADAM_STEPS_PER_CALL)
    stopwatch = Stopwatch(full_loss(model, split), limit=seconds)
    callbacks = [stopwatch, CosineRate(stopwatch)]
    model.fit(data, steps_per_epoch=1_000_000, shuffle=False, verbose=0, callbacks=callbacks)
    return model, stopwatch


def rmse(model: keras.Model, x: np.ndarray, y: np.ndarray, split: Split) -> float:
    """Root mean square error in the target's own units."""
    return float(np.sqrt(np.mean(np.square(model.predict(x, verbose=0) - y)))) * split.target_scale


def print_table(runs: dict[str, tuple[keras.Model, Stopwatch]], split: Split) -> None:
    """One line per optimizer."""
    print(f"\n{'':20}{'steps':>8}{'seconds':>10}{'train RMSE':>13}{'test RMSE':>13}{'training loss':>16}")
    for name, (model, stopwatch) in runs.items():
        seconds, steps, loss = stopwatch.curve[-1]
        train = rmse(model, split.x_train, split.y_train, split)
        test = rmse(model, split.x_test, split.y_test, split)
        print(f"{name:20}{steps:8d}{seconds:10.2f}{train:13.4f}{test:13.4f}{loss:16.2e}")
    print("\nRMSE in units of the target (residuary resistance per unit weight of displacement, times 1,000);")
    print("tracing and compilation are not in the seconds.")


def save_plot(runs: dict[str, tuple[keras.Model, Stopwatch]], path: pathlib.Path) -> None:
    """Draw training loss against wall time."""
    figure, axis = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    for (name, (_, stopwatch)), color in zip(runs.items(), ("#c2410c", "#475569"), strict=True):
        seconds, steps, losses = zip(*stopwatch.curve, strict=True)
        axis.plot(seconds, losses, color=color, linewidth=2)
        axis.annotate(
            f"{name}\n{steps[-1]} steps", (seconds[-1], losses[-1]), (6, 0), textcoords="offset points",
            color=color, va="center", fontsize=9,
        )  # fmt: skip
    axis.set(yscale="log", xlabel="seconds of training", ylabel="training loss (mean squared error + L2)")
    axis.set_title("UCI yacht, Keras MLP 6-16-8-1: same start, same wall time", fontsize=11, loc="left")
    axis.set_xlim(0, 1.36 * max(stopwatch.curve[-1][0] for _, stopwatch in runs.values()))
    axis.grid(True, which="major", color="#e2e8f0")
    axis.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path, dpi=150)


def main(arguments: list[str] | None = None) -> dict[str, list[tuple[float, int, float]]]:
    """Run the comparison; return each optimizer's curve of (seconds, steps, training loss)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100, help="Levenberg–Marquardt steps; Adam gets their wall time")
    parser.add_argument("--split", type=int, default=0, choices=(0, 1, 2), help="which of the three shipped splits")
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="where to draw")
    options = parser.parse_args(arguments)

    split = load_yacht(options.split)
    model, stopwatch = train_levenberg_marquardt(split, options.steps)
    runs = {"Levenberg–Marquardt": (model, stopwatch), "Adam": train_adam(split, stopwatch.curve[-1][0])}
    print_table(runs, split)
    save_plot(runs, options.plot)
    print(f"plot: {options.plot}")
    return {name: stopwatch.curve for name, (_, stopwatch) in runs.items()}


if __name__ == "__main__":
    main()
