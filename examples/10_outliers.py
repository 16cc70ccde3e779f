"""Fit a decay to measurements with outliers: robust losses, bounds, and what the parameters are worth.

    python examples/10_outliers.py [--plot FILE.png]

A seventh of the measurements is wrong, by far, and always too high. Least squares follow them; with a robust loss they
hardly count. Both fits keep their parameters within physical bounds, and come with confidence intervals and bands.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import pathlib

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from example_figures import save_figure

import tfjac

TRUTH = {"amplitude": 2.5, "rate": 1.3, "offset": 0.5}
NOISE = 0.05
PLOT = pathlib.Path(__file__).parent / "plots" / "10_outliers.png"


def measure(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y: a decay with noise, and with outliers at a seventh of the points."""
    rng = np.random.default_rng(seed)
    x = np.linspace(0.0, 4.0, 70)
    y = TRUTH["amplitude"] * np.exp(-TRUTH["rate"] * x) + TRUTH["offset"] + NOISE * rng.normal(size=x.size)
    outliers = rng.choice(x.size, x.size // 7, replace=False)
    y[outliers] += rng.uniform(0.5, 2.0, outliers.size)
    return x, y


def decay(x, amplitude, rate, offset):
    """The model, in TensorFlow, so that its derivatives are exact."""
    return amplitude * tf.exp(-rate * x) + offset


def save_plot(fits: dict, path: pathlib.Path):
    """Draw each fit with its bands beside the truth."""
    figure, panels = plt.subplots(1, len(fits), figsize=(12, 4.5), sharey=True)
    for axes, (name, fit) in zip(panels, fits.items(), strict=True):
        tfjac.plot_fit(fit, axes)
        grid = np.linspace(0.0, 4.0, 200)
        axes.plot(grid, decay(grid, **TRUTH), "--", color="C3", label="truth", zorder=4)
        axes.set_title(name)
        axes.legend()
    figure.tight_layout()
    save_figure(figure, path)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Fit both ways; return for each the root mean square distance of its curve from the true one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="where to draw")
    options = parser.parse_args(arguments)
    x, y = measure()
    bounds = (0.0, [10.0, 5.0, 1.0])
    fits = {
        "least squares": tfjac.curve_fit(decay, x, y, p0=[1.0, 1.0, 0.1], bounds=bounds),
        "Cauchy's loss": tfjac.curve_fit(
            decay, x, y, p0=[1.0, 1.0, 0.1], bounds=bounds, loss="cauchy", loss_scale=2 * NOISE
        ),
    }
    truth, errors = decay(x, **TRUTH), {}
    for name, fit in fits.items():
        errors[name] = float(np.sqrt(np.mean((fit.predict() - truth) ** 2)))
        print(f"\n{name}: off by {errors[name]:.4f}\n{fit}")
    save_plot(fits, options.plot)
    print(f"\nplot: {options.plot}")
    return errors


if __name__ == "__main__":
    main()
