"""Sparse structure: bundle adjustment, where each residual reads one camera and one point."""

import tensorflow as tf

import tfjac
from benchmarks import bundle_scenes
from benchmarks.floors import Floor
from benchmarks.least_squares import installed
from benchmarks.questions import Case, question

CLOSE = 1 + 1e-5
"""What is to be reached, as a multiple of the cost at which GTSAM ends."""


@question("bundle")
def bundle_adjustment(quick: bool):
    """Bundle adjustment from one start to the cost at which GTSAM ends, against GTSAM and SciPy."""
    yield _case(*((10, 60, 200) if quick else (12, 600, 2_400)), with_scipy=True)
    if not quick:
        yield _case(49, 7_776, 31_843, with_scipy=False)  # which takes SciPy three minutes


def _case(*sizes, with_scipy):
    scene = bundle_scenes.made(*sizes)
    peers = {"GTSAM": bundle_scenes.gtsam_adjustment(scene)} if installed("gtsam") else {}
    end, _ = peers["GTSAM"]() if peers else tfjac_adjustment(scene)(None)
    if with_scipy:
        peers["SciPy, trf, sparse differences"] = bundle_scenes.scipy_adjustment(scene)
    candidates = {
        "tfjac": tfjac_adjustment(scene),
        "tfjac, XLA": tfjac_adjustment(scene, jit_compile=True),
        **peers,
    }
    return Case(
        "{} cameras, {:,} points, {:,} observations, float64".format(*sizes),
        {name: lambda adjust=adjust: adjust(end * CLOSE)[0] for name, adjust in candidates.items()},
        floor(scene),
        {"GTSAM": 2.0},
        tolerance=1e-4,
    )


def floor(scene) -> Floor:
    """Ten factorisations of the cameras' equations, and as many of the products that form them."""
    n, c = len(scene.seen), scene.cameras.size
    return Floor(flops=10 * (c**3 / 3 + 2 * n * 2 * (9 + 3) ** 2), dtype="float64")


def tfjac_adjustment(scene, **options):
    """Return a function from a cost to reach to the cost and the steps of tfjac; None: until it ends by itself."""
    cameras, points = tf.Variable(scene.cameras), tf.Variable(scene.points)
    seen = tf.constant(scene.seen)

    def residuals():
        return project(tf.gather(cameras, scene.camera_of), tf.gather(points, scene.point_of)) - seen

    goal = [0.0]
    problem = tfjac.LeastSquaresProblem(
        residuals, [cameras, points], callback=lambda state: state.cost <= goal[0], **options
    )

    def adjust(target):
        goal[0] = target or 0.0
        cameras.assign(scene.cameras)
        points.assign(scene.points)
        found = problem.solve()
        return found.cost, found.steps

    return adjust


def project(cameras, points):
    """Return where cameras `[n, 9]` see points `[n, 3]`, as `bundle_scenes.project` does."""
    turn, shift, lens = tf.split(cameras, [3, 3, 3], axis=1)
    angle = tf.sqrt(tf.reduce_sum(turn * turn, axis=1, keepdims=True))
    axis = turn / angle
    along = axis * tf.reduce_sum(axis * points, axis=1, keepdims=True)
    moved = along + (points - along) * tf.cos(angle) + tf.linalg.cross(axis, points) * tf.sin(angle) + shift
    image = -moved[:, :2] / moved[:, 2:]
    square = tf.reduce_sum(image * image, axis=1, keepdims=True)
    return lens[:, :1] * (1 + lens[:, 1:2] * square + lens[:, 2:] * square * square) * image
