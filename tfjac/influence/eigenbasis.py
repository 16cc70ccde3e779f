"""P⁻¹ by Kronecker factors whose eigenvalues are corrected: of each weight, P ≈ (U ⊗ V) diag(s + nλ) (U ⊗ V)ᵀ.

U and V are the eigenvectors of B and G, with JᵀHJ ≈ B ⊗ G. In their basis s is the diagonal of Σ JᵀHJ itself: among all
diagonal matrices it is the one next to it. The blocks between two weights are left out.
"""

import numpy as np

from tfjac.influence.sides import chosen_damping
from tfjac.laplace.bases import Kronecker


class EigenvalueCorrected:
    """P⁻¹ of each weight by itself, in the eigenbasis of its Kronecker factors; no matrix of p rows is formed.

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
