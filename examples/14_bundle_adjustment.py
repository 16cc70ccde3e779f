"""Bundle adjustment in plain TensorFlow: where cameras stood, and what they saw, from its places in their images.

    python examples/14_bundle_adjustment.py [--points N] [--plot FILE.png]

Two scenes: three photographs of Dubrovnik, and a made house that twenty cameras go around. Residuals gather the camera
and the point of each observation. tfjac reads that off the graph, eliminates the points, and factors what is left for
the cameras.

Moving, turning and scaling the whole world changes no image. The first camera is held where it is, which leaves the
scale; that is left to the damping, which takes the shortest of the steps that fit equally well.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import pathlib
import time

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from example_data import Bundle, load_bundle
from example_figures import save_figure
from scipy.spatial.transform import Rotation

import tfjac

NOISE = 0.5  # pixels
CAMERAS = 20
PLOT = pathlib.Path(__file__).parent / "plots" / "14_bundle_adjustment.png"


def project(cameras, points):
    """Return where cameras `[n, 9]` see points `[n, 3]`, `[n, 2]`: they look along their negative z axis."""
    turn, shift, lens = tf.split(cameras, [3, 3, 3], axis=1)
    angle = tf.sqrt(tf.reduce_sum(turn * turn, axis=1, keepdims=True) + 1e-30)
    axis = turn / angle
    along = axis * tf.reduce_sum(axis * points, axis=1, keepdims=True)
    moved = along + (points - along) * tf.cos(angle) + tf.linalg.cross(axis, points) * tf.sin(angle) + shift
    image = -moved[:, :2] / moved[:, 2:]
    square = tf.reduce_sum(image * image, axis=1, keepdims=True)
    return lens[:, :1] * (1 + lens[:, 1:2] * square + lens[:, 2:] * square * square) * image


def adjust(bundle: Bundle, calibrated: bool, **options) -> tuple[Bundle, list[float]]:
    """Return the bundle adjusted, and the root mean square distances in the images before and after, in pixels."""
    cameras, points = tf.Variable(bundle.cameras), tf.Variable(bundle.points)

    def residuals():
        return project(tf.gather(cameras, bundle.camera_of), tf.gather(points, bundle.point_of)) - bundle.seen

    held = np.zeros(bundle.cameras.shape, bool)
    held[0, :6] = True  # where the first camera stands, and how it is turned
    held[:, 6:] = calibrated
    problem = tfjac.LeastSquaresProblem(residuals, [cameras, points], fixed=[held, None], **options)
    print(problem.plan())
    distances, start = [_distance(residuals())], time.perf_counter()
    found = problem.solve()
    distances.append(_distance(residuals()))
    print(f"{found.message} {found.steps} steps, {time.perf_counter() - start:.1f} s")
    print(f"off by {distances[0]:.3g} pixels before, {distances[1]:.3g} after\n")
    after = Bundle(cameras.numpy(), points.numpy(), bundle.camera_of, bundle.point_of, bundle.seen)
    return after, distances


def _distance(residuals) -> float:
    return float(tf.sqrt(tf.reduce_mean(tf.reduce_sum(tf.square(residuals), axis=1))))


def house(points: int) -> Bundle:
    """Cameras in a ring around a house, each point seen by three to eight in a row, and what a rough guess knows."""
    rng = np.random.default_rng(0)
    angle = 2 * np.pi * np.arange(CAMERAS) / CAMERAS
    centres = np.stack([7 * np.cos(angle), 1.5 + 0.5 * np.cos(3 * angle), 7 * np.sin(angle)], axis=1)
    turn = Rotation.from_matrix([_towards_the_origin(centre) for centre in centres])
    lens = np.tile([900.0, -0.02, 0.002], [CAMERAS, 1])
    cameras, corners = np.hstack([turn.as_rotvec(), -turn.apply(centres), lens]), _surface(points, rng)
    counts = rng.integers(3, 9, size=points)
    point_of = np.repeat(np.arange(points), counts)
    camera_of = np.concatenate([first + np.arange(n) for first, n in zip(rng.integers(CAMERAS, size=points), counts)])
    camera_of %= CAMERAS
    seen = project(tf.constant(cameras[camera_of]), tf.constant(corners[point_of])).numpy()
    seen += NOISE * rng.normal(size=seen.shape)
    spread = np.repeat([0.03, 0.2, 30.0, 5e-3, 5e-4], [3, 3, 1, 1, 1])
    guess = cameras + spread * rng.normal(size=cameras.shape)
    guess[0, :6] = cameras[0, :6]
    return Bundle(guess, corners + 0.2 * rng.normal(size=corners.shape), camera_of, point_of, seen)


def _towards_the_origin(centre):
    """The rotation of a camera that looks at the origin, the world's y axis up."""
    back = centre / np.linalg.norm(centre)
    right = np.cross([0.0, 1.0, 0.0], back)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(back, right), back])


def _surface(points, rng):
    """Points on four walls and two halves of a roof."""
    walls, along, up = rng.integers(6, size=points), rng.uniform(-1, 1, size=points), rng.uniform(0, 1, size=points)
    side = np.where(walls % 2, 1.0, -1.0)
    height = 1.5 * up - 1
    long, short = (np.stack(part, axis=1) for part in ((1.8 * along, height, side), (1.8 * side, height, along)))
    roof = np.stack([1.8 * along, 0.5 + up, side * (1 - up)], axis=1)
    return np.select([(walls < 2)[:, None], (walls < 4)[:, None]], [long, short], roof)


def save_plot(scenes: dict[str, Bundle], path: pathlib.Path):
    """Draw the points, by their height, and the cameras, each with a line along which it looks."""
    figure = plt.figure(figsize=(6 * len(scenes), 5))
    for place, (title, scene) in enumerate(scenes.items(), start=1):
        axes = figure.add_subplot(1, len(scenes), place, projection="3d", elev=25, azim=-60)
        turn = Rotation.from_rotvec(scene.cameras[:, :3]).inv()
        centre, ahead = -turn.apply(scene.cameras[:, 3:6]), turn.apply([0.0, 0.0, -1.0])
        x, y, z = scene.points.T
        axes.scatter(x, z, y, c=y, s=1.5, vmin=-1, vmax=1.5)
        axes.quiver(*centre[:, [0, 2, 1]].T, *ahead[:, [0, 2, 1]].T, length=1.5, color="C3", linewidth=1)
        axes.scatter(*centre[:, [0, 2, 1]].T, color="C3", s=15)
        axes.set(title=title, xlim=(-7.5, 7.5), ylim=(-7.5, 7.5), zlim=(-2, 3), xticks=[], yticks=[], zticks=[])
        axes.set_box_aspect((15, 15, 5), zoom=1.3)
    figure.tight_layout()
    save_figure(figure, path)


def main(arguments: list[str] | None = None) -> dict[str, list[float]]:
    """Adjust both, print, draw; return for each the distances in the images before and after, in pixels."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=4000, help="of the house")
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="where to draw")
    options = parser.parse_args(arguments)
    distances = {}
    print("Dubrovnik, three photographs, by known lenses")
    _, distances["Dubrovnik"] = adjust(load_bundle(), calibrated=True, solver="schur")
    print(f"A house, {CAMERAS} cameras, lenses too")
    before = house(options.points)
    after, distances["house"] = adjust(before, calibrated=False)
    save_plot({"before": before, "after": after}, options.plot)
    print(f"plot: {options.plot}")
    return distances


if __name__ == "__main__":
    main()
