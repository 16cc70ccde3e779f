"""(JᵀHJ + δI)⁻¹ between outputs, by weights or by examples. Let g be the gradients of the losses of the examples.

By weights, `[p, p]`, the gradient is Jᵀd with d the slope of the loss; its force is d, and its metric that of H:

    z moves by J* P⁻¹ Jᵀ u      P = JᵀHJ + δI

By examples, `[n·m, n·m]`, with A = RᵀJ, H = R Rᵀ and R r = d, the gradient is Aᵀr; its force is r, and its metric I:

    z moves by J* Aᵀ (AAᵀ + δI)⁻¹ u

To first order u is the force f. One Newton step of the loss of all other examples has u = (I − HB)⁻¹f, where B is the
block of the example, J P⁻¹ Jᵀ or A P⁻¹ Aᵀ: for squares and linear models that is exact, and tr HB is the leverage.
"""

import abc
from typing import Any

import numpy as np
import scipy.linalg

from tfjac.laplace.bases import Kronecker, check_finite
from tfjac.laplace.curvature import ELEMENTS


class Side(abc.ABC):
    """One of the two.

    Attributes:
        forces: f, `[n, m]`.
        metrics: H in these terms, `[n, m, m]`.
        damping: δ/n.
    """

    forces: np.ndarray
    metrics: np.ndarray
    damping: float

    @abc.abstractmethod
    def blocks(self):
        """Return B, `[n, m, m]`."""

    def own(self):
        """Return fᵀB f of each example, `[n]`."""
        return np.einsum("ni,nij,nj->n", self.forces, self.blocks(), self.forces)

    @abc.abstractmethod
    def moved(self, x, left, forces):
        """Return leftᵀ·(how z moves) for each example of `x` and each of the training examples, `[t, q, n]`.

        Args:
            x: the inputs, t of them.
            left: `[t, q, m]`.
            forces: u, `[n, m]`.
        """


class ByWeights(Side):
    """P by its Cholesky factor, by conjugate gradients, or by Kronecker factors.

    Args:
        data: `TrainingData`.
        damping: λ; None for a share of the mean curvature.
        inverse: class of what solves with P.
    """

    def __init__(self, data, damping, inverse):
        self._data, self._curvature = data, data.curvature
        self._inverse = inverse(data, damping)
        self.damping, self.forces = self._inverse.damping, data.slopes()

    @property
    def metrics(self):
        """H, `[n, m, m]`."""
        return self._data.loss.hessians(self._curvature.latent, self._curvature.counts)

    def blocks(self):
        """Return J P⁻¹ Jᵀ of each example."""
        found = []
        for rows in self._curvature.jacobians(self._curvature.x):
            solved = self._inverse(rows.reshape(-1, rows.shape[-1])).reshape(rows.shape)
            found.append(rows @ solved.transpose(0, 2, 1))
        return np.concatenate(found)

    def own(self):
        """Return gᵀP⁻¹g of each example: one solution for each."""
        parts = self._curvature.gradients(self._curvature.x, self.forces)
        return np.concatenate([np.einsum("np,np->n", part, self._inverse(part)) for part in parts])

    def moved(self, x, left, forces):
        """Return leftᵀ J* P⁻¹ Jᵀ u."""
        by_row = [np.concatenate([*self._curvature.gradients(x, row)]) for row in left.swapaxes(0, 1)]
        solved = self._inverse(np.stack(by_row, axis=1).reshape(-1, self._curvature.num_parameters))
        found = [solved @ part.T for part in self._curvature.gradients(self._curvature.x, forces)]
        return np.concatenate(found, axis=1).reshape(*left.shape[:2], -1)


class ByExamples(Side):
    """AAᵀ + δI by its Cholesky factor."""

    def __init__(self, data, damping):
        self._curvature, self._scale = data.curvature, np.sqrt(data.loss.scale)
        n, m = len(data.labels), data.curvature.num_outputs
        self._kernel = data.loss.scale * data.curvature.kernel()
        self.damping = chosen_damping(damping, np.trace(self._kernel), data)
        self._factor = factored(self._kernel, n * self.damping, data)
        self.forces = self._scale * data.curvature.residuals(data.labels)
        if not np.isfinite(self.forces).all():
            raise ValueError(
                "Some outputs are so far beyond the targets' side that the curvature is rounded to zero: use "
                f"method='weights'. Received: {np.count_nonzero(~np.isfinite(self.forces)):,} such outputs"
            )
        self.metrics = np.broadcast_to(np.eye(m), (n, m, m))

    def blocks(self):
        """Return A P⁻¹ Aᵀ of each example."""
        n, m = self.forces.shape
        hat = scipy.linalg.cho_solve(self._factor, self._kernel).reshape(n, m, n, m)
        return hat[range(n), :, range(n)]

    def moved(self, x, left, forces):
        """Return leftᵀ J* Aᵀ (AAᵀ + δI)⁻¹ u."""
        (n, m), found, start = forces.shape, [], 0
        for _, across in self._curvature.kernels(x):
            across = across.reshape(-1, m, n * m)
            part = left[start : start + len(across)] @ across * self._scale
            start += len(across)
            solved = scipy.linalg.cho_solve(self._factor, part.reshape(-1, n * m).T).T
            found.append(np.einsum("tqnm,nm->tqn", solved.reshape(*part.shape[:2], n, m), forces))
        return np.concatenate(found)


class Factored:
    """P⁻¹ by the Cholesky factor of P."""

    def __init__(self, data, damping):
        gram = data.loss.scale * data.curvature.gram()
        self.damping = chosen_damping(damping, np.trace(gram), data)
        self._factor = factored(gram, len(data.labels) * self.damping, data)

    def __call__(self, rows):
        """Return rows·P⁻¹ for `rows[k, p]`."""
        return scipy.linalg.cho_solve(self._factor, rows.T).T


class ConjugateGradients:
    """P⁻¹ by conjugate gradients, many right-hand sides at once; P is not formed.

    Iterations end where all residuals are TOLERANCE of their right-hand sides.
    """

    TOLERANCE, MOST = 1e-5, 1000

    def __init__(self, data, damping):
        self._data = data
        trace = data.curvature.trace() if damping is None else 0.0
        self.damping = chosen_damping(damping, data.loss.scale * trace, data)
        if not self.damping > 0:
            raise ValueError(f"Conjugate gradients need a damping above zero. Received: damping={damping!r}")

    def __call__(self, rows):
        """Return rows·P⁻¹ for `rows[k, p]`."""
        size = max(1, ELEMENTS // rows.shape[1])
        return np.concatenate([self._solved(rows[k : k + size].T).T for k in range(0, len(rows), size)])

    def _product(self, columns):
        """Return P·V, `[p, k]`."""
        curved = self._data.loss.scale * self._data.curvature.times(columns)
        return curved + len(self._data.labels) * self.damping * columns

    def _solved(self, b):
        x, r = np.zeros_like(b), b.copy()
        p, rr = r.copy(), np.sum(b * b, axis=0)
        goal = self.TOLERANCE**2 * rr
        for _ in range(self.MOST):
            if np.all(rr <= goal):
                return x
            q = self._product(p)
            step = rr / np.maximum(np.sum(p * q, axis=0), np.finfo(float).tiny)
            x, r = x + step * p, r - step * q
            before, rr = rr, np.sum(r * r, axis=0)
            p = r + rr / np.maximum(before, np.finfo(float).tiny) * p
        raise ValueError(
            f"Conjugate gradients did not converge in {self.MOST} iterations: raise the damping. "
            f"Received: damping {self.damping:.3g}, and residuals of {np.sqrt(np.max(rr / goal)) * self.TOLERANCE:.1e}"
        )


SHARE = 0.1
"""The damping that is chosen, in mean eigenvalues of the curvature."""


def chosen_damping(damping, trace, data):
    """Return λ: as given, or a share of the mean eigenvalue of JᵀHJ/n."""
    return SHARE * trace / (data.curvature.num_parameters * len(data.labels)) if damping is None else damping


def factored(matrix: np.ndarray, shift: float, data: Any):
    """Return the Cholesky factor of matrix + shift·I.

    Raises:
        ValueError: where that is singular to the digits of the model.
    """
    check_finite(matrix)
    try:
        factor = scipy.linalg.cho_factor(matrix + shift * np.eye(len(matrix)), lower=True)
    except np.linalg.LinAlgError:
        factor = None
    pivots = np.zeros(1) if factor is None else np.diag(factor[0]) ** 2
    digits = data.epsilon * (1 if shift else len(matrix))
    if not np.min(pivots) > digits * np.max(np.diag(matrix), initial=0.0):
        raise ValueError(
            "The curvature is singular, so the effect of an example is not determined: give a damping above zero, "
            f"or a larger one. Received: damping {shift / len(data.labels):.3g}"
        )
    return factor


class EigenvalueCorrected:
    """P⁻¹ of each weight by itself, P ≈ (U ⊗ V) diag(s + nλ) (U ⊗ V)ᵀ; no matrix of p rows is formed.

    U and V are the eigenvectors of B and G, with JᵀHJ ≈ B ⊗ G. In their basis s is the diagonal of Σ JᵀHJ itself: among
    all diagonal matrices it is the one next to it. The blocks between two weights are left out.

    Args:
        data: `TrainingData`.
        damping: λ; None for a share of the mean curvature.

    Reference: T. George et al., "Fast approximate natural gradient descent in a Kronecker factored eigenbasis", 2018.
    """

    def __init__(self, data, damping):
        self._basis = Kronecker(data.curvature)
        moments = data.loss.scale * data.curvature.moments(self._basis.blocks)
        self.damping = chosen_damping(damping, np.sum(moments), data)
        self._values = moments + len(data.labels) * self.damping
        if not np.min(self._values) > 100 * data.epsilon * np.max(moments):
            raise ValueError(
                "The curvature is singular, or not finite: give a damping above zero. "
                f"Received: damping {self.damping:.3g}"
            )

    def __call__(self, rows):
        """Return rows·P⁻¹ for `rows[k, p]`."""
        return self._basis.times(self._basis.transpose_times(rows.T) / self._values[:, None]).T
