"""Errors that are without meaning: of parameters where J is what is left of a curve that has become flat."""

import numpy as np

from tfjac.types import Array

_MEANINGLESS = 1e8
"""An error that is so many times as large as anything that the parameter was is none."""


def reach_of(values: Array, start: Array) -> Array:
    """Return how large each parameter has been, `[p]`: what it is, or by how much it has moved, if that is more."""
    return np.maximum(np.abs(values), np.abs(values - start))


def without_meaning(jacobian: Array, residuals: Array, values: Array, start: Array) -> Array:
    """Return which parameters have errors without meaning, `[p]`, bool: that is to say, are not determined.

    The error of a parameter is s/‖Jⱼ‖ at least, by a model that is linear over such a distance. If that is 10⁸ times as
    large as one, and as anything that the parameter has been, then J is what is left of a curve that has become flat.

    Args:
        jacobian: `[rows, p]`; residuals: `[rows]`.
        values, start: `[p]`, the parameters there, and where they started.
    """
    rows, count = jacobian.shape
    deviation = np.linalg.norm(residuals.astype(np.float64)) / np.sqrt(max(rows - count, 1))
    norms = np.linalg.norm(jacobian.astype(np.float64), axis=0)
    return deviation > _MEANINGLESS * np.maximum(reach_of(values, start), 1) * norms
