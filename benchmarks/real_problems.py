"""Published problems as `tfjac.least_squares` takes them: residuals, variables, options.

A bundle, a pose graph in space, a car in a park with trees as landmarks, and a lawn mower that hears radio beacons. The
files, and where they come from, are in `benchmarks/data`.
"""

import functools
import gzip
import pathlib
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import tfjac
from benchmarks.bundle import project

DATA = pathlib.Path(__file__).parent / "data"

BEARING, RANGE = np.sqrt(0.04), np.sqrt(0.4)
"""Deviations of what is seen of a landmark, radians and metres: what GTSAM makes of the covariances in the file."""
ODOMETRY = np.array([0.01, 0.002, 0.002])
STREETS = 1 / np.array([3.16228, 3.16228, 5.0])
MOWER, BEACON_RANGE, BEACON_RANGE_ROBUST = np.array([0.05, 0.01, 0.2]), 100.0, 15.0


class Problem(NamedTuple):
    """What `tfjac.LeastSquaresProblem(residuals, variables, **options)` takes."""

    residuals: Any
    variables: list
    options: dict


def text_of(name):
    """Return what is in a file of the data."""
    return gzip.decompress((DATA / name).read_bytes()).decode()


def wrap(angle):
    """Return an angle between −π and π."""
    return tf.atan2(tf.sin(angle), tf.cos(angle))


def compose(pose, move):
    """Return where a move leads to from a pose, both `(x, y, angle)`."""
    cosine, sine = np.cos(pose[2]), np.sin(pose[2])
    return pose + [cosine * move[0] - sine * move[1], sine * move[0] + cosine * move[1], move[2]]


def moves_between(poses, before, after, measured, deviations):
    """Return the residuals `[n, 3]` of moves between poses of the plane: log(measured⁻¹·move).

    The logarithm of SE(2) is what GTSAM 4.3 takes, with the inverse V⁻¹ of what its exponential does to places.
    """
    one, other = tf.gather(poses, before), tf.gather(poses, after)
    way, angle = other[:, :2] - one[:, :2], one[:, 2]
    x = tf.cos(angle) * way[:, 0] + tf.sin(angle) * way[:, 1] - measured[:, 0]
    y = tf.cos(angle) * way[:, 1] - tf.sin(angle) * way[:, 0] - measured[:, 1]
    cosine, sine = np.cos(measured[:, 2]), np.sin(measured[:, 2])
    x, y = cosine * x + sine * y, cosine * y - sine * x
    turn = wrap(other[:, 2] - angle - measured[:, 2])
    half, cotangent = turn / 2, half_by_its_tangent(turn / 2)
    return tf.stack([cotangent * x + half * y, cotangent * y - half * x, turn], 1) / deviations


def half_by_its_tangent(half):
    """Return h / tan h, with its derivative at zero."""
    small = tf.abs(half) < 1e-2
    safe = tf.where(small, tf.ones_like(half), half)
    return tf.where(small, 1 - half**2 / 3 - half**4 / 45, safe / tf.tan(safe))


class Park(NamedTuple):
    """What a car in Victoria Park measured, with rows of poses and trees in the order in which they come up.

    Attributes:
        before, after, moves: `[n]`, `[n]`, `[n, 3]`, which poses a move is between, and how it goes by odometry.
        seen_from, tree, bearing, distance: `[m]`, from which pose which tree is seen, and where.
    """

    before: np.ndarray
    after: np.ndarray
    moves: np.ndarray
    seen_from: np.ndarray
    tree: np.ndarray
    bearing: np.ndarray
    distance: np.ndarray

    def until(self, poses):
        """Return what was measured by the first `poses` poses alone."""
        driven, seen = self.after < poses, self.seen_from < poses
        return Park(*(each[driven] for each in self[:3]), *(each[seen] for each in self[3:]))

    def start(self, poses, trees):
        """Return poses and trees with new ones added: by odometry, and where they are seen first."""
        poses, trees = list(poses), list(trees)
        for one, move in zip(self.before[len(poses) - 1 :], self.moves[len(poses) - 1 :]):
            poses.append(compose(poses[one], move))
        for one, tree, bearing, distance in zip(*self[3:]):
            if tree == len(trees):
                way = [distance * np.cos(bearing), distance * np.sin(bearing), 0.0]
                trees.append(compose(poses[one], way)[:2])
        return np.array(poses), np.array(trees)

    def problem(self, poses, trees):
        """Return the problem with arrays of poses and trees as its start."""
        poses, trees = tf.Variable(poses), tf.Variable(trees)

        def residuals():
            pose = tf.gather(poses, self.seen_from)
            way = tf.gather(trees, self.tree) - pose[:, :2]
            turn = wrap(tf.atan2(way[:, 1], way[:, 0]) - pose[:, 2] - self.bearing)
            sights = tf.stack([turn / BEARING, (tf.norm(way, axis=1) - self.distance) / RANGE], 1)
            return [moves_between(poses, self.before, self.after, self.moves, ODOMETRY), sights]

        return Problem(residuals, [poses, trees], on_the_plane(poses))


def park():
    """Return Victoria Park: 6,969 poses of a car and 151 trees, seen 3,640 times by bearing and range."""
    moves, seen, row_of_pose, row_of_tree = [], [], {0: 0}, {}
    for words in map(str.split, text_of("posegraph/victoria_park.txt.gz").splitlines()):
        kind, (one, other), numbers = words[0], map(int, words[1:3]), np.array(words[3:6], float)
        rows = row_of_pose if kind == "ODOMETRY" else row_of_tree
        other = rows.setdefault(other, len(rows))
        if kind == "ODOMETRY":
            moves.append((row_of_pose[one], other, *numbers))
        else:
            seen.append((row_of_pose[one], other, np.arctan2(numbers[1], numbers[0]), np.hypot(*numbers[:2])))
    moves, seen = np.array(moves), np.array(seen)
    return Park(*moves[:, :2].T.astype(int), moves[:, 2:], *seen[:, :2].T.astype(int), *seen[:, 2:].T)


def victoria():
    """Return Victoria Park from odometry, all of it at once."""
    whole = park()
    return whole.problem(*whole.start(np.zeros([1, 3]), []))


def on_the_plane(poses):
    """Return the options of a problem with poses of the plane, the first of which is held, and landmarks."""
    return {"manifolds": [tfjac.manifolds.SE2(), None], "fixed": [first_of(poses), None]}


def first_of(variable):
    """Return the mask of the first row of a variable."""
    mask = np.zeros(variable.shape, bool)
    mask[0] = True
    return mask


def ladybug():
    """Return the first 30 cameras of a bundle with the 5,226 points that two of them see."""
    numbers = np.array(text_of("bal/ladybug-30.txt.gz").split(), float)
    num_cameras, num_points, seen = numbers[:3].astype(int)
    table, values = numbers[3 : 3 + 4 * seen].reshape(-1, 4), numbers[3 + 4 * seen :]
    cameras = tf.Variable(values[: 9 * num_cameras].reshape(-1, 9))
    points = tf.Variable(values[9 * num_cameras :].reshape(num_points, 3))
    camera, point, place = table[:, 0].astype(int), table[:, 1].astype(int), table[:, 2:]
    return Problem(lambda: project(tf.gather(cameras, camera), tf.gather(points, point)) - place, [cameras, points], {})


def sphere():
    """Return sphere2500: 2,500 poses in space, as positions and unit quaternions, and 4,949 measurements."""
    from scipy.spatial.transform import Rotation

    table = np.loadtxt(DATA / "posegraph/sphere2500.txt.gz", usecols=range(1, 9))
    before, after, shift = table[:, 0].astype(int), table[:, 1].astype(int), table[:, 2:5]
    turn = Rotation.from_euler("xyz", table[:, 5:])
    place, pose = np.zeros((2500, 3)), [Rotation.identity()] * 2500
    for row in np.flatnonzero(after == before + 1):
        place[after[row]] = place[before[row]] + pose[before[row]].apply(shift[row])
        pose[after[row]] = pose[before[row]] * turn[row]
    positions, rotations = tf.Variable(place), tf.Variable(Rotation.concatenate(pose).as_quat())
    undone = tf.constant(turn.inv().as_quat())

    def residuals():
        one, other = tf.gather(rotations, before), tf.gather(rotations, after)
        way = turned(inverse(one), tf.gather(positions, after) - tf.gather(positions, before)) - shift
        rest = times(undone, times(inverse(one), other))
        angle = 2 * rest[:, :3] * tf.sign(rest[:, 3:])
        return tf.concat([angle * np.sqrt([100.0, 100.0, 25.0]), turned(undone, way) * np.sqrt(10.0)], 1)

    held = np.zeros([2500, 1], bool)
    held[0] = True
    manifolds = [None, tfjac.manifolds.Quaternion()]
    return Problem(residuals, [positions, rotations], {"manifolds": manifolds, "fixed": [held, held]})


def city():
    """Return w20000: 20,061 poses of the plane on a grid of streets, from odometry, and 26,831 measurements."""
    table = np.loadtxt(DATA / "posegraph/w20000.txt.gz")
    before, after, moves = table[:, 0].astype(int), table[:, 1].astype(int), table[:, 2:]
    path = [np.zeros(3)]
    for move in moves[after == before + 1]:
        path.append(compose(path[-1], move))
    poses = tf.Variable(np.array(path))
    options = {"manifolds": [tfjac.manifolds.SE2()], "fixed": [first_of(poses)]}
    return Problem(lambda: moves_between(poses, before, after, moves, STREETS), [poses], options)


def times(one, other):
    """Return the product of quaternions `[n, 4]`, scalar last."""
    (u, a), (v, b) = ((q[:, :3], q[:, 3:]) for q in (one, other))
    vector = a * v + b * u + tf.linalg.cross(u, v)
    return tf.concat([vector, a * b - tf.reduce_sum(u * v, 1, keepdims=True)], 1)


def inverse(quaternion):
    """Return the inverse of unit quaternions."""
    return quaternion * tf.constant([-1.0, -1.0, -1.0, 1.0], quaternion.dtype)


def turned(quaternion, vector):
    """Return vectors `[n, 3]` turned by unit quaternions `[n, 4]`."""
    twice = 2 * tf.linalg.cross(quaternion[:, :3], vector)
    return vector + quaternion[:, 3:] * twice + tf.linalg.cross(quaternion[:, :3], twice)


def plaza(robust=False):
    """Return Plaza 2: 4,091 poses of a lawn mower and four beacons, of which 1,816 distances are known."""
    drive, heard = (np.loadtxt(DATA / f"posegraph/Plaza2_{kind}.txt.gz") for kind in ("DR", "TD"))
    path = [np.array([-34.2086489999201, 45.3007639991120, -2.02108900000000])]
    for _, distance, turn in drive:
        path.append(compose(path[-1], [distance, 0.0, turn]))
    at = {1: (-68.9265, 18.3778), 6: (-37.5805, 69.2278), 0: (-33.6205, 26.9678), 5: (1.7095, -5.8122)}
    which = np.array([list(at).index(int(name)) for name in heard[:, 2]])
    where = np.minimum(np.searchsorted(drive[:, 0], heard[:, 0]), len(drive))
    poses, beacons = tf.Variable(np.array(path)), tf.Variable(np.array(list(at.values())))
    before, measured = np.arange(len(drive)), np.stack([drive[:, 1], 0 * drive[:, 1], drive[:, 2]], 1)

    def residuals():
        way = tf.gather(beacons, which) - tf.gather(poses, where)[:, :2]
        distance = (tf.norm(way, axis=1) - heard[:, 3]) / (BEACON_RANGE_ROBUST if robust else BEACON_RANGE)
        return [moves_between(poses, before, before + 1, measured, MOWER), distance]

    options = on_the_plane(poses) | ({"loss": [None, "tukey"]} if robust else {})
    return Problem(residuals, [poses, beacons], options)


PROBLEMS = {
    "ladybug-30": ladybug,
    "victoria_park": victoria,
    "sphere2500": sphere,
    "w20000": city,
    "plaza2": plaza,
    "plaza2, Tukey": functools.partial(plaza, robust=True),
}
