"""Draw the picture of the home page from data that are shipped: a training, a curve fit, a Jacobian of each example.

python -m build_tools.site.home_picture  # docs/images/home.png, in half a minute
"""

import pathlib
import sys
from typing import Any

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

import tfjac
from tfjac import models

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLUE, ORANGE = "#1f6fb4", "#d9822b"
INPUTS = ("buoyancy", "prismatic coeff.", "length/displ.", "beam/draught", "length/beam", "speed")


def network() -> keras.Model:
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(16, "tanh"), keras.layers.Dense(1)])


def training(axes: plt.Axes, x: np.ndarray, y: np.ndarray) -> keras.Model:
    """Train by both optimizers, the same number of epochs over all data; return the network of Levenberg–Marquardt."""
    trained = {}
    for name, optimizer, colour in (
        ("Adam", keras.optimizers.Adam(0.01), ORANGE),
        ("Levenberg–Marquardt", tfjac.LevenbergMarquardt(), BLUE),
    ):
        model = trained[name] = network()
        model.compile(optimizer=optimizer, loss="mse")
        history = model.fit(x, y, batch_size=len(x), epochs=100, verbose=0).history["loss"]
        axes.semilogy(np.arange(1, 101), history, color=colour, lw=2, label=name)
    axes.set(title="optimizer in compile", xlabel="epochs", ylabel="training loss (yachts)")
    axes.legend(frameon=False)
    return trained["Levenberg–Marquardt"]


def sensitivities(axes: plt.Axes, model: keras.Model, x: np.ndarray) -> None:
    """Draw the Jacobian of each prediction, in the order of the speeds."""

    @tf.function
    def jacobian(x):
        return tfjac.batch_jacobian(model(x), x)[:, 0, :]

    order = np.argsort(x[:, 5], kind="stable")
    found = jacobian(tf.constant(x[order])).numpy()
    reach = np.quantile(np.abs(found), 0.98)
    image = axes.imshow(found.T, aspect="auto", cmap="RdBu_r", vmin=-reach, vmax=reach, interpolation="nearest")
    axes.set(title="Jacobians in tf.function", xlabel="yachts, slow to fast", yticks=range(6), yticklabels=INPUTS)
    axes.figure.colorbar(image, ax=axes, label="∂ resistance / ∂ input")


def peaks(axes: plt.Axes, data: Any) -> None:
    """Fit NIST's Gauss2, `data`."""
    model = models.exponential(prefix="decay") + models.gaussian(prefix="left_") + models.gaussian(prefix="right_")
    fit = model.fit(data.x, data.y)
    axes.plot(data.x, data.y, ".", color="0.6", ms=3, label="Gauss2 of NIST")
    axes.plot(data.x, fit.predict(), color=BLUE, lw=2, label="fit")
    for k, part in enumerate(fit.components().values()):
        axes.plot(data.x, part, "--", color=ORANGE, lw=1.2, label=None if k else "its parts")
    value, error = fit.values["left_center"], fit.standard_errors()["left_center"]
    axes.set(title="curve fits", xlabel=f"left peak at {value:.2f} ± {error:.2f}", ylabel="counts", ylim=(-5, 175))
    axes.legend(frameon=False)


def main() -> None:
    sys.path.insert(0, str(ROOT / "examples"))
    import example_data

    plt.switch_backend("Agg")
    table = example_data.load_yacht()
    x, y = table.x_train, table.y_train
    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    model = training(axes[0], x, y)
    sensitivities(axes[1], model, x)
    peaks(axes[2], example_data.load_nist("Gauss2"))
    figure.savefig(ROOT / "docs" / "images" / "home.png", dpi=120)


if __name__ == "__main__":
    main()
