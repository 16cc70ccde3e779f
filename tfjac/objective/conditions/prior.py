"""What is known of parameters beforehand: means and standard deviations."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.arguments import pair
from tfjac.linear.columns import Columns
from tfjac.objective.conditions.parameters import parameter_name, vector_of
from tfjac.steps.conditions import GaussianPrior
from tfjac.types import Array, Nest, Pair, Variable


class GivenPrior:
    """What was asked for, checked: means and standard deviations of parameters.

    Args:
        prior: `(mean, deviation)`, each a number, or a nest like `variables` of None, numbers and arrays; or None.

    Attributes:
        is_uniform: whether it is the same for all elements of a variable.
        is_known: `[p]`, bool, of which elements anything is known.

    Raises:
        ValueError: for other structures or shapes, NaN, or deviations that are not positive.
    """

    def __init__(self, variables: Nest[Variable], prior: Pair | None = None) -> None:
        mean, deviation = pair("prior", prior, "(mean, standard deviation)") if prior is not None else (None, None)
        self._mean = vector_of("prior", mean, variables, np.inf)
        deviation = vector_of("prior", deviation, variables, np.inf)
        flat = tf.nest.flatten(variables)
        _check_positive(deviation, flat)
        self.is_known = known = np.isfinite(self._mean) & np.isfinite(deviation)
        self._mean, self._weight = np.where(known, self._mean, 0), np.where(known, 1 / deviation, 0)
        self.are_given = known.any()
        parts = np.split(self._weight, np.cumsum(Columns(flat).sizes)[:-1])
        self.is_uniform = all((part == part[:1]).all() for part in parts)

    def tensors(self, dtype: tf.DType) -> Any:
        """Return the `GaussianPrior`; an empty tuple where nothing is known beforehand."""
        if not self.are_given:
            return ()
        return GaussianPrior(tf.constant(self._mean, dtype), tf.constant(self._weight, dtype))


def _check_positive(deviation: Array, variables: Nest[Variable]) -> None:
    if (deviation <= 0).any():
        index = int(np.argmax(deviation <= 0))
        raise ValueError(
            "The standard deviations of a prior must be positive; fixed= holds a parameter where it is. "
            f"Received: prior with deviation {deviation[index]} for {parameter_name(variables, index)}"
        )
