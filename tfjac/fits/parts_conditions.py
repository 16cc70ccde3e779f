"""Bounds and a prior where normal equations come from elsewhere: on their sums, and on the steps that these lead to."""

import dataclasses

import numpy as np
import tensorflow as tf

from tfjac.fits.normal_equations import NormalEquations
from tfjac.objective.conditions.bounds import Bounds
from tfjac.objective.conditions.prior import GivenPrior
from tfjac.steps.conditions import Box
from tfjac.types import Array, Pair


class PartsConditions:
    """Bounds and a Gaussian prior of parameters `[p]`, NumPy.

    Args:
        start: `[p]`.
        bounds, prior: as of `least_squares`, or None.

    Raises:
        ValueError, TypeError: for bad ones, and for a start outside of the bounds.
    """

    def __init__(self, start: Array, bounds: Pair | None, prior: Pair | None) -> None:
        variable = tf.Variable(start, name="start")
        limits, given = Bounds(variable, bounds), GivenPrior(variable, prior)
        box = limits.box([tf.constant(start)])
        if box:
            limits.check_start(box, [variable])
        self._box = box and Box(*(each.numpy() for each in box))
        self._prior = given.tensors(tf.float64)
        self._known = int(given.is_known.sum())

    def with_prior(self, found: NormalEquations, position: Array) -> NormalEquations:
        """Return normal equations at `position` with those of the prior, each of which counts as a residual."""
        if not self._prior:
            return found
        weight, dtype = self._prior.weight.numpy(), found.gram.dtype
        left = weight * (position - self._prior.mean.numpy())
        gram, gradient = np.diag(weight**2).astype(dtype), (weight * left).astype(dtype)
        return found + NormalEquations(gram, gradient, float(left @ left) / 2, self._known)

    def free(self, found: NormalEquations, position: Array) -> NormalEquations:
        """Return normal equations in which the parameters that a bound holds do not move, and have no gradient."""
        if not self._box:
            return found
        free = self._box.free(position, found.gradient)
        free = np.asarray(free)
        gram = np.where(free[:, None] & free, found.gram, np.diag(~free).astype(found.gram.dtype))
        return dataclasses.replace(found, gram=gram, gradient=np.where(free, found.gradient, 0))

    def within(self, found: NormalEquations, position: Array, step: Array) -> Array:
        """Return the step, shortened to stay within the bounds: in the way that the model favours.

        Args:
            found: normal equations as `free` returns them.
            position, step: `[p]`.
        """
        if not self._box:
            return step
        ends = [self._box.project(position + step), self._box.truncate(position, step)]
        steps = [np.asarray(end) - position for end in ends]
        return min(steps, key=lambda each: found.gradient @ each + each @ found.gram @ each / 2)
