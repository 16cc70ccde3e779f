"""Decompositions of one curvature, JᵀHJ = AᵀA, A = RᵀJ: by weights, `[p, p]`, by examples, `[n·m, n·m]`, or by layers.

With JᵀHJ = Q diag(λ) Qᵀ, the covariance of outputs of new inputs with Jacobian J* is

    J* (τ JᵀHJ + δI)⁻¹ J*ᵀ = (J*Q) diag(1/(τλ + δ)) (J*Q)ᵀ

and with AAᵀ = U diag(λ) Uᵀ, C = J*Aᵀ U, by the push-through identity,

    = (J*J*ᵀ − C diag(τ/(τλ + δ)) Cᵀ)/δ

By layers, JᵀHJ of each variable is taken for B ⊗ G, and that of two variables for zero: Q is then made of Q_B ⊗ Q_G.
τ and δ are chosen afterwards, at no further decomposition.

Draws of weights are P^(−½)ξ, ξ being standard normal: Q diag(1/√(τλ + δ)) ξ, or with t = τλ/δ

    δ^(−½) (ξ − Aᵀ U diag(τ/(δ√(1 + t)(1 + √(1 + t)))) Uᵀ A ξ)
"""

import abc

import numpy as np

from tfjac.linear.factors.kronecker_block import KroneckerBlock


class Basis(abc.ABC):
    """The eigenvectors of one side.

    Attributes:
        side: what it is called.
        curvature: the `NetworkCurvature`.
        eigenvalues: λ, none negative.
    """

    side = "weights"
    eigenvalues: np.ndarray

    def __init__(self, curvature):
        self.curvature = curvature

    @abc.abstractmethod
    def covariance(self, x, weight, precision):
        """Return the covariance of the outputs of each example of `x`, `[n, m, m]`, for τ and δ."""

    def deviations(self, normal, weight, precision):
        """Return draws of the weights around the trained ones, `[p, r]`, of a standard normal `[p, r]`, for τ and δ."""
        return self.times(normal / np.sqrt(weight * self.eigenvalues + precision)[:, None])

    def times(self, vectors):
        """Return Q·v of `v[p, r]`, where Q is known."""
        raise NotImplementedError


class Weights(Basis):
    """By all weights together, `[p, p]`."""

    def __init__(self, curvature):
        super().__init__(curvature)
        self.eigenvalues, self._vectors = decomposed(curvature.gram())

    def covariance(self, x, weight, precision):
        turned = self._vectors / np.sqrt(weight * self.eigenvalues + precision)
        projected = (rows @ turned for rows in self.curvature.jacobians(x))
        return np.concatenate([each @ each.transpose(0, 2, 1) for each in projected])

    def times(self, vectors):
        return self._vectors @ vectors


class Kronecker(Basis):
    """By the weights of each variable, as a Kronecker product of two small matrices.

    Attributes:
        blocks: Q of each variable, a list of `KroneckerBlock`.
    """

    def __init__(self, curvature):
        super().__init__(curvature)
        values, self.blocks = [], []
        for block in curvature.kronecker():
            (of_left, left), (of_right, right) = decomposed(block.left), decomposed(block.right)
            values.append(np.einsum(f"gi,go->{block.layout}", of_left, of_right).ravel())
            self.blocks.append(KroneckerBlock(left, right, block.layout))
        self.eigenvalues = np.concatenate(values)

    def covariance(self, x, weight, precision):
        """J is not formed."""
        variances = self._split(1 / (weight * self.eigenvalues + precision))
        return np.concatenate(
            [sum(map(covariance_of, self.blocks, halves, variances)) for halves in self.curvature.halves(x)]
        )

    def times(self, vectors):
        pairs = zip(self.blocks, self._split(vectors))
        return np.concatenate([block.times(part).numpy() for block, part in pairs])

    def transpose_times(self, vectors):
        """Return Qᵀ·v of `v[p, r]`."""
        pairs = zip(self.blocks, self._split(vectors))
        return np.concatenate([block.transpose_times(part).numpy() for block, part in pairs])

    def _split(self, vectors):
        """List the parts of each variable of `v[p, ...]`."""
        return np.split(vectors, np.cumsum([block.size for block in self.blocks])[:-1])


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

    def __init__(self, curvature):
        super().__init__(curvature)
        self.eigenvalues, self._vectors = decomposed(curvature.kernel())

    def covariance(self, x, weight, precision):
        scale, m = np.sqrt(weight / (weight * self.eigenvalues + precision)), self.curvature.num_outputs
        found = []
        for within, across in self.curvature.kernels(x):
            known = (across @ self._vectors * scale).reshape(-1, m, len(scale))
            prior = within.reshape(len(known), m, len(known), m)[range(len(known)), :, range(len(known))]
            found.append((prior - known @ known.transpose(0, 2, 1)) / precision)
        return np.concatenate(found)

    def deviations(self, normal, weight, precision):
        root = np.sqrt(1 + weight * self.eigenvalues / precision)
        along = self._vectors.T @ self.curvature.rows_times(normal)
        along *= (weight / precision / (root * (1 + root)))[:, None]
        return (normal - self.curvature.transpose_times(self._vectors @ along)) / np.sqrt(precision)


def check_finite(matrix):
    """Raise ValueError where an element of a curvature is not finite."""
    if not np.isfinite(matrix).all():
        raise ValueError(
            "The curvature must be finite: look for a weight or an input that is not. "
            f"Received: {np.count_nonzero(~np.isfinite(matrix)):,} elements that are NaN or infinite"
        )


def decomposed(matrix):
    """Return eigenvalues, none negative, and eigenvectors of symmetric matrices `[..., k, k]`, float64.

    Raises:
        ValueError: where an element is not finite.
    """
    check_finite(matrix)
    values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values, 0), vectors
