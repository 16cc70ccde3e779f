"""Invert an unknown nonlinear device from noisy measurements: a Keras model trained through a black box.

    python examples/06_black_box.py [--plot FILE.png]

An amplifier bends its two channels and mixes them; there is no formula for it, it can only be measured, and each
measurement is noisy. A network in front of it is trained so that what comes out is what was meant to: the inverse of
the device, learned through the device itself, by Levenberg–Marquardt and `model.fit`. Three ways to get the
derivative of the device, each from so many more measurements, stand side by side.

The loss stays above the noise of the readings. The last lines say why: most of what is left is the error of a network
with 16 hidden units, not noise. More steps would lower it slowly, but each of them promises less than what the noise
changes the loss by, so that no reading can tell a good step from a bad one, and the steps are rejected.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import pathlib

import keras
import matplotlib.pyplot as plt
import numpy as np
from example_figures import save_figure

import tfjac

NOISE = 1e-3
STEPS = 20
RANGE = 0.6
PLOT = pathlib.Path(__file__).parent / "plots" / "06_black_box.png"
STEP = 0.05
"""Of the probes: large against the noise, small against the bends of the device."""


class Device:
    """What is measured: saturation, a ripple, and crosstalk, with noise on every reading."""

    def __init__(self, seed: int = 1):
        self.rng = np.random.default_rng(seed)

    def response(self, drive: np.ndarray) -> np.ndarray:
        """The truth, for the example to judge by; training never sees it."""
        bent = np.tanh(1.2 * drive) + 0.1 * drive + 0.05 * np.sin(4.0 * drive)
        return bent @ np.array([[1.0, 0.25], [-0.15, 0.9]])

    def measure(self, drive: np.ndarray) -> np.ndarray:
        """A reading `[n, 2]` for each drive `[n, 2]`."""
        return self.response(drive) + self.rng.normal(0.0, NOISE, drive.shape)


def ways() -> dict[str, tfjac.estimators.Estimator]:
    """The estimators."""
    e = tfjac.estimators
    return {
        "central differences": e.CentralDifferences(step=STEP),
        "SPSA, 1 probe": e.SPSA(probes=1, step=STEP),
        "Broyden's updates": e.Broyden(start=e.CentralDifferences(step=STEP)),
    }


def build_inverse() -> keras.Model:
    """A small network from the wanted output of the device to its drive."""
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(2, use_bias=False)]
    )


def train(inverse: keras.Model, device: Device, estimator, wanted: np.ndarray):
    """Train the inverse through the device; return the losses, and the box with its counts."""
    box = tfjac.external(device.measure, estimator, per_example=True, name="device")
    model = keras.Sequential([inverse, box])
    model.compile(optimizer=tfjac.LevenbergMarquardt(solver="cholesky"), loss="mse")
    history = model.fit(wanted, wanted, batch_size=len(wanted), epochs=STEPS, verbose=0)
    return history.history["loss"], box


def save_plot(losses: dict[str, list[float]], device: Device, inverses: dict[str, keras.Model], path) -> None:
    """Draw the losses, and one channel of the device before and after."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 4.0), layout="constrained")
    for name, values in losses.items():
        left.semilogy(values, label=name)
    left.axhline(NOISE**2, color="grey", linestyle="--", label="noise of the readings alone")
    left.set(xlabel="step", ylabel="mean squared error")
    left.legend()
    wanted = np.stack([np.linspace(-RANGE, RANGE, 200), np.zeros(200)], axis=1).astype("float32")
    right.plot(wanted[:, 0], device.response(wanted)[:, 0], color="grey", label="device alone")
    inverse = inverses["central differences"]
    right.plot(wanted[:, 0], device.response(inverse(wanted).numpy())[:, 0], label="behind its inverse")
    right.set(xlabel="wanted", ylabel="got")
    right.legend()
    save_figure(figure, path)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Train by each estimator; return the error of each inverse, judged without noise on points of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="where to draw")
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(0)
    wanted, others = (rng.uniform(-RANGE, RANGE, [150, 2]).astype("float32") for _ in range(2))
    truth = Device()
    alone = float(np.sqrt(np.mean((truth.response(others) - others) ** 2)))
    print(f"{'':24s}{'measured for values':>21s}{'for derivatives':>17s}{'error':>10s}")
    print(f"{'the device alone':24s}{'':38s}{alone:10.5f}")
    losses, inverses, errors = {}, {}, {"the device alone": alone}
    for name, estimator in ways().items():
        inverses[name] = build_inverse()
        losses[name], box = train(inverses[name], Device(), estimator, wanted)
        drive = inverses[name](others).numpy()
        errors[name] = float(np.sqrt(np.mean((truth.response(drive) - others) ** 2)))
        print(f"{name:24s}{box.counts.forward:21d}{box.counts.gradient:17d}{errors[name]:10.5f}")
    left = np.mean((truth.response(inverses["central differences"](wanted).numpy()) - wanted) ** 2)
    print(f"\nloss at the end, central differences: {losses['central differences'][-1]:.1e}")
    print(f"of this, the error of the network:    {left:.1e}")
    print(f"and the noise of the readings:        {NOISE**2:.1e}")
    save_plot(losses, truth, inverses, options.plot)
    print(f"plot: {options.plot}")
    return errors


if __name__ == "__main__":
    main()
