"""Two decompositions of one curvature, JᵀHJ = (RᵀJ)ᵀ(RᵀJ): by weights, `[p, p]`, or by examples, `[n·m, n·m]`.

With JᵀHJ = Q diag(λ) Qᵀ, the covariance of outputs of new inputs with Jacobian J* is

    J* (τ JᵀHJ + δI)⁻¹ J*ᵀ = (J*Q) diag(1/(τλ + δ)) (J*Q)ᵀ

and with RᵀJJᵀR = U diag(λ) Uᵀ, C = J*JᵀR U, by the push-through identity,

    = (J*J*ᵀ − C diag(τ/(τλ + δ)) Cᵀ)/δ

τ and δ are chosen afterwards, at no further decomposition.
"""

import abc
from typing import Any

import numpy as np


class Basis(abc.ABC):
    """The eigenvectors of one side.

    Args:
        curvature: `NetworkCurvature`.
        matrix: JᵀHJ or RᵀJJᵀR, float64.
        sizes: m and p.

    Attributes:
        side: what it is called.
        eigenvalues: λ, ascending, none negative.
    """

    side: str | None = None

    def __init__(self, curvature, matrix, num_outputs, num_parameters):
        if not np.isfinite(matrix).all():
            raise ValueError(
                "The curvature must be finite: look for a weight or an input that is not. "
                f"Received: {np.count_nonzero(~np.isfinite(matrix)):,} elements that are NaN or infinite"
            )
        values, self._vectors = np.linalg.eigh(matrix)
        self.eigenvalues = np.maximum(values, 0)
        self._curvature, self._sizes = curvature, (num_outputs, num_parameters)
        self.latent = curvature.latent

    @classmethod
    @abc.abstractmethod
    def of(cls, curvature, x, *sizes):
        """Decompose the curvature of all examples."""

    @abc.abstractmethod
    def covariance(self, x, weight, precision):
        """Return the covariance of the outputs of each example of `x`, `[n, m, m]`, for τ and δ."""


class Weights(Basis):
    """By weights."""

    side = "weights"

    @classmethod
    def of(cls, curvature, x, *sizes):
        """Decompose the curvature of all examples."""
        return cls(curvature, curvature.gram(x, sizes[0]), *sizes)

    def covariance(self, x, weight, precision):
        """Return the covariance of the outputs of each example of `x`, `[n, m, m]`, for τ and δ."""
        scale = 1 / np.sqrt(weight * self.eigenvalues + precision)
        projected = ((rows @ self._vectors) * scale for rows in self._curvature.rows(x, *self._sizes))
        return np.concatenate([each @ each.transpose(0, 2, 1) for each in projected])


class Examples(Basis):
    """By examples."""

    side = "examples"
    _x: Any

    @classmethod
    def of(cls, curvature, x, *sizes):
        """Decompose the curvature of all examples, which are kept."""
        basis = cls(curvature, curvature.weighed_kernel(x, sizes[0]), *sizes)
        basis._x = x
        return basis

    def covariance(self, x, weight, precision):
        """Return the covariance of the outputs of each example of `x`, `[n, m, m]`, for τ and δ."""
        scale, m = np.sqrt(weight / (weight * self.eigenvalues + precision)), self._sizes[0]
        found = []
        for within, across in self._curvature.kernels(x, self._x, m):
            known = (across @ self._vectors * scale).reshape(-1, m, len(scale))
            prior = within.reshape(len(known), m, len(known), m)[range(len(known)), :, range(len(known))]
            found.append((prior - known @ known.transpose(0, 2, 1)) / precision)
        return np.concatenate(found)
