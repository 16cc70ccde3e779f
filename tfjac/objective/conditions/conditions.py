"""What is asked of parameters, whatever the residuals say: bounds, equations, and what is known beforehand."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import as_tf_variable
from tfjac.linear.columns import Columns
from tfjac.objective.conditions.bounds import Bounds
from tfjac.objective.conditions.equality import GivenEquality
from tfjac.objective.conditions.manifolds import checked_manifolds
from tfjac.objective.conditions.prior import GivenPrior
from tfjac.objective.variables import variable_name
from tfjac.steps.conditions import Box, Conditions, Equality, GaussianPrior
from tfjac.types import Array, Nest, Numbers, Pair, Variable


class GivenConditions:
    """What was asked for, checked.

    Args:
        bounds, fixed, prior, equality, manifolds: as for `least_squares`.

    Attributes:
        prior_is_uniform: whether the prior is the same for all elements of a variable.
        manifolds: list of a `Manifold`, or None, for each variable.

    Raises:
        ValueError: for bounds together with equations, and for conditions on elements of variables on manifolds.
    """

    def __init__(
        self,
        variables: Nest[Variable],
        bounds: Pair | Any | None = None,
        fixed: Numbers | None = None,
        prior: Pair | None = None,
        equality: Any = None,
        manifolds: Any = None,
    ) -> None:
        self._flat = tf.nest.flatten(variables)
        self._bounds, self._prior = Bounds(variables, bounds, fixed), GivenPrior(variables, prior)
        if bounds is not None and equality is not None:
            raise ValueError(
                "bounds and equality do not go together: compute one of the parameters from the others inside of the "
                f"residuals, in place of an equation, or leave the bounds out. Received: bounds={bounds!r} and equality"
            )
        self._equality = GivenEquality(variables, equality, self._bounds.fixed)
        self._dtype = as_tf_variable(self._flat[0]).dtype
        self.prior_is_uniform = self._prior.is_uniform
        self.manifolds = checked_manifolds(variables, manifolds)
        self._check_manifolds()

    @property
    def equations(self) -> list[Array]:
        """List of the arrays of the equations as they were asked for; empty where there are none."""
        return self._equality.equations

    def _check_manifolds(self) -> None:
        bounds, split = self._bounds, np.cumsum(Columns(self._flat).sizes)[:-1]
        bounded = np.isfinite(bounds.lower) | np.isfinite(bounds.upper)
        parts = [np.split(each, split) for each in (bounded, self._prior.is_known, bounds.fixed)]
        for variable, manifold, bounded, known, fixed in zip(self._flat, self.manifolds, *parts):
            if manifold is None:
                continue
            fixed = fixed.reshape(-1, manifold.size)
            if bounded.any() or known.any() or self._equality.are_given or (fixed.any(1) != fixed.all(1)).any():
                raise ValueError(
                    "Points on a manifold move as a whole: they have no bounds, prior or equality, and fixed takes all "
                    "of a row or none. Write what is known of them as residuals. "
                    f"Received: one of these for {variable_name(variable)}"
                )
            if tf.executing_eagerly():
                manifold.check(variable_name(variable), as_tf_variable(variable).read_value())

    def tensors(self) -> Conditions:
        """Return the `Conditions` of a minimisation from where the variables are.

        Raises:
            ValueError: outside of a graph, for variables that are not within their bounds.
        """
        box = self._bounds.box([as_tf_variable(variable).read_value() for variable in self._flat])
        if box and tf.executing_eagerly():
            self._bounds.check_start(box, self._flat)
        return Conditions(box, self._prior.tensors(self._dtype), self._equality.tensors())

    def specs(self) -> Conditions:
        """Return `Conditions` of `tf.TensorSpec`, what they are like."""
        size, count = Columns(self._flat).total, self._equality.count
        vector = tf.TensorSpec([size], self._dtype)
        matrix, column = tf.TensorSpec([count, size], self._dtype), tf.TensorSpec([count], self._dtype)
        return Conditions(
            Box(vector, vector) if self._bounds.are_given else (),
            GaussianPrior(vector, vector) if self._prior.are_given else (),
            Equality(matrix, column, tf.TensorSpec([], tf.bool)) if self._equality.are_given else (),
        )
