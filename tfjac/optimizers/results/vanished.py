"""Parameters whose column of J has vanished: minima that J does not see, and errors that are without meaning.

At a minimum of ½(x² + 5)² the residual is five and J is zero, or on the way to it. The cosine of the angle between r
and a column says nothing of columns that short; with one residual it is always one. So another measure is taken there:
the cost on both sides of the point. That is a few evaluations, and is asked for only if no step lowered the cost.
"""

import numpy as np

_MOST = 64
"""Parameters that are looked at."""

_LARGEST = 2**24
"""Numbers of a Jacobian that is formed for that."""

_MEANINGLESS = 1e8
"""An error that is so many times as large as anything that the parameter was is none."""


def reach_of(values, start):
    """Return how large each parameter has been, `[p]`: what it is, or by how much it has moved, if that is more."""
    return np.maximum(np.abs(values), np.abs(values - start))


def vanished_at_minimum(point, values, start, free, limits):
    """Return which columns of J have vanished at a minimum, `[p]`, bool; None if it is none, or J has not vanished.

    The other parameters are at a minimum as far as J can say: none of them could gain more than ftol of the cost. A
    column has vanished if r would change by no more than √gtol of it if the parameter moved by all that it has been.

    Args:
        point: a `FrozenPoint` without robust losses, where no step lowered the cost.
        values, start: `[p]`, float64: the parameters there, and where they started.
        free: `[p]`, bool: which parameters may move.
        limits: `Tolerances`.
    """
    jacobian, residual, _ = point.linearised()
    epsilon = np.finfo(jacobian.dtype).eps
    jacobian, residual = jacobian.astype(np.float64), residual.astype(np.float64)
    norms, norm, reach = np.linalg.norm(jacobian, axis=0), np.linalg.norm(residual), reach_of(values, start)
    if not (np.isfinite(norms).all() and 0 < norm < np.inf):
        return None
    vanished = free & (norms * reach <= np.sqrt(limits.gradient) * norm)
    cosines = np.abs(jacobian.T @ residual) / np.where(norms > 0, norms, 1) / norm
    others = free & ~vanished
    if np.any(np.square(cosines[others]) > 2 * limits.cost) or not 0 < np.count_nonzero(vanished) <= _MOST:
        return None
    sides = [column for column in np.flatnonzero(vanished) if norms[column] > 0]
    if not sides or not all(_is_lowest(point, values, column, reach[column], epsilon) for column in sides):
        return None
    return vanished


def is_small(num_residuals, num_parameters):
    """Return whether a problem is small enough for its J to be looked at."""
    return num_residuals * num_parameters <= _LARGEST


def _is_lowest(point, values, column, reach, epsilon):
    """Return whether the cost rises to both sides of a parameter, at the nearest places where it is another one."""
    here = point.cost_at(values)
    rounding = 64 * epsilon * abs(here)
    for part in (epsilon**0.25, epsilon**0.125, 1):
        rises = [point.cost_at(_moved(values, column, side * part * reach)) - here for side in (-1, 1)]
        if min(rises) > rounding:
            return True
        if min(rises) < -rounding:
            return False
    return False


def _moved(values, column, change):
    moved = values.copy()
    moved[column] += change
    return moved


def without_meaning(jacobian, residuals, values, start):
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
