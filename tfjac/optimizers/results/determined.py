"""Which rows of a table its own residuals determine: points that are seen well enough, without J being formed."""

import numpy as np


def undetermined_rows(gram, free, precision=None, basis=None):
    """Return the indices of the rows that can move in some direction without effect on the residuals that read them.

    Args:
        gram: `[rows, o, o]`, JᵀJ of each row, in the precision in which J was computed.
        free: `[rows, o]`, bool: which elements may move.
        precision: `[rows, o]`, what a prior adds to the diagonal, or None.
        basis: `[rows, o, k]`, the directions on a manifold, of which rows move along all or none; or None.
    """
    rounding = 64 * np.finfo(gram.dtype).eps
    gram, moves = gram.astype(np.float64), free
    if precision is not None:
        gram = gram + precision[:, :, None] * np.eye(gram.shape[1])
    if basis is not None:
        gram, moves = np.einsum("rik,rij,rjl->rkl", basis, gram, basis), np.repeat(free[:, :1], basis.shape[2], axis=1)
    diagonal = np.einsum("rii->ri", gram)
    scale = np.where(moves & (diagonal > 0), 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1)), 0)
    held = np.eye(gram.shape[1]) * ~moves[:, :, None]
    smallest = np.linalg.eigvalsh(gram * scale[:, :, None] * scale[:, None] + held)[:, 0]
    return np.flatnonzero(smallest <= rounding)
