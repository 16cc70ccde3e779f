"""The part of the cost that is quadratic in each parameter by itself, as regularisers are."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac.linear import arrays
from tfjac.types import Tensor


class Prior:
    """The part of the objective that is quadratic in each parameter by itself, as L2 regularisers are.

    Attributes:
        precision: `[p]`, Λ.
        gradient: `[p]`, Λ(w−w₀).
        per_variable: `[num_variables]`, Λ of each variable where it is the same for all its elements; else None.
        is_zero: whether there is no such part (a Python bool).
        is_data: whether it counts as data, so that it is followed where nothing else has weight (a Python bool).
    """

    def __init__(
        self, precision: Tensor, gradient: Tensor, per_variable: Tensor | None, is_zero: bool, is_data: bool = False
    ) -> None:
        self.precision, self.gradient = precision, gradient
        self.per_variable: Any = per_variable  # whoever reads it has asked whether there is one
        self.is_zero, self.is_data = is_zero, is_data

    def cast(self, dtype: tf.DType) -> "Prior":
        """Return the same in another dtype."""
        per_variable = None if self.per_variable is None else arrays.cast(self.per_variable, dtype)
        precision, gradient = arrays.cast(self.precision, dtype), arrays.cast(self.gradient, dtype)
        return Prior(precision, gradient, per_variable, self.is_zero, self.is_data)

    def masked(self, mask: Tensor) -> "Prior":
        """Return the part of the parameters for which `mask` `[p]`, bool, is true."""
        precision, gradient = (
            arrays.where(mask, each, arrays.zeros_like(each)) for each in (self.precision, self.gradient)
        )
        return Prior(precision, gradient, self.per_variable, self.is_zero, self.is_data)

    def scaled(self, factor: Tensor) -> "Prior":
        """Return the same times a scalar."""
        per_variable = None if self.per_variable is None else factor * self.per_variable
        return Prior(factor * self.precision, factor * self.gradient, per_variable, self.is_zero, self.is_data)

    def quadratic(self, step: Tensor) -> Tensor:
        """Return pᵀΛp for a step `[p]`, a scalar."""
        return arrays.reduce_sum(self.precision * arrays.square(step))

    def rows(self) -> tuple[Tensor, Tensor]:
        """Return √Λ and √Λ(w−w₀), `[p]`: the diagonal of rows that stand below J for it, and their residuals."""
        root = arrays.sqrt(self.precision)
        return root, arrays.divide_no_nan(self.gradient, root)

    @property
    def has_one_number_per_variable(self) -> bool:
        """Whether Λ is constant over each variable."""
        return self.per_variable is not None

    def require_one_number_per_variable(self, who: str) -> None:
        """Raise ValueError unless Λ is constant over each variable."""
        if not self.has_one_number_per_variable:
            raise ValueError(
                f"{who} needs regularisers and priors that weigh all elements of a variable alike, as "
                "keras.regularizers.L2 does. Use solver='cholesky' or 'cg'. "
                "Received: one whose weight differs, or may differ, within a variable"
            )


def total(priors: Sequence[Prior]) -> Prior:
    """Return the `Prior` that a list of `Prior` adds up to, of the same parameters."""
    known = all(prior.has_one_number_per_variable for prior in priors)
    return Prior(
        tf.add_n([prior.precision for prior in priors]),
        tf.add_n([prior.gradient for prior in priors]),
        tf.add_n([prior.per_variable for prior in priors]) if known else None,
        is_zero=all(prior.is_zero for prior in priors),
        is_data=any(prior.is_data for prior in priors),
    )
