"""Exact fits on manifolds: about as many steps as in plain numbers, and success. The oracle is the graph's truth."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac.optimizers import least_squares

N = 12


def wrapped(angle):
    return tf.atan2(tf.sin(angle), tf.cos(angle))


def truth():
    """Poses `[x, y, angle]` along a bent line."""
    rng = np.random.default_rng(3)
    angles = np.cumsum(rng.uniform(-0.4, 0.4, N))
    places = np.cumsum(np.stack([np.cos(angles), np.sin(angles)], 1), axis=0)
    return np.concatenate([places, angles[:, None]], axis=1)


EDGES = np.array([(k, k + 1) for k in range(N - 1)] + [(k, k + 3) for k in range(0, N - 3, 2)])


def relative(poses):
    """The second pose of each edge as seen from the first, `[edges, 3]`."""
    a, b = tf.gather(poses, EDGES[:, 0]), tf.gather(poses, EDGES[:, 1])
    d, c, s = b[:, :2] - a[:, :2], tf.cos(a[:, 2]), tf.sin(a[:, 2])
    return tf.stack([c * d[:, 0] + s * d[:, 1], c * d[:, 1] - s * d[:, 0], b[:, 2] - a[:, 2]], axis=1)


def fitted(manifolds):
    known = tf.constant(truth())
    measured = relative(known)
    start = truth() + 0.1 * np.random.default_rng(4).normal(size=[N, 3])
    poses = tf.Variable(start)

    def residuals():
        rest = relative(poses) - measured
        first = poses[0] - known[0]
        rest = tf.concat([rest, first[None]], axis=0)
        return tf.concat([rest[:, :2], wrapped(rest[:, 2:])], axis=1)

    result = least_squares(residuals, poses, manifolds=manifolds)
    return result, poses.numpy()


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("manifolds", [None, tfjac.manifolds.SE2()], ids=["plain", "SE2"])
def test_a_graph_without_noise_ends_soon(manifolds):
    result, poses = fitted(manifolds)
    assert result.success and result.cost < 1e-20
    assert result.steps <= 9
    rest = poses - truth()
    np.testing.assert_allclose(rest[:, :2], 0, atol=1e-8)
    np.testing.assert_allclose(np.sin(rest[:, 2]), 0, atol=1e-8)
    assert result.steps <= fitted(None)[0].steps + 3
