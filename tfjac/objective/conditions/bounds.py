"""Bounds on parameters, as they are asked for."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.arguments import pair
from tfjac.graph import as_tf_variable
from tfjac.linear import arrays
from tfjac.objective.conditions.parameters import parameter_name, vector_of
from tfjac.steps.conditions import Box
from tfjac.types import Array, Nest, Numbers, Pair, Tensor, Variable


class Bounds:
    """What was asked for, checked: lower and upper bounds, and which parameters are fixed.

    Args:
        variables: nest of the variables, or of `tf.TensorSpec` with their shapes and names.
        bounds: `(lower, upper)`, each None, a number, or a nest like `variables` of None, numbers and arrays; or None.
        fixed: nest like `variables` of bools, or arrays of them, or None; one bool for all.

    Raises:
        ValueError, TypeError: for other structures or shapes, NaN, or a lower bound above the upper one.
    """

    def __init__(
        self, variables: Nest[Variable], bounds: Pair | Any | None = None, fixed: Numbers | None = None
    ) -> None:
        flat = tf.nest.flatten(variables)
        self.are_given = bounds is not None or fixed is not None
        lower, upper = _limits(bounds)
        self.lower = vector_of("bounds", lower, variables, -np.inf)
        self.upper = vector_of("bounds", upper, variables, np.inf)
        self.fixed = vector_of("fixed", fixed, variables, False).astype(bool)
        _check_order(self.lower, self.upper, flat)

    def box(self, values: list[Tensor]) -> Any:
        """Return the `Box` for a minimisation from where the variables are; an empty tuple where all are free.

        Args:
            values: list of tensors, what the variables hold.
        """
        if not self.are_given:
            return ()
        start = arrays.concat([tf.reshape(value, [-1]) for value in values], axis=0)
        lower, upper = arrays.cast(self.lower, start.dtype), arrays.cast(self.upper, start.dtype)
        return Box(arrays.where(self.fixed, start, lower), arrays.where(self.fixed, start, upper))

    def check_start(self, box: Box, variables: Nest[Variable]) -> None:
        """Raise ValueError where the variables, eager, are not within their bounds."""
        values = np.concatenate([np.ravel(as_tf_variable(variable).numpy()) for variable in variables])
        outside = (values < box.lower.numpy()) | (values > box.upper.numpy())
        if outside.any():
            index = int(np.argmax(outside))
            raise ValueError(
                "The variables must start within their bounds: assign values that do, such as arrays.clip gives. "
                f"Received: {parameter_name(variables, index)} = {values[index]}, bounds {box.lower[index].numpy()} "
                f"and {box.upper[index].numpy()}"
            )


def _limits(bounds: Any) -> tuple:
    """Return the lower and the upper part of the argument `bounds`."""
    if bounds is None:
        return None, None
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):  # scipy.optimize.Bounds
        return bounds.lb, bounds.ub
    return pair("bounds", bounds, "(lower, upper)")


def _check_order(lower: Array, upper: Array, variables: Nest[Variable]) -> None:
    if (lower > upper).any():
        index = int(np.argmax(lower > upper))
        raise ValueError(
            "A lower bound must not be above the upper one; equal ones fix a parameter. Bounds are a pair (lower, "
            "upper); of a pair for each parameter, zip(*bounds) makes the two. "
            f"Received: bounds {lower[index]} and {upper[index]} for {parameter_name(variables, index)}"
        )
