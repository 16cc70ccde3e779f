"""Fit a decay in every pixel of a stack of images: a map of relaxation times, with the error of each.

    python examples/13_relaxation_map.py [--side N] [--plot FILE.png]

Sixteen echoes of a made-up head are measured with noise by a detector that saturates. Each pixel is a fit by itself:
S(t) = S₀ exp(-t/T₂), within physical bounds, by the echoes of it that are not saturated, weighted by their noise. All
pixels go at once; where there is nothing but noise, the errors say so.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import pathlib
import time

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from example_figures import save_figure

import tfjac

TIMES = np.linspace(10.0, 160.0, 16)  # milliseconds
NOISE = np.where(TIMES < 80, 0.02, 0.01)  # later echoes are averaged from four
SATURATION = 0.9
PLOT = pathlib.Path(__file__).parent / "plots" / "13_relaxation_map.png"
ELLIPSES = [  # centre, half axes, S₀ and T₂: one drawn over the other
    ((0.0, 0.0), (0.92, 0.78), 0.8, 110.0),
    ((0.0, 0.0), (0.82, 0.68), 0.9, 75.0),
    ((-0.1, -0.25), (0.35, 0.15), 1.2, 160.0),
    ((-0.1, 0.25), (0.35, 0.15), 1.2, 160.0),
    ((0.45, 0.0), (0.15, 0.2), 1.0, 35.0),
]


def truth(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Return S₀ and T₂ of each pixel, `[side, side]`; S₀ is zero outside of the head."""
    along = np.linspace(-1, 1, side)
    y, x = np.meshgrid(along, along, indexing="ij")
    size, decay = np.zeros([side, side]), np.full([side, side], np.nan)
    for (top, left), (height, width), of_size, of_decay in ELLIPSES:
        inside = ((y - top) / height) ** 2 + ((x - left) / width) ** 2 < 1
        size[inside], decay[inside] = of_size, of_decay
    return size, decay


def measure(size: np.ndarray, decay: np.ndarray) -> np.ndarray:
    """Return the echoes `[side, side, 16]`, with noise, cut off where the detector saturates."""
    rng = np.random.default_rng(0)
    signal = size[..., None] * np.exp(-TIMES / np.nan_to_num(decay, nan=1.0)[..., None])
    return np.minimum(signal + NOISE * rng.normal(size=signal.shape), SATURATION).astype(np.float32)


def residuals(parameters, echoes, kept):
    """What is left of the echoes of each pixel, in units of their noise; zero where they do not count."""
    size, decay = parameters[:, :1], parameters[:, 1:]
    left = (size * tf.exp(-tf.constant(TIMES, tf.float32) / decay) - echoes) / tf.constant(NOISE, tf.float32)
    return tf.where(kept, left, tf.zeros_like(left))


def save_plot(maps: dict[str, tuple], path: pathlib.Path):
    """Draw maps: for each title an image, and the largest value to be told apart."""
    figure, panels = plt.subplots(1, len(maps), figsize=(4 * len(maps), 4))
    for axes, (title, (image, largest)) in zip(panels, maps.items(), strict=True):
        drawn = axes.imshow(image, vmin=0, vmax=largest)
        axes.set(title=title, xticks=[], yticks=[])
        figure.colorbar(drawn, ax=axes, shrink=0.8)
    figure.tight_layout()
    save_figure(figure, path)


def main(arguments: list[str] | None = None) -> dict[str, np.ndarray]:
    """Fit, print, draw; return for the pixels of the head the errors, in units of what the fit says they should be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=192, help="pixels along each side")
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="where to draw")
    options = parser.parse_args(arguments)
    size, decay = truth(options.side)
    echoes = measure(size, decay).reshape(-1, TIMES.size)
    kept = echoes < SATURATION
    parameters = tf.Variable(np.tile(np.float32([0.5, 60.0]), [len(echoes), 1]))
    start = time.perf_counter()
    found = tfjac.least_squares(
        residuals, parameters, args=(echoes, kept), batch_dims=1, bounds=([0.0, 5.0], [5.0, 500.0])
    )
    print(f"{len(echoes):,} pixels in {time.perf_counter() - start:.1f} s, tracing included\n{found}")

    shape = size.shape
    deviation, in_head = found.standard_errors()[:, 1].reshape(shape), size > 0
    found_decay = found.x[:, 1].reshape(shape)
    known = in_head & np.isfinite(deviation)
    scores = (found_decay - decay)[known] / deviation[known]
    print(f"of {in_head.sum():,} pixels of the head {known.sum():,} are determined; the T₂ of", end=" ")
    print(f"{np.mean(np.abs(scores) < 2):.1%} of them are within two standard errors (Student's t: 93.5 %)")
    maps = {
        "T₂, ms": (np.where(in_head, found_decay, np.nan), 180),
        "the truth": (decay, 180),
        "standard error of T₂, ms": (np.where(in_head, deviation, np.nan), 10),
        "echoes that count": (kept.sum(axis=1).reshape(shape), TIMES.size),
    }
    save_plot(maps, options.plot)
    print(f"plot: {options.plot}")
    return {"scores": scores, "known": known[in_head]}


if __name__ == "__main__":
    main()
