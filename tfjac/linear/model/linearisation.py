"""The quadratic model of the cost where the variables are."""

from typing import Any

import tensorflow as tf

from tfjac.linear import arrays
from tfjac.linear.contracts import JacobianRows, LinearModel
from tfjac.linear.model.units import Units
from tfjac.linear.prior import Prior
from tfjac.types import Tensor


class Linearisation(LinearModel):
    """What r(w+p) ≈ r + Jp makes of F:

        F(w+p) ≈ F + gᵀp + ½ pᵀ(JᵀJ + Λ)p,    g = Jᵀr + Λ(w−w₀)

    J is kept as factors, and each method adds to the graph what it returns when it is called: what no solver asks for
    costs nothing. Solvers work with g and with products of J; r itself is for those that solve in the space of the
    residuals, where g = Jᵀr + Λ(w−w₀) is all they may know of it.

    Args:
        jacobian: `StackedJacobian`.
        residual: r, `[rows]`.
        prior: `Prior`, the part with Λ.
        slope: g `[p]`, where it is known and J has other rows than r, such as drawn ones; or None.

    Attributes:
        jacobian, residual, prior: as given.
        is_shared: whether it is the sum over several processes, of which this one has its own rows alone.
        columns: the `Columns` of J.
        dtype: of all that it returns.
    """

    is_shared = False

    def __init__(self, jacobian: JacobianRows, residual: Tensor, prior: Prior, slope: Tensor | None = None) -> None:
        self.jacobian, self.residual, self.prior, self._slope = jacobian, residual, prior, slope
        self.columns, self.dtype = jacobian.columns, jacobian.dtype

    # -------------------------------------------------------------- sizes

    @property
    def num_parameters(self) -> int:
        """Number of columns of J, an integer."""
        return self.columns.total

    @property
    def num_rows(self) -> int | Tensor:
        """Number of rows of J: an integer where the graph fixes it, else a scalar tensor."""
        return tf.size(self.residual) if self.static_num_rows is None else self.static_num_rows

    @property
    def static_num_rows(self) -> int | None:
        """Number of rows of J where the graph fixes it, else None."""
        return self.residual.shape[0]

    @property
    def has_residuals(self) -> bool:
        """Whether there is anything but a prior, a Python bool."""
        return bool(self.jacobian.operators)

    # -------------------------------------------------------------- the model

    def cast(self, dtype: tf.DType) -> "Linearisation":
        """Return the same linearisation with J, r and the prior in another dtype."""
        slope = None if self._slope is None else tf.cast(self._slope, dtype)
        return Linearisation(
            self.jacobian.cast(dtype), arrays.cast(self.residual, dtype), self.prior.cast(dtype), slope
        )

    def in_units(self, units: Units) -> "Linearisation":
        """Return the same linearisation in `Units`, of a `StackedJacobian`."""
        jacobian: Any = self.jacobian
        slope = None if self._slope is None else units.pull(self._slope)
        return Linearisation(jacobian.in_units(units), self.residual, units.of_prior(self.prior), slope)

    def only_free(self, vector: Tensor) -> Tensor:
        return vector

    def gradient(self) -> Tensor:
        if self._slope is not None:
            return self._slope
        return self.jacobian.adjoint(self.residual) + self.prior.gradient

    def gram_and_gradient(self) -> tuple[Tensor, Tensor]:
        gram, gradient = self.jacobian.gram_and_gradient(self.residual)
        return gram, gradient + self.prior.gradient

    def diagonal(self) -> Tensor:
        return self.jacobian.column_norms_squared()

    def curvature(self, vector: Tensor) -> Tensor:
        return self.jacobian.adjoint(self.jacobian.matvec(vector))

    def quadratic(self, step: Tensor) -> Tensor:
        """Return pᵀ(JᵀJ + Λ)p, a scalar, by one product with J."""
        return self.jacobian.square(self.jacobian.matvec(step)) + self.prior.quadratic(step)
