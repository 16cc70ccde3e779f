"""Long paths of poses with landmarks, at the size that users have: where they end, beside SciPy's Gauss–Newton step."""

import numpy as np
import pytest
import scipy.sparse
import scipy.spatial
import tensorflow as tf

from tfjac.manifolds import SE2, Manifold, Quaternion
from tfjac.optimizers import LeastSquaresProblem, least_squares

MOVE, SIGHT = np.array([0.03, 0.03, 0.01]), 0.1
"""Standard deviations: of a move along, aside and in radians, and of where a landmark is seen, in metres."""


def seen_from(poses, places):
    """Where places `[n, 2]` are in the frames of poses `[n, 3]`."""
    way, cosine, sine = places - poses[:, :2], np.cos(poses[:, 2]), np.sin(poses[:, 2])
    return np.stack([cosine * way[:, 0] + sine * way[:, 1], cosine * way[:, 1] - sine * way[:, 0]], 1)


def relative(here, there):
    """Moves `[n, 3]` from poses to others."""
    return np.concatenate([seen_from(here, there[:, :2]), there[:, 2:] - here[:, 2:]], 1)


def place_of(pose, sight):
    """Where what a pose sees is."""
    cosine, sine = np.cos(pose[2]), np.sin(pose[2])
    return pose[:2] + [cosine * sight[0] - sine * sight[1], sine * sight[0] + cosine * sight[1]]


class Streets:
    """A car drives up stairs of streets, ten metres each, sees trees beside them, and now and then knows a place again.

    Attributes:
        before, after: `[n]`, the poses that a move is between; moves: `[n, 3]`, as measured.
        viewer, tree: `[m]`, which pose sees which tree; sights: `[m, 2]`, where, as measured.
        poses, trees: by odometry, and where they are seen first: the start.
    """

    def __init__(self, poses, trees, rng, noise=1.0):
        path = np.zeros([poses, 3])
        for row in range(1, poses):
            usual = [0.0, np.pi / 2, 0.0, -np.pi / 2][row // 10 % 4] if row % 10 == 0 else 0.0
            turn = usual if rng.random() < 0.9 else rng.choice([0.0, np.pi / 2])
            path[row] = [*place_of(path[row - 1], [1.0, 0.0]), path[row - 1, 2] + turn]
        near = scipy.spatial.cKDTree(path[:, :2]).query_pairs(0.5, output_type="ndarray")
        near = near[near[:, 1] - near[:, 0] > 10]
        self.before, self.after = np.r_[: poses - 1, near[:, 0]], np.r_[1:poses, near[:, 1]]
        self.moves = relative(path[self.before], path[self.after])
        self.moves += noise * MOVE * rng.normal(size=self.moves.shape)
        places = path[rng.choice(poses, trees), :2] + 2 * rng.normal(size=[trees, 2])
        distance, nearest = scipy.spatial.cKDTree(places).query(path[:, :2])
        self.viewer = np.flatnonzero(distance < 6)
        seen, self.tree = np.unique(nearest[self.viewer], return_inverse=True)
        self.sights = seen_from(path[self.viewer], places[seen][self.tree])
        self.sights += noise * SIGHT * rng.normal(size=self.sights.shape)
        self.poses = np.zeros([poses, 3])
        for row, move in enumerate(self.moves[: poses - 1]):
            self.poses[row + 1] = [*place_of(self.poses[row], move), self.poses[row, 2] + move[2]]
        first = [np.flatnonzero(self.tree == each)[0] for each in range(len(seen))]
        self.trees = np.array([place_of(self.poses[self.viewer[each]], self.sights[each]) for each in first])

    def residuals(self, poses, trees):
        """Return a function that computes the residuals of variables."""
        dtype = tf.as_dtype(poses.dtype).as_numpy_dtype

        def frame(pose, way):
            cosine, sine = tf.cos(pose[:, 2]), tf.sin(pose[:, 2])
            return cosine * way[:, 0] + sine * way[:, 1], cosine * way[:, 1] - sine * way[:, 0]

        def residuals():
            here, there = tf.gather(poses, self.before), tf.gather(poses, self.after)
            driven = tf.stack([*frame(here, (there - here)[:, :2]), (there - here)[:, 2]], 1)
            pose = tf.gather(poses, self.viewer)
            seen = tf.stack(frame(pose, tf.gather(trees, self.tree) - pose[:, :2]), 1)
            return [
                (driven - self.moves.astype(dtype)) / MOVE.astype(dtype),
                (seen - self.sights.astype(dtype)) / SIGHT,
            ]

        return residuals

    def left(self, poses, trees):
        """Return F, and what part of it a Gauss–Newton step lowers it by, the first pose held."""
        here, there, pose = poses[self.before], poses[self.after], poses[self.viewer]
        driven, seen = relative(here, there), seen_from(pose, trees[self.tree])
        moves = [
            (3 * self.before, self._turned(here, driven, -1) / MOVE[:, None]),
            (3 * self.after, self._turned(here, 0 * driven, 1) / MOVE[:, None]),
        ]
        sights = [
            (3 * self.viewer, self._turned(pose, seen, -1)[:, :2] / SIGHT),
            (poses.size + 2 * self.tree, self._turned(pose, 0 * seen, 1)[:, :2, :2] / SIGHT),
        ]
        jacobian = scipy.sparse.vstack([self._matrix(each, poses.size + trees.size) for each in (moves, sights)])
        error = np.r_[((driven - self.moves) / MOVE).ravel(), ((seen - self.sights) / SIGHT).ravel()]
        jacobian = jacobian.tocsc()[:, 3:]
        gradient, cost = jacobian.T @ error, error @ error / 2
        return cost, gradient @ scipy.sparse.linalg.spsolve(jacobian.T @ jacobian, gradient) / 2 / cost

    @staticmethod
    def _turned(pose, seen, sign):
        """The derivatives `[n, 3, 3]` of what poses see, by places, or if sign is −1, by the poses."""
        cosine, sine, one = np.cos(pose[:, 2]), np.sin(pose[:, 2]), np.ones(len(pose))
        rows = [[cosine, sine, -seen[:, 1]], [-sine, cosine, seen[:, 0]], [0 * one, 0 * one, one]]
        return sign * np.array(rows).transpose(2, 0, 1)

    @staticmethod
    def _matrix(parts, size):
        """The sparse matrix of blocks `[n, rows, columns]`, each with the first column that it stands in."""
        total = 0
        for first, block in parts:
            number, rows, columns = block.shape
            row = np.broadcast_to(np.arange(number * rows).reshape(number, rows, 1), block.shape)
            column = np.broadcast_to(first[:, None, None] + np.arange(columns), block.shape)
            total += scipy.sparse.csr_array((block.ravel(), (row.ravel(), column.ravel())), (number * rows, size))
        return total


def solved(streets, dtype="float64", off=None, **options):
    """The result from the start of `Streets`, or from one that is `off` by so much, and the variables."""
    poses, trees = tf.Variable(streets.poses.astype(dtype)), tf.Variable(streets.trees.astype(dtype))
    if off is not None:
        poses.assign(poses + off.astype(dtype))
    held = np.zeros([len(streets.poses), 1], bool)
    held[0] = True
    options = {"manifolds": [SE2(), None], "fixed": [held, None], "max_steps": 30} | options
    return least_squares(streets.residuals(poses, trees), [poses, trees], **options), poses.numpy(), trees.numpy()


def test_the_oracle_has_the_derivatives(rng):
    streets = Streets(60, 5, rng)
    x = np.r_[streets.poses.ravel(), streets.trees.ravel()]

    def cost(values):
        return streets.left(values[:180].reshape(-1, 3), values[180:].reshape(-1, 2))[0]

    direction = rng.normal(size=x.shape)
    direction[:3] = 0.0
    x = x + 0.01 * direction
    slope = (cost(x + 1e-5 * direction) - cost(x - 1e-5 * direction)) / 2e-5
    poses, trees = tf.Variable(x[:180].reshape(-1, 3)), tf.Variable(x[180:].reshape(-1, 2))
    with tf.GradientTape() as tape:
        error = tf.concat([tf.reshape(each, [-1]) for each in streets.residuals(poses, trees)()], 0)
        ours = tf.reduce_sum(error**2) / 2
    gradient = np.concatenate([np.ravel(tf.convert_to_tensor(each)) for each in tape.gradient(ours, [poses, trees])])
    np.testing.assert_allclose([ours, gradient @ direction], [cost(x), slope], rtol=1e-6)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("dtype, near", [("float64", 1e-9), ("float32", 1e-3)])
def test_a_long_path_with_few_loops(dtype, near):
    """Along the floor of its curved valley, straight steps that never raise the cost take 188."""
    streets = Streets(1500, 100, np.random.default_rng(0))
    found, poses, trees = solved(streets, dtype)
    cost, left = streets.left(poses.astype("float64"), trees.astype("float64"))
    assert found.success and left < near
    np.testing.assert_allclose(float(found.cost), cost, rtol=1e-4)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("off", [0.0, 0.02])
def test_measurements_without_noise_are_met_to_rounding(dtype, off, rng):
    streets = Streets(1500, 100, rng, noise=0.0)
    found, _, _ = solved(streets, dtype, off * rng.normal(size=streets.poses.shape) * (np.arange(1500) > 0)[:, None])
    rounding = np.finfo(dtype).eps * np.abs(streets.poses).max() / MOVE.min()
    assert found.success and np.sqrt(2 * found.cost / len(streets.moves)) < 64 * rounding


@pytest.mark.by_day(None)
def test_rotations_alone_without_noise(rng):
    """There is nothing but tangents, which are zero wherever the points are."""
    truth = rng.normal(size=[300, 4])
    truth /= np.linalg.norm(truth, axis=1, keepdims=True)

    def times(one, other):
        (u, a), (v, b) = ((each[:, :3], each[:, 3:]) for each in (one, other))
        return tf.concat([a * v + b * u + tf.linalg.cross(u, v), a * b - tf.reduce_sum(u * v, 1, keepdims=True)], 1)

    undo = [-1.0, -1.0, -1.0, 1.0]
    turns = times(tf.constant(truth[:-1] * undo), tf.constant(truth[1:]))
    start = truth + 0.05 * rng.normal(size=truth.shape)
    rotations = tf.Variable(start / np.linalg.norm(start, axis=1, keepdims=True))

    def residuals():
        rest = times(turns * undo, times(rotations[:-1] * undo, rotations[1:]))
        return [2 * rest[:, :3] * tf.sign(rest[:, 3:]), rotations[:1, :3] - truth[:1, :3]]

    found = least_squares(residuals, rotations, manifolds=Quaternion())
    assert found.success and found.cost < 1e-27


NEIGHBOURS = {
    "slices": lambda x, after: x[1:] - x[:-1],
    "all of it, and rows by index": lambda x, after: tf.gather(x, after) - x,
}


@pytest.mark.by_day(None)
@pytest.mark.parametrize("read", NEIGHBOURS)
@pytest.mark.parametrize("dtype, near", [("float64", 1e-7), ("float32", 1e-3)])
def test_what_is_read_whole_is_sparse_on_a_manifold_too(dtype, near, read, rng):
    """Positive numbers that are measured each, and smooth: the minimum is one linear solution."""
    positive = Manifold(lambda x, delta: x * tf.exp(delta), 1, 1)
    number, truth = 3000, np.exp(np.sin(np.linspace(0.0, 9.0, 3000)))
    measured = truth + 0.05 * rng.normal(size=number)
    x = tf.Variable((truth * np.exp(0.3 * rng.normal(size=number)))[:, None].astype(dtype))

    def residuals():
        after = np.minimum(np.arange(number) + 1, number - 1)
        return [x - measured[:, None].astype(dtype), 5 * NEIGHBOURS[read](x, after)]

    found = least_squares(residuals, x, manifolds=positive)
    steps = scipy.sparse.diags_array([-np.ones(number - 1), np.ones(number - 1)], offsets=[0, 1], shape=(2999, 3000))
    normal = scipy.sparse.eye_array(number) + 25 * steps.T @ steps
    np.testing.assert_allclose(x[:, 0], scipy.sparse.linalg.spsolve(normal.tocsc(), measured), rtol=near)
    assert found.success and found.steps < 15
    assert LeastSquaresProblem(residuals, x, manifolds=positive).plan().solver == "sparse"


def distances(number, rng):
    """Points of the plane, which of them are near each other, and how far apart these are, with noise."""
    points = rng.uniform(0, 20, size=(number, 2))
    near = scipy.spatial.cKDTree(points).query_pairs(0.9, output_type="ndarray")
    lengths = np.linalg.norm(points[near[:, 0]] - points[near[:, 1]], axis=1)
    return points, near, lengths * (1 + 0.01 * rng.normal(size=len(near)))


@pytest.mark.by_day(None)
def test_single_precision_ends_where_double_does():
    """Of a start a thousand times as high, steps that promise much more than is left look short in float32."""
    rng, ends = np.random.default_rng(1), []
    points, near, lengths = distances(2500, rng)
    known = rng.choice(2500, 150, replace=False)
    start = points + 0.3 * rng.normal(size=points.shape)
    for dtype in ("float64", "float32"):
        x = tf.Variable(start.astype(dtype))

        def residuals(x=x, dtype=dtype):
            way = tf.gather(x, near[:, 0]) - tf.gather(x, near[:, 1])
            length = tf.sqrt(tf.reduce_sum(way**2, 1) + 1e-12)
            fixed = tf.gather(x, known) - points[known].astype(dtype)
            return [100 * (length - lengths.astype(dtype)), 100 * fixed, 1e-3 * (x - start.astype(dtype))]

        ends.append(least_squares(residuals, x, max_steps=200, solver="sparse"))
    assert all(end.success for end in ends)
    assert float(ends[1].cost) < 1.001 * float(ends[0].cost)
