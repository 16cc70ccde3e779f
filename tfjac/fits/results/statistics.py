"""What residuals and their Jacobian at a minimum say about the parameters, in NumPy and double precision.

With J of the free parameters and s² = ‖r‖²/(rows − rank), near enough to a linear model and for independent errors of
equal variance, the parameters found are distributed about the true ones with covariance s²(JᵀJ)⁻¹. All of it follows
from the singular values of J with its columns scaled, so that the condition number is not squared.
Parameters with a Gaussian prior of precision Λ, in units of the residuals, have s²(JᵀJ + Λ)⁻¹; of the residuals
γ = tr JᵀJ(JᵀJ + Λ)⁻¹ count as used up, rather than one for each parameter (MacKay, "Bayesian interpolation", 1992).
Reference: G. A. F. Seber, C. J. Wild, "Nonlinear Regression", 1989, section 2.1; P. J. Huber, "Robust Statistics",
1981, section 7.6, for losses other than squares.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjac.types import Array


class Statistics:
    """The covariance of the free parameters, and what comes before it.

    Args:
        jacobian: `[rows, p]`, J, of any floating-point dtype.
        residuals: `[rows]`, r.
        free: `[p]`, bool: which parameters were free to move there. The others count as known.
        absolute: whether the residuals are in units of their standard deviations, so that s² is one rather than
            estimated.
        influence: None for squares; for robust losses the sums over all rows of ψ² and ψ′, with ψ = ρ′r: the
            covariance is then Huber's, with Σψ²/(rows − rank) / (Σψ′/rows)² in place of s², absolute or not; next to
            a prior, JᵀJ counts Σψ′/rows times.
        precision: `[p]`, Λ, or None.
        normals: `[k, p]`, orthonormal: combinations of the parameters that equations determine, or None.
        masked: whether some residuals may be masked.

    Attributes:
        rows: number of residuals. If they may be masked, those that are zero and that no parameter moves do not count.
        chi_square: ‖r‖².
    """

    def __init__(
        self,
        jacobian: Array,
        residuals: Array,
        free: Array,
        absolute: bool = False,
        influence: Sequence[Any] | None = None,
        precision: Array | None = None,
        normals: Array | None = None,
        masked: bool = True,
    ) -> None:
        self._free, self._absolute = free, absolute
        self._jacobian = np.asarray(jacobian, np.float64)[:, free]
        self._epsilon = np.finfo(jacobian.dtype).eps
        self._precision = None if precision is None else precision[free]
        self._normals = None if normals is None else normals[:, free]
        residuals = np.asarray(residuals, np.float64)
        self.rows = np.count_nonzero((residuals != 0) | np.any(jacobian != 0, axis=1)) if masked else residuals.size
        self._influence, self._masked = influence, residuals.size - self.rows
        self.chi_square = float(residuals @ residuals)

    @functools.cached_property
    def _decomposition(self) -> tuple:
        """Norms of the columns of [J; √Λ], and singular values and right singular vectors with these divided out.

        With equations, those of [J; √Λ] in the plane of the steps that they leave.
        """
        rows = self._jacobian
        if not np.isfinite(rows).all():
            raise ValueError(
                "The residuals, or their Jacobian, are not finite where the minimisation ended: there are no errors to "
                "tell. Received: NaN or infinity in J"
            )
        if self._precision is not None:
            rows = np.concatenate([rows * np.sqrt(max(self._slope, 0)), np.diag(np.sqrt(self._precision))])
        norms = np.linalg.norm(rows, axis=0)
        norms = np.where(norms > 0, norms, 1)
        rows, plane = rows / norms, np.eye(norms.size)
        if self._normals is not None:
            plane = plane_across(self._normals / norms)
            rows = rows @ plane
        _, singular, basis = np.linalg.svd(rows, full_matrices=len(rows) < rows.shape[1])
        return norms, np.concatenate([singular, np.zeros(rows.shape[1] - singular.size)]), basis @ plane.T

    @property
    def _above_rounding(self) -> Array:
        singular = self._decomposition[1]
        return singular > len(self._jacobian) * self._epsilon * singular.max(initial=0)

    @property
    def rank(self) -> int:
        """How many combinations of the free parameters the residuals, and the prior, determine."""
        return int(np.count_nonzero(self._above_rounding))

    @functools.cached_property
    def effective_parameters(self) -> float:
        """γ, the trace of the hat matrix: the rank, an integer, without a prior."""
        if self._precision is None:
            return self.rank
        return float(self._slope * np.sum(np.square(self._jacobian @ self._root)))

    @property
    def determined(self) -> Array:
        """`[p]`, bool: the parameters without a part in any combination that can change without effect."""
        lost = self._decomposition[2][~self._above_rounding]
        determined = np.ones(self._free.size, bool)
        determined[self._free] = np.all(np.abs(lost) < np.sqrt(self._epsilon), axis=0)
        return determined

    @property
    def degrees_of_freedom(self) -> float:
        """Rows less γ: what is left of the residuals for their variance to be estimated from."""
        return self.rows - self.effective_parameters

    @property
    def _slope(self) -> float:
        """The mean of ψ′ over the residuals that count, one for squares; ψ′(0) is one."""
        return 1.0 if self._influence is None else (float(self._influence[1]) - self._masked) / self.rows

    @property
    def _root(self) -> Array:
        """L `[p, rank]` with L Lᵀ = (JᵀJ + Λ)⁻¹, next to a prior with JᵀJ counted as often as ψ′ says."""
        norms, singular, basis = self._decomposition
        kept = self._above_rounding
        return basis[kept].T / singular[kept] / norms[:, None]

    @property
    def variance(self) -> float:
        """s², the variance of a residual: estimated, or one where residuals are in units of their deviations.

        Raises:
            ValueError: where there are no more residuals than parameters to estimate it from.
        """
        if self._absolute and self._influence is None:
            return 1.0
        if self.degrees_of_freedom <= 0:
            raise ValueError(
                "The errors of parameters can be estimated only from more residuals than parameters. "
                f"Received: {self.rows} residuals, {self._jacobian.shape[1]} parameters"
            )
        if self._influence is None:
            return self.chi_square / self.degrees_of_freedom
        slope = self._slope
        if slope <= 0:
            raise ValueError(
                "By this loss most residuals are outliers, so that their spread cannot be estimated: a larger "
                f"loss_scale may do. Received: a mean curvature of the loss of {slope:.3g}"
            )
        return float(self._influence[0]) / self.degrees_of_freedom / slope**2

    def covariance(self) -> Array:
        """Return s²(JᵀJ + Λ)⁻¹ `[p, p]`, by the pseudoinverse; zero for the parameters that are not free.

        Raises:
            ValueError: where s² cannot be estimated. What is not `determined` is for the caller to see to.
        """
        variance = self.variance if self._precision is None else self.variance * self._slope
        covariance = np.zeros((self._free.size, self._free.size))
        covariance[np.ix_(self._free, self._free)] = variance * self._root @ self._root.T
        return covariance

    def refuse_undetermined(self) -> None:
        """Raise ValueError where a combination of the parameters is not determined."""
        if self.rank < self._decomposition[1].size:
            singular = self._decomposition[1]
            raise ValueError(
                "The residuals do not determine all parameters: a combination of them can change without effect. Fix "
                "one, or add a residual for it. "
                f"Received: a Jacobian whose singular values, columns scaled, go down to {singular[-1]:.3g}"
            )

    def quantile(self, level: float) -> float:
        """Return by how many standard errors a parameter may be off in a fraction `level` of all cases: Student's t."""
        import scipy.stats

        tail = (1 + level) / 2
        return scipy.stats.norm.ppf(tail) if self._absolute else scipy.stats.t.ppf(tail, self.degrees_of_freedom)


def plane_across(normals: Array) -> Array:
    """Return an orthonormal basis, columns, of what is across `normals` `[k, p]`, which may depend on one another.

    They do if parameters are fixed: what is left of those of a fixed point on a manifold is zero.
    """
    _, singular, basis = np.linalg.svd(normals)
    rounding = max(normals.shape) * np.finfo(normals.dtype).eps * singular.max(initial=0)
    return basis[np.count_nonzero(singular > rounding) :].T


def correlation_of(covariance: Array) -> Array:
    """Return the correlation matrix `[p, p]` of a covariance; one on the diagonal, zero beside a variance of zero."""
    errors = np.sqrt(np.maximum(np.diag(covariance), 0))  # below it is rounding
    inverse = np.divide(1, errors, out=np.zeros_like(errors), where=errors > 0)
    correlation = covariance * inverse[:, None] * inverse
    np.fill_diagonal(correlation, 1)
    return np.clip(correlation, -1, 1)
