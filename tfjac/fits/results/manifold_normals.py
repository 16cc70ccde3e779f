"""Directions across manifolds, along which parameters do not move."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfjac.objective.conditions.manifolds import Manifold
from tfjac.types import Array


def normals_of(manifolds: Sequence, values: Sequence[Array]) -> Array:
    """Return an orthonormal basis `[k, p]` of the directions across manifolds, NumPy, in double precision.

    Args:
        manifolds: list of a `Manifold`, or None, for each variable.
        values: list of what the variables hold.
    """
    count, blocks, start = sum(map(np.size, values)), [], 0
    for manifold, value in zip(manifolds, values):
        if manifold is not None:
            across = _across(manifold, np.reshape(value, [-1, manifold.size]))
            blocks.append(_placed(across, start, count))
        start += np.size(value)
    return np.concatenate(blocks)


def _across(manifold: Manifold, rows: Array) -> Array:
    """Return an orthonormal basis `[n, k, size]` of what is across the manifold at each of its points `[n, size]`."""
    along = manifold.basis(tf.constant(rows)).numpy().astype(np.float64)
    return np.linalg.svd(along)[0][:, :, manifold.tangent_size :].transpose(0, 2, 1)


def _placed(across: Array, start: int, count: int) -> Array:
    """Return vectors `[n, k, size]` as `[n·k, count]`, those of the first point beginning at `start`."""
    n, k, size = across.shape
    wide = np.zeros([n, k, count])
    for point in range(n):
        place = start + point * size
        wide[point, :, place : place + size] = across[point]
    return wide.reshape(n * k, count)
