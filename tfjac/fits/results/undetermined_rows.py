"""Which rows of a table its own residuals determine: points that are seen well enough, without J being formed."""

import numpy as np

from tfjac.types import Array


def undetermined_rows(gram: Array, free: Array, precision: Array | None = None, basis: Array | None = None) -> Array:
    """Return the indices of the rows that can move in some direction without effect on the residuals that read them.

    Args:
        gram: `[rows, o, o]`, JᵀJ of each row, in the precision in which J was computed.
        free: `[rows, o]`, bool: which elements may move.
        precision: `[rows, o]`, what a prior adds to the diagonal, or None.
        basis: `[rows·q, o/q, k]`, the directions on a manifold of the q points of a row, each of which moves along all
            of its own or none; or None.

    Raises:
        ValueError: for JᵀJ that is not finite.
    """
    if not np.isfinite(gram).all():
        raise ValueError("J is not finite where the minimisation ended. Received: NaN or infinity in J of some rows")
    rounding = 64 * np.finfo(gram.dtype).eps
    gram, moves = gram.astype(np.float64), free
    if precision is not None:
        gram = gram + precision[:, :, None] * np.eye(gram.shape[1])
    if basis is not None:
        gram, moves = _along(gram, free, basis)
    diagonal = np.einsum("rii->ri", gram)
    scale = np.where(moves & (diagonal > 0), 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1)), 0)
    held = np.eye(gram.shape[1]) * ~moves[:, :, None]
    smallest = np.linalg.eigvalsh(gram * scale[:, :, None] * scale[:, None] + held)[:, 0]
    return np.flatnonzero(smallest <= rounding)


def _along(gram: Array, free: Array, basis: Array) -> tuple[Array, Array]:
    """JᵀJ of each row in the directions on a manifold, `[rows, q·k, q·k]`, and which of these may be taken."""
    rows, (size, k) = len(gram), basis.shape[1:]
    basis, points = basis.reshape(rows, -1, size, k), free.reshape(rows, -1, size)
    blocks = gram.reshape(rows, points.shape[1], size, points.shape[1], size)
    blocks = np.einsum("rqik,rqipj,rpjl->rqkpl", basis, blocks, basis)
    width = points.shape[1] * k
    return blocks.reshape(rows, width, width), np.repeat(points[:, :, 0], k, axis=1)
