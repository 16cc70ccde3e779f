"""Bounds on parameters: every iterate within them, and those that press against one taken out of the system.

A parameter at a bound, with a gradient that would take it across, is *active*: its column leaves J, so that the step is
that of a problem without it. What is left, the free parameters, may still run into bounds along the step p. Of the two
ways to shorten it,

    project:   every element clipped at its own bound
    truncate:  all of p scaled until the first element meets its bound, which it then is at, exactly

that is taken which the quadratic model favours. The truncated one always lowers the model; the projected one meets many
bounds at once. With growing damping p turns into −D⁻¹g/λ, along which projection lowers the cost itself.
Reference: D. P. Bertsekas, "Projected Newton methods for optimization problems with simple constraints", 1982.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.arguments import pair
from tfjac.graph import as_tf_variable
from tfjac.optimizers import arrays
from tfjac.optimizers.conditions.parameters import parameter_name, vector_of
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

    def check_start(self, box: "Box", variables: Nest[Variable]) -> None:
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


class Box(NamedTuple):
    """Lower and upper bounds of all parameters, `[p]` each; equal ones fix a parameter.

    Of n fits they are `[n, p]`, and so are positions and steps.
    """

    lower: Any
    upper: Any

    def contains(self, position: Tensor) -> Tensor:
        """Return whether all of `position` `[p]` is within the bounds, a scalar."""
        return arrays.reduce_all((position >= self.lower) & (position <= self.upper), axis=-1)

    def free(self, position: Tensor, gradient: Tensor) -> Tensor:
        """Return `[p]`, bool: the parameters that are not held by a bound, the gradient of the cost being as given."""
        held_below = (position <= self.lower) & (gradient >= 0)
        held_above = (position >= self.upper) & (gradient <= 0)
        return ~(held_below | held_above | (self.lower >= self.upper))

    def project(self, position: Tensor) -> Tensor:
        """Return the nearest point within the bounds."""
        return arrays.clip(position, self.lower, self.upper)

    def truncate(self, position: Tensor, step: Tensor) -> Tensor:
        """Return where `position` + `step` leads, or where the first element meets its bound, which it is at then."""
        bound = arrays.where(step > 0, self.upper, self.lower)
        room = arrays.where(
            arrays.equal(step, 0), arrays.constant(np.inf, step), arrays.divide_no_nan(bound - position, step)
        )
        first = arrays.minimum(arrays.reduce_min(room, axis=-1, keepdims=True), 1)
        return self.project(arrays.where(room <= first, bound, position + first * step))


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
