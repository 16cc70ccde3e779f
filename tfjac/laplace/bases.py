"""Decompositions of one curvature, JᵀHJ = (RᵀJ)ᵀ(RᵀJ): by weights, `[p, p]`, by examples, `[n·m, n·m]`, or by layers.

With JᵀHJ = Q diag(λ) Qᵀ, the covariance of outputs of new inputs with Jacobian J* is

    J* (τ JᵀHJ + δI)⁻¹ J*ᵀ = (J*Q) diag(1/(τλ + δ)) (J*Q)ᵀ

and with RᵀJJᵀR = U diag(λ) Uᵀ, C = J*JᵀR U, by the push-through identity,

    = (J*J*ᵀ − C diag(τ/(τλ + δ)) Cᵀ)/δ

By layers, JᵀHJ of each variable is taken for A ⊗ G, and that of two variables for zero: Q is then made of Q_A ⊗ Q_G.
τ and δ are chosen afterwards, at no further decomposition.

Draws of weights are P^(−½)ξ, ξ being standard normal: Q diag(1/√(τλ + δ)) ξ, or with t = τλ/δ

    δ^(−½) (ξ − JᵀR U diag(τ/(δ√(1 + t)(1 + √(1 + t)))) Uᵀ RᵀJ ξ)
"""

import abc
from typing import Any

import numpy as np

from tfjac.linear.factors.kronecker_block import KroneckerBlock


class Basis(abc.ABC):
    """The eigenvectors of one side.

    Args:
        curvature: `NetworkCurvature`.
        eigenvalues: λ, none negative.
        sizes: m and p.

    Attributes:
        side: what it is called.
        eigenvalues: λ.
    """

    side: str | None = None

    def __init__(self, curvature, eigenvalues, *sizes):
        self.eigenvalues, self._curvature, self._sizes = eigenvalues, curvature, sizes
        self.latent = curvature.latent

    @classmethod
    @abc.abstractmethod
    def of(cls, curvature, x, *sizes):
        """Decompose the curvature of all examples."""

    @abc.abstractmethod
    def covariance(self, x, weight, precision):
        """Return the covariance of the outputs of each example of `x`, `[n, m, m]`, for τ and δ."""

    @abc.abstractmethod
    def deviations(self, normal, weight, precision):
        """Return draws of the weights around the trained ones, `[p, r]`, of a standard normal `[p, r]`, for τ and δ."""

    def outputs(self, x, deviations):
        """Return J·v of the outputs of `x`, `[n·m, r]`, for `v[p, r]`."""
        return self._curvature.product(x, deviations, self._sizes[0])


class OfWeights(Basis):
    """By weights: Q is known."""

    side = "weights"

    @abc.abstractmethod
    def turned_back(self, vectors):
        """Return Q·v of `v[p, r]`."""

    def deviations(self, normal, weight, precision):
        """Return draws of the weights around the trained ones, `[p, r]`, of a standard normal `[p, r]`, for τ and δ."""
        return self.turned_back(normal / np.sqrt(weight * self.eigenvalues + precision)[:, None])


class Weights(OfWeights):
    """By all weights together, `[p, p]`."""

    _vectors: np.ndarray

    @classmethod
    def of(cls, curvature, x, *sizes):
        """Decompose the curvature of all examples."""
        values, vectors = decomposed(curvature.gram(x, sizes[0]))
        basis = cls(curvature, values, *sizes)
        basis._vectors = vectors
        return basis

    def covariance(self, x, weight, precision):
        """Return the covariance of the outputs of each example of `x`, `[n, m, m]`, for τ and δ."""
        turned = self._vectors / np.sqrt(weight * self.eigenvalues + precision)
        projected = (rows @ turned for rows in self._curvature.rows(x, *self._sizes))
        return np.concatenate([each @ each.transpose(0, 2, 1) for each in projected])

    def turned_back(self, vectors):
        """Return Q·v of `v[p, r]`."""
        return self._vectors @ vectors


class Kronecker(OfWeights):
    """By the weights of each variable, as a Kronecker product of two small matrices."""

    _vectors: list[KroneckerBlock]

    @classmethod
    def of(cls, curvature, x, *sizes):
        """Decompose the factors of all examples."""
        values, vectors = [], []
        for block in curvature.kronecker(x, sizes[0]):
            (of_left, left), (of_right, right) = decomposed(block.left), decomposed(block.right)
            values.append(np.einsum(f"gi,go->{block.layout}", of_left, of_right).ravel())
            vectors.append(KroneckerBlock(left, right, block.layout))
        basis = cls(curvature, np.concatenate(values), *sizes)
        basis._vectors = vectors
        return basis

    def covariance(self, x, weight, precision):
        """Return the covariance of the outputs of each example of `x`, `[n, m, m]`, for τ and δ; J is not formed."""
        variances = self._split(1 / (weight * self.eigenvalues + precision))
        return np.concatenate(
            [
                sum(map(covariance_of, self._vectors, halves, variances))
                for halves in self._curvature.halves(x, *self._sizes)
            ]
        )

    def turned_back(self, vectors):
        """Return Q·v of `v[p, r]`."""
        parts = zip(self._vectors, self._split(vectors))
        return np.concatenate([block.times(part).numpy() for block, part in parts])

    def _split(self, vectors):
        """List the parts of each variable of `v[p, ...]`."""
        return np.split(vectors, np.cumsum([block.size for block in self._vectors])[:-1])


def covariance_of(vectors, half, variances):
    """Return J Q diag(v) Qᵀ Jᵀ of one variable, `[n, m, m]`, for `v[size]`.

    Args:
        vectors: Q, a `KroneckerBlock`.
        half: `(a[n,g,i], d[n,m,g,o])`, of which J is the product, or `(J[n,m,size],)`.
        variances: v.
    """
    if len(half) == 1:
        (rows,) = half
        turned = vectors.transpose_times(rows.reshape(-1, vectors.size).T).numpy().T.reshape(rows.shape)
        turned = turned * np.sqrt(variances)
        return turned @ turned.transpose(0, 2, 1)
    a, d = half
    a = np.einsum("ngi,gij->ngj", a, vectors.left, optimize=True)
    d = np.einsum("nmgo,gok->nmgk", d, vectors.right, optimize=True)
    variances = variances.reshape(vectors.sizes)
    widths = np.einsum(f"ngi,{vectors.layout}->ngo", a**2, variances, optimize=True)
    flat = (d * np.sqrt(widths)[:, None]).reshape(*d.shape[:2], -1)
    return flat @ flat.transpose(0, 2, 1)


class Examples(Basis):
    """By examples."""

    side = "examples"
    _x: Any
    _vectors: np.ndarray

    @classmethod
    def of(cls, curvature, x, *sizes):
        """Decompose the curvature of all examples, which are kept."""
        values, vectors = decomposed(curvature.weighed_kernel(x, sizes[0]))
        basis = cls(curvature, values, *sizes)
        basis._x, basis._vectors = x, vectors
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

    def deviations(self, normal, weight, precision):
        """Return draws of the weights around the trained ones, `[p, r]`, of a standard normal `[p, r]`, for τ and δ."""
        root = np.sqrt(1 + weight * self.eigenvalues / precision)
        along = self._vectors.T @ self._curvature.weighed_product(self._x, normal, self._sizes[0])
        along *= (weight / precision / (root * (1 + root)))[:, None]
        narrowed = self._curvature.weighed_adjoint(self._x, self._vectors @ along, self._sizes[0])
        return (normal - narrowed) / np.sqrt(precision)


def decomposed(matrix):
    """Return eigenvalues, none negative, and eigenvectors of symmetric matrices `[..., k, k]`, float64.

    Raises:
        ValueError: where an element is not finite.
    """
    if not np.isfinite(matrix).all():
        raise ValueError(
            "The curvature must be finite: look for a weight or an input that is not. "
            f"Received: {np.count_nonzero(~np.isfinite(matrix)):,} elements that are NaN or infinite"
        )
    values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values, 0), vectors
