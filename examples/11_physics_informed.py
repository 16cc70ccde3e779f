"""Solve Poisson's equation with a network: a physics-informed one, in plain Keras, to six digits in seconds.

    python examples/11_physics_informed.py [--steps N] [--plot FILE.png]

-Δu = 2π² sin(πx) sin(πy) on the unit square, u = 0 at its border; the solution is sin(πx) sin(πy). A perceptron 2-64-1
is asked to satisfy both at 900 points inside and 120 on the border. The loss is a sum of squares of two kinds, one with
second derivatives of the network inside, so that each step of Levenberg-Marquardt solves a least-squares problem. With
acceleration steps bend with the residuals, and a seventh of them is enough. Adam has the same time, and
stays behind by orders of magnitude. The problem is from J. Müller, M. Zeinhofer, "Achieving high accuracy with PINNs
via energy natural gradient descent", 2023.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import pathlib
import time

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from example_figures import save_figure
from example_training import warm_up

import tfjac

PLOT = pathlib.Path(__file__).parent / "plots" / "11_physics_informed.png"
STEPS_PER_CALL = {"Levenberg–Marquardt": 5, "Adam": 100}


def solution(points):
    """The exact u `[n, 1]` at `points` `[n, 2]`."""
    return np.prod(np.sin(np.pi * np.asarray(points)), axis=1, keepdims=True)


def collocation_points() -> tuple[np.ndarray, np.ndarray]:
    """Return 900 points inside of the square, on a grid, and 120 on its border."""
    along = (np.arange(30) + 0.5) / 30
    sides = [np.stack(ends, 1) for at in (0.0, 1.0) for ends in ((along, 0 * along + at), (0 * along + at, along))]
    return np.stack(np.meshgrid(along, along), -1).reshape(-1, 2), np.concatenate(sides)


class Poisson(keras.Model):
    """A network u(x, y), and a loss that is zero where it solves the equation: nothing in it is of tfjac."""

    def __init__(self):
        super().__init__(dtype="float64")
        hidden, last = keras.layers.Dense(64, "tanh", dtype="float64"), keras.layers.Dense(1, dtype="float64")
        self.network = keras.Sequential([keras.Input((2,), dtype="float64"), hidden, last])

    def call(self, points):
        """Return u `[n, 1]` at the points inside."""
        inside, _ = points
        return self.network(inside)

    def laplacian(self, points):
        """Return Δu `[n]`, by two tapes for each coordinate."""
        coordinates = tf.unstack(points, axis=1)
        total = 0.0
        for k in range(2):
            with tf.GradientTape() as outer:
                outer.watch(coordinates[k])
                with tf.GradientTape() as inner:
                    inner.watch(coordinates[k])
                    u = self.network(tf.stack(coordinates, 1))
                slope = inner.gradient(u, coordinates[k])
            total += outer.gradient(slope, coordinates[k])
        return total

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Return the mean square of the equation's residual inside, and that of u on the border."""
        inside, border = x
        equation = self.laplacian(inside) + 2 * np.pi**2 * tf.reduce_prod(tf.sin(np.pi * inside), axis=1)
        return tf.reduce_mean(tf.square(equation)) + tf.reduce_mean(tf.square(self.network(border)))


class Curve(keras.callbacks.Callback):
    """Writes down, after each call of the training step, the seconds and the error of the solution."""

    def __init__(self, grid, seconds=None):
        super().__init__()
        self.grid, self.rows, self._seconds, self._start = grid, [], seconds, time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        """Measure, with the clock stopped, and stop when the time is over."""
        now = time.perf_counter()
        self.rows.append((now - self._start, error(self.model, self.grid)))
        self.model.stop_training = self._seconds is not None and now - self._start >= self._seconds
        self._start += time.perf_counter() - now


def error(model, grid) -> float:
    """Return the root mean square of u's error on a grid of points."""
    return float(np.sqrt(np.mean((model.network(grid).numpy() - solution(grid)) ** 2)))


def train(name: str, optimizer, grid, steps: int, seconds: float | None = None) -> tuple[keras.Model, list]:
    """Train a new network, for so many steps or seconds; return it, and its curve."""
    keras.utils.set_random_seed(1)
    model, batch = Poisson(), STEPS_PER_CALL[name]
    model.compile(optimizer, steps_per_execution=batch)
    points = collocation_points()
    model(points)
    epoch = tf.data.Dataset.from_tensors((points,)).repeat(batch)
    warm_up(model, epoch, batch)
    curve = Curve(grid, seconds)
    model.fit(epoch, epochs=steps // batch, shuffle=False, verbose=0, callbacks=[curve])
    return model, curve.rows


def save_plot(model, curves: dict, path: pathlib.Path):
    """Draw the solution found, its error, and the errors over time."""
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 101)] * 2), -1)
    u = model.network(grid.reshape(-1, 2)).numpy().reshape(101, 101)
    off = u - solution(grid.reshape(-1, 2)).reshape(101, 101)
    figure, panels = plt.subplots(1, 3, figsize=(14, 4))
    for axes, field, title in zip(panels, (u, off), ("u of the network", "its error")):
        image = axes.imshow(field, origin="lower", extent=(0, 1, 0, 1), cmap="viridis" if field is u else "RdBu")
        axes.set_title(title)
        axes.set_xlabel("x")
        axes.set_ylabel("y")
        figure.colorbar(image, ax=axes)
    for name, rows in curves.items():
        panels[2].semilogy(*zip(*rows), label=name)
    panels[2].set_title("error by time")
    panels[2].set_xlabel("seconds of training")
    panels[2].set_ylabel("root mean square error of u")
    panels[2].legend()
    figure.tight_layout()
    save_figure(figure, path)


def main(arguments: list[str] | None = None) -> dict[str, list]:
    """Train both ways; return the curves of (seconds, error)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150, help="steps of Levenberg-Marquardt")
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="where to draw")
    options = parser.parse_args(arguments)
    grid = tf.constant(np.random.default_rng(0).uniform(size=(9000, 2)))
    model, ours = train("Levenberg–Marquardt", tfjac.LevenbergMarquardt(), grid, options.steps)
    _, adams = train("Adam", keras.optimizers.Adam(1e-3), grid, 10**7, seconds=ours[-1][0])
    curves = {"Levenberg–Marquardt": ours, "Adam": adams}
    for name, rows in curves.items():
        print(f"{name:20s} {rows[-1][0]:6.1f} s   error {rows[-1][1]:.1e}")
    save_plot(model, curves, options.plot)
    print(f"plot: {options.plot}")
    return curves


if __name__ == "__main__":
    main()
