"""Whether residuals are small only where they were minimised: a curve may cheat between its points."""

import math
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac._warn import warn
from tfjac.graph import resolution_of
from tfjac.types import Data, Function, Nest

FAR = 10.0
"""Residuals that are so many times as large elsewhere are worth a warning; of losses it is the square of that."""

_ROUNDINGS = 16.0


def check_between(residuals: Function, points: Data, between: Data) -> float:
    """Return how many times as large residuals are at other points, and warn if it is more than ten times.

        tfjac.least_squares(residuals, variables, args=(t,))
        tfjac.check_between(residuals, (t,), ((t[1:] + t[:-1]) / 2,))

    A network that is to satisfy an equation satisfies it where it is asked to. In between it may do what it likes, and
    the cost does not show it. So compute the equation at points that it was not asked at.

    Args:
        residuals: the function that was minimised, of the points, which returns a tensor or a nest of them.
        points: tuple of its arguments where they were minimised, as `args` of `least_squares`.
        between: tuple of the same at other points, as the middles, or random ones; there may be another number of them.

    Returns:
        The root mean square of the residuals at the other points, divided by that at the points.

    Raises:
        ValueError: in a graph, where nothing can be compared; and where there are no residuals.
    """
    if not tf.executing_eagerly():
        raise ValueError(
            "check_between compares numbers: call it outside of a tf.function. Received: a call in a graph"
        )
    both = [_parts_of(residuals(*_arguments(each))) for each in (points, between)]
    here, there = (_root_mean_square(parts) for parts in both)
    rounding = max(rounding_of(part.dtype) for parts in both for part in parts)
    warn_if_far(
        "the root mean square of the residuals", "at the points", "at the other points", here, there, FAR, rounding
    )
    return ratio_of(there, here)


def ratio_of(there: float, here: float) -> float:
    """Return what is there divided by what is here, both not below zero; one if both are zero."""
    return there / here if here else there * math.inf if there else 1.0


def rounding_of(dtype: Any) -> float:
    """Return up to where residuals say nothing, if their terms are of size one; zero for integers."""
    kind = tf.as_dtype(dtype)
    return _ROUNDINGS * resolution_of(kind) if kind.is_floating or kind.is_complex else 0.0


def warn_if_far(
    what: str, at_points: str, at_others: str, here: float, there: float, limit: float, rounding: float = 0.0
) -> None:
    """Warn if something is far larger elsewhere, or not finite.

    Args:
        what: what that is, in words: the residuals, or the loss.
        at_points, at_others: where it was minimised, and where else it was computed, in words.
        here, there: how large it is at these.
        limit: how many times as large is worth a warning.
        rounding: up to where a size is none.
    """
    received = f"Received: {here:.2g} {at_points}, and {there:.2g} {at_others}"
    if not (math.isfinite(here) and math.isfinite(there)):
        warn(
            f"tfjac: {what} is not finite {at_points if math.isfinite(there) else at_others}, so it says nothing of "
            "what was found. Look for NaN and infinity in these data, with np.isfinite(x).all(), and for logarithms, "
            f"roots and quotients there. {received}"
        )
    elif here >= 0 and there > rounding and ratio_of(there, here) > limit:
        warn(
            f"tfjac: {what} {at_others} is {ratio_of(there, here):.2g} times that where it was minimised. So what was "
            "found holds there alone, and may be far from the solution elsewhere: take more points, or new ones in "
            f"each epoch; or a smaller model, or a regulariser. {received}"
        )


def _arguments(given: Data) -> tuple:
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)


def _parts_of(residuals: Nest[tf.Tensor]) -> list[np.ndarray]:
    """Return the parts of a nest that are not empty."""
    parts = [np.asarray(part) for part in tf.nest.flatten(residuals)]
    parts = [part for part in parts if part.size]
    if not parts:
        raise ValueError("check_between needs residuals to compare. Received: none at one of the two places")
    return parts


def _root_mean_square(parts: list[np.ndarray]) -> float:
    """Return the root of the mean of |r|² over all elements, without leaving the range of numbers."""
    sizes = np.concatenate([np.abs(part).astype(np.float64).ravel() for part in parts])
    largest = sizes.max()
    unit = largest if 0 < largest < math.inf else 1.0
    return float(unit * np.sqrt(np.mean((sizes / unit) ** 2)))
