"""Poses of the plane on SE(2): beside the exponential of matrices, beside SciPy, and a chain that turns as a whole."""

import itertools

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import tensorflow as tf

from tfjac.manifolds import SE2
from tfjac.optimizers import least_squares


def matrix(pose):
    """The pose `[3]` as a matrix that moves points of the plane."""
    x, y, angle = pose
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, -sine, x], [sine, cosine, y], [0.0, 0.0, 1.0]])


def twist(delta):
    """The element of the Lie algebra of δ `[3]`."""
    x, y, turn = delta
    return np.array([[0.0, -turn, x], [turn, 0.0, y], [0.0, 0.0, 0.0]])


def test_steps_are_those_of_the_exponential_of_matrices(rng):
    poses = rng.normal(size=(40, 3)) * [5.0, 5.0, 3.0]
    steps = rng.normal(size=(40, 3)) * np.geomspace(1e-9, 3.0, 40)[:, None]
    steps[:3, 2] = 0.0
    moved = SE2().plus(tf.constant(poses), tf.constant(steps)).numpy()
    for pose, step, after in zip(poses, steps, moved):
        np.testing.assert_allclose(matrix(after), matrix(pose) @ scipy.linalg.expm(twist(step)), atol=1e-13)
    np.testing.assert_allclose(moved[:, 2], poses[:, 2] + steps[:, 2], rtol=1e-14)


@pytest.mark.by_day(None)
def test_derivatives_at_rest(rng):
    poses = rng.normal(size=(6, 3))
    along = SE2().basis(tf.constant(poses)).numpy()
    for pose, found in zip(poses, along):
        expected = scipy.linalg.block_diag(matrix(pose)[:2, :2], 1.0)
        np.testing.assert_allclose(found, expected, atol=1e-14)


def measured(poses, rng, noise):
    """Moves `[n − 1, 3]` from pose to pose, in the frame of the first of two, with noise."""
    moves = [np.linalg.inv(matrix(one)) @ matrix(other) for one, other in itertools.pairwise(poses)]
    moves = np.array([[*move[:2, 2], np.arctan2(move[1, 0], move[0, 0])] for move in moves])
    return moves + noise * rng.normal(size=moves.shape)


def residuals_of(moves, ends):
    """Return residuals of poses: moves, and where the first pose and the last one are."""

    def residuals(poses):
        here, there = poses[:-1], poses[1:]
        x, y, turn = tf.unstack(there - here, axis=1)
        cosine, sine = tf.cos(here[:, 2]), tf.sin(here[:, 2])
        turn -= moves[:, 2]
        way = tf.stack([cosine * x + sine * y, cosine * y - sine * x, tf.atan2(tf.sin(turn), tf.cos(turn))], axis=1)
        ahead = np.concatenate([moves[:, :2], 0.0 * moves[:, 2:]], axis=1)
        return [10.0 * (way - ahead), tf.gather(poses, [0, len(moves)]) - ends]

    return residuals


@pytest.mark.by_day(None)
def test_a_chain_of_moves_beside_scipy(rng):
    truth = np.cumsum(np.tile([0.9, 0.1, 0.3], [12, 1]), axis=0)
    moves = measured(truth, rng, 0.05)
    start, residuals = truth + 0.2 * rng.normal(size=truth.shape), residuals_of(moves, truth[[0, -1]])
    poses = tf.Variable(start)

    @tf.function
    def flat(x):
        return tf.concat([tf.reshape(part, [-1]) for part in residuals(tf.reshape(x, [12, 3]))], axis=0)

    exactly = {"xtol": 1e-12, "ftol": 1e-12, "gtol": 1e-12}
    other = scipy.optimize.least_squares(lambda x: flat(x).numpy(), start.ravel(), **exactly)
    for solver in ("auto", "sparse"):
        poses.assign(start)
        found = least_squares(residuals, poses, manifolds=SE2(), solver=solver, ftol=0, xtol=1e-10)
        assert found.success and abs(found.cost - other.cost) < 1e-9 * other.cost, found
        np.testing.assert_allclose(found.x.ravel(), other.x, atol=1e-6)
    covariance = np.linalg.inv(other.jac.T @ other.jac) * 2 * other.cost / (other.jac.shape[0] - 36)
    np.testing.assert_allclose(found.covariance(), covariance, rtol=1e-3, atol=1e-8)


def test_a_chain_that_turns_as_a_whole_stays_as_it_is(rng):
    """One twist of the world, written in the frame of each pose, leads where one motion of the plane does."""
    chain = np.cumsum(np.tile([0.9, 0.1, 0.3], [30, 1]), axis=0)
    world = twist([0.3, -2.0, 1.2])
    own = [np.linalg.inv(matrix(pose)) @ world @ matrix(pose) for pose in chain]
    steps = np.array([[step[0, 2], step[1, 2], step[1, 0]] for step in own])
    moved = SE2().plus(tf.constant(chain), tf.constant(steps)).numpy()
    np.testing.assert_allclose(measured(moved, rng, 0.0), measured(chain, rng, 0.0), atol=1e-12)


def test_starts_that_are_not_finite_are_refused():
    poses = tf.Variable([[0.0, 1.0, np.nan]], dtype=tf.float64)
    with pytest.raises(ValueError, match=r"Poses must start from finite numbers.*NaN"):
        least_squares(lambda: poses - 1.0, poses, manifolds=SE2())
