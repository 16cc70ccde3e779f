"""Errors that are without meaning: of parameters where J is what is left of a curve that has become flat.

Or of parameters that have run off together: of a and b of a + b exp(ct), with c near zero, only the sum matters.
"""

from collections.abc import Sequence

import numpy as np

from tfjac._warn import warn
from tfjac.types import Array

_MEANINGLESS = 1e8
"""An error that is so many times as large as anything that the parameter was is none."""

_RUN_OFF = 1e4
"""Parameters with errors so many times as large as anything that they were, of which others undo all, have run off."""

_UNDONE = 1e-8
"""A correlation as close to one is one but for rounding."""


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


def run_off(covariance: Array, reach: Array) -> Array:
    """Return which parameters have run off, `[..., p]`, bool: their errors dwarf them, and others undo what they do.

    Args:
        covariance: `[..., p, p]`, of the parameters.
        reach: `[..., p]`, how large each has been.
    """
    errors = np.sqrt(np.maximum(np.diagonal(covariance, axis1=-2, axis2=-1), 0))
    known = np.where(np.isfinite(errors) & (errors > 0), errors, np.inf)
    correlation = np.abs(covariance) / known[..., None] / known[..., None, :] - np.eye(errors.shape[-1])
    undone = np.any(correlation >= 1 - _UNDONE, axis=-1)
    return undone & np.isfinite(known) & (known > _RUN_OFF * reach)


def warn_of_run_off(names: Sequence[str], covariance: Array, reach: Array) -> None:
    """Warn of parameters that have `run_off`; the arguments are those of one fit, and what parameters are called."""
    found, errors = run_off(covariance, reach), np.sqrt(np.maximum(np.diag(covariance), 0))
    if found.any():
        said = ", ".join(f"{name} with an error of {errors[k]:.3g}" for k, name in enumerate(names) if found[k])
        warn(
            "tfjac: Some parameters have run off, and undo one another: their errors are more than 10,000 times as "
            "large as they are, and their correlations are one but for rounding. The minimum may be elsewhere, or at "
            f"infinity: start elsewhere, or hold one by bounds or fixed. Received: {said}"
        )
