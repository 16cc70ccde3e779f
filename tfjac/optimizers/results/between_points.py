"""Whether residuals are small only where they were minimised: a curve may cheat between its points."""

import math

import numpy as np
import tensorflow as tf

from tfjac._warn import warn
from tfjac.types import Data, Function, Nest

FAR = 10.0
"""Residuals that are so many times as large elsewhere are worth a warning; of losses it is the square of that."""


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
    here, there = (_root_mean_square(residuals(*_arguments(each))) for each in (points, between))
    times = ratio_of(there, here)
    received = f"{here:.2g} at the points, and {there:.2g} at the others"
    warn_if_far("the root mean square of the residuals at the other points", times, FAR, received)
    return times


def ratio_of(there: float, here: float) -> float:
    """Return what is there divided by what is here, both not below zero; one if both are zero."""
    return there / here if here else math.inf if there else 1.0


def warn_if_far(what: str, times: float, limit: float, received: str) -> None:
    """Warn if something is far larger elsewhere.

    Args:
        what: what that is, in words: the residuals, or the loss, and where.
        times: how many times as large it is as where it was minimised; limit: how many are worth a warning.
        received: the numbers, in words.
    """
    if times > limit:
        warn(
            f"tfjac: {what} is {times:.2g} times that where it was minimised. So what was found holds there alone, and "
            "may be far from the solution elsewhere: take more points, or new ones in each epoch; or a smaller model, "
            f"or a regulariser. Received: {received}"
        )


def _arguments(given: Data) -> tuple:
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)


def _root_mean_square(residuals: Nest[tf.Tensor]) -> float:
    """Return the root of the mean of |r|² over all elements."""
    parts = [np.abs(np.asarray(part)).astype(np.float64).ravel() for part in tf.nest.flatten(residuals)]
    values = np.concatenate([*parts, np.zeros(0)])
    if not values.size:
        raise ValueError("check_between needs residuals to compare. Received: none at one of the two places")
    return float(np.sqrt(np.mean(values**2)))
