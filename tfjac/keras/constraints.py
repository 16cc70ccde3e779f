"""Keras' constraints on weights: those that are bounds are kept as bounds, others projected upon after each step."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfjac._warn import warn
from tfjac.graph import as_tf_variable
from tfjac.linear.columns import Columns
from tfjac.objective.variables import variable_name
from tfjac.steps.conditions import Box
from tfjac.types import Variable


def into_bounds(variables: Sequence[Variable]) -> None:
    """Move variables that start outside of their bounds to them, and warn of constraints that are no bounds.

    Args:
        variables: list of `keras.Variable` or `tf.Variable`.
    """
    for variable in variables:
        constraint = getattr(variable, "constraint", None)
        if constraint is not None and _is_bound(constraint):
            variable.assign(constraint(variable.value))
        elif constraint is not None:
            warn(
                f"tfjac: the constraint {type(constraint).__name__} of {variable_name(variable)} is applied after each "
                "step, which does not foresee it, and may be rejected for it; keras.constraints.NonNeg is kept as a "
                "bound of the step.",
            )


def box_of_constraints(variables: Sequence[Variable]) -> Box | None:
    """Return the `Box` that the constraints of variables amount to; None where none is a bound."""
    bounded = [_is_bound(getattr(variable, "constraint", None)) for variable in variables]
    if not any(bounded):
        return None
    lower = np.repeat(np.where(bounded, 0.0, -np.inf), Columns(variables).sizes)
    dtype = as_tf_variable(variables[0]).dtype
    return Box(tf.constant(lower, dtype), tf.fill([lower.size], tf.constant(np.inf, dtype)))


def _is_bound(constraint: Any) -> bool:
    return type(constraint) is keras.constraints.NonNeg
