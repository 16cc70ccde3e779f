"""Find where a camera stands from points that it sees, with the geometry of tensorflow-graphics.

    python examples/16_camera_pose.py [--plot FILE.png]

A camera sees the 27 corners of a lattice, with half a pixel of noise. Its pose has six numbers: a rotation as axis
times angle, and a translation. The residuals are written with tensorflow-graphics: `axis_angle.rotate` turns the
points, and `perspective.project` projects them. `least_squares` finds the pose, with standard errors. Then a thousand
cameras are found in one call with `batch_dims=1`. Their errors are as large as the standard errors say.

tensorflow-graphics is installed by `pip install --no-deps tensorflow-graphics`.
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
from tensorflow_graphics.geometry.transformation import axis_angle
from tensorflow_graphics.rendering.camera import perspective

import tfjac

NOISE = 0.5  # pixels
FOCAL, CENTRE = np.array([800.0, 800.0]), np.array([320.0, 240.0])
LATTICE = np.stack(np.meshgrid(*3 * [np.linspace(-1.0, 1.0, 3)]), axis=-1).reshape(-1, 3)
PLOT = pathlib.Path(__file__).parent / "plots" / "16_camera_pose.png"


def project(pose):
    """Return where cameras of poses `[..., 6]` see the lattice, in pixels, `[..., 27, 2]`."""
    turn, shift = pose[..., None, :3], pose[..., None, 3:]
    angle = tf.sqrt(tf.reduce_sum(turn**2, axis=-1, keepdims=True) + 1e-30)
    lattice = tf.zeros_like(turn) + LATTICE
    axis, angle = tf.broadcast_to(turn / angle, tf.shape(lattice)), tf.broadcast_to(angle, tf.shape(lattice[..., :1]))
    return perspective.project(axis_angle.rotate(lattice, axis, angle) + shift, FOCAL, CENTRE)


def make_cameras(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return true poses `[number, 6]`, and what the cameras see of the lattice, with noise, `[number, 27, 2]`."""
    rng = np.random.default_rng(0)
    poses = np.hstack([rng.uniform(-0.6, 0.6, [number, 3]), rng.uniform([-0.5, -0.5, 6], [0.5, 0.5, 9], [number, 3])])
    return poses, project(tf.constant(poses)).numpy() + NOISE * rng.normal(size=[number, len(LATTICE), 2])


def find_one(seen: np.ndarray):
    """Return the result for one camera, from a guess that looks straight ahead."""
    pose = tf.Variable([0.0, 0.0, 0.0, 0.0, 0.0, 7.0], dtype=tf.float64, name="pose")
    return tfjac.least_squares(lambda: (project(pose.value()) - seen) / NOISE, pose)


def find_many(seen: np.ndarray):
    """Return the result for many cameras, each a fit by itself, in one call."""
    poses = tf.Variable(np.tile([0.0, 0.0, 0.0, 0.0, 0.0, 7.0], [len(seen), 1]), name="poses")
    return tfjac.least_squares(lambda pose, seen: (project(pose) - seen) / NOISE, poses, args=(seen,), batch_dims=1)


def save_plot(seen: np.ndarray, pose: np.ndarray, scores: np.ndarray, path: pathlib.Path) -> None:
    """Draw one image with what the start and the pose found project to, and the errors of all poses."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 4.2), layout="constrained")
    start = project(tf.constant([0.0, 0.0, 0.0, 0.0, 0.0, 7.0], tf.float64)).numpy()
    left.plot(*start.T, "x", color="C7", label="by the first guess")
    left.plot(*seen.T, "o", color="black", markerfacecolor="none", markersize=8, label="seen")
    left.plot(*project(tf.constant(pose)).numpy().T, ".", color="C3", label="by the pose found")
    left.set(xlim=(0, 640), ylim=(480, 0), xlabel="x / pixel", ylabel="y / pixel", aspect="equal", title="one camera")
    grid = np.linspace(-4.0, 4.0, 200)
    right.hist(
        scores.ravel(), bins=60, range=(-4.0, 4.0), density=True, color="C0", label="all cameras, six numbers each"
    )
    right.plot(grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), color="C3", label="normal distribution")
    right.set(xlabel="error / standard error", ylabel="density", title=f"{len(scores):,} cameras")
    for axes in (left, right):
        axes.legend(loc="upper left", fontsize=8)
    save_figure(figure, path)


def main(arguments: list[str] | None = None) -> np.ndarray:
    """Find the poses, print, draw; return the errors of all poses in units of their standard errors, `[cameras, 6]`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cameras", type=int, default=1000, help="how many")
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="where to draw")
    options = parser.parse_args(arguments)
    truth, seen = make_cameras(options.cameras)
    result = find_one(seen[0])
    print(f"{result}\n\nthe truth: {np.array2string(truth[0], precision=4)}\n")
    start = time.perf_counter()
    found = find_many(seen)
    print(f"{len(seen):,} cameras in {time.perf_counter() - start:.1f} s, tracing included\n{found}")
    scores = (found.x - truth) / found.standard_errors()
    print(f"{np.mean(np.abs(scores) < 2):.1%} of the numbers are within two standard errors (Student's t: 94.9 %)")
    save_plot(seen[0], result.x, scores, options.plot)
    print(f"plot: {options.plot}")
    return scores


if __name__ == "__main__":
    main()
