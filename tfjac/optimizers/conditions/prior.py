"""Parts of the cost that are quadratic in each parameter by itself: regularisers, and what is known beforehand."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.arguments import pair
from tfjac.optimizers.columns import Columns
from tfjac.optimizers.conditions.parameters import parameter_name, vector_of


class Prior:
    """The part of the objective that is quadratic in each parameter by itself, as L2 regularisers are.

    Attributes:
        precision: `[p]`, Λ.
        gradient: `[p]`, Λ(w−w₀).
        per_variable: `[num_variables]`, Λ of each variable where it is the same for all its elements; else None.
        is_zero: whether there is no such part (a Python bool).
        is_data: whether it counts as data, so that it is followed where nothing else has weight (a Python bool).
    """

    def __init__(self, precision, gradient, per_variable, is_zero, is_data=False):
        self.precision, self.gradient, self.per_variable = precision, gradient, per_variable
        self.is_zero, self.is_data = is_zero, is_data

    def cast(self, dtype):
        """Return the same in another dtype."""
        per_variable = None if self.per_variable is None else tf.cast(self.per_variable, dtype)
        precision, gradient = tf.cast(self.precision, dtype), tf.cast(self.gradient, dtype)
        return Prior(precision, gradient, per_variable, self.is_zero, self.is_data)

    def masked(self, mask):
        """Return the part of the parameters for which `mask` `[p]`, bool, is true."""
        precision, gradient = (tf.where(mask, each, tf.zeros_like(each)) for each in (self.precision, self.gradient))
        return Prior(precision, gradient, self.per_variable, self.is_zero, self.is_data)

    def quadratic(self, step):
        """Return pᵀΛp for a step `[p]`, a scalar."""
        return tf.reduce_sum(self.precision * tf.square(step))

    def rows(self):
        """Return √Λ and √Λ(w−w₀), `[p]`: the diagonal of rows that stand below J for it, and their residuals."""
        root = tf.sqrt(self.precision)
        return root, tf.math.divide_no_nan(self.gradient, root)

    @property
    def has_one_number_per_variable(self):
        """Whether Λ is constant over each variable."""
        return self.per_variable is not None

    def require_one_number_per_variable(self, who):
        """Raise ValueError unless Λ is constant over each variable."""
        if not self.has_one_number_per_variable:
            raise ValueError(
                f"{who} needs regularisers and priors that weigh all elements of a variable alike, as "
                "keras.regularizers.L2 does. Use solver='cholesky' or 'cg'. "
                "Received: one whose weight differs, or may differ, within a variable"
            )


def total(priors):
    """Return the `Prior` that a list of `Prior` adds up to, of the same parameters."""
    known = all(prior.has_one_number_per_variable for prior in priors)
    return Prior(
        tf.add_n([prior.precision for prior in priors]),
        tf.add_n([prior.gradient for prior in priors]),
        tf.add_n([prior.per_variable for prior in priors]) if known else None,
        is_zero=all(prior.is_zero for prior in priors),
        is_data=any(prior.is_data for prior in priors),
    )


class GivenPrior:
    """What was asked for, checked: means and standard deviations of parameters.

    Args:
        variables: nest of the variables.
        prior: `(mean, deviation)`, each a number, or a nest like `variables` of None, numbers and arrays; or None.

    Attributes:
        is_uniform: whether it is the same for all elements of a variable.
        is_known: `[p]`, bool, of which elements anything is known.

    Raises:
        ValueError: for other structures or shapes, NaN, or deviations that are not positive.
    """

    def __init__(self, variables, prior=None):
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

    def tensors(self, dtype):
        """Return the `GaussianPrior`; an empty tuple where nothing is known beforehand."""
        if not self.are_given:
            return ()
        return GaussianPrior(tf.constant(self._mean, dtype), tf.constant(self._weight, dtype))


class GaussianPrior(NamedTuple):
    """Means `[p]`, and the reciprocals of standard deviations `[p]`, zero where nothing is known.

    It adds ½Σ((w − mean)·weight)² to the cost.
    """

    mean: Any
    weight: Any

    def in_units(self, unit):
        """Return the prior of a cost that is measured in the square of `unit`."""
        return GaussianPrior(self.mean, self.weight / unit)

    def residuals(self, position):
        """Return (w − mean)·weight `[p]` at w = `position`."""
        return self.weight * (position - self.mean)

    def cost(self, position):
        """Return what is added to the cost, a scalar."""
        return tf.reduce_sum(tf.square(self.residuals(position))) / 2

    def linearised(self, position, columns, is_uniform):
        """Return the `Prior` of the linear system."""
        precision = tf.square(self.weight)
        per_variable = columns.firsts(precision) if is_uniform else None
        return Prior(precision, self.weight * self.residuals(position), per_variable, is_zero=False, is_data=True)


def _check_positive(deviation, variables):
    if (deviation <= 0).any():
        index = int(np.argmax(deviation <= 0))
        raise ValueError(
            "The standard deviations of a prior must be positive; fixed= holds a parameter where it is. "
            f"Received: prior with deviation {deviation[index]} for {parameter_name(variables, index)}"
        )
