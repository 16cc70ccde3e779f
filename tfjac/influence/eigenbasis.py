"""P⁻¹ by Kronecker factors whose eigenvalues are corrected: of each weight, P ≈ (U ⊗ V) diag(s + nλ) (U ⊗ V)ᵀ.

U and V are the eigenvectors of A and G, with JᵀHJ ≈ A ⊗ G. In their basis s is the diagonal of Σ JᵀHJ itself: among all
diagonal matrices it is the one next to it. The blocks between two weights are left out.
"""

import numpy as np

from tfjac.influence.sides import chosen_damping
from tfjac.linear.factors.kronecker_block import KroneckerBlock


class EigenvalueCorrected:
    """P⁻¹ of each weight by itself, in the eigenbasis of its Kronecker factors; no matrix of p rows is formed.

    Args:
        data: `TrainingData`.
        damping: λ; None for a share of the mean curvature.

    Reference: T. George et al., "Fast approximate natural gradient descent in a Kronecker factored eigenbasis", 2018.
    """

    def __init__(self, data, damping):
        outputs, p = data.loss.num_outputs, data.num_parameters
        blocks = data.curvature.kronecker(data.x, outputs)
        self._bases = [
            KroneckerBlock(*(np.linalg.eigh(side)[1] for side in (block.left, block.right)), block.layout)
            for block in blocks
        ]
        sides = [(basis.left, basis.right) for basis in self._bases]
        moments = data.loss.scale * data.curvature.moments(data.x, outputs, p, sides)
        self.damping = chosen_damping(damping, np.sum(moments), data)
        self._values = moments + len(data.latent) * self.damping
        if not np.min(self._values) > 100 * data.epsilon * np.max(moments):
            raise ValueError(
                "The curvature is singular, or not finite: give a damping above zero. "
                f"Received: damping {self.damping:.3g}"
            )

    def __call__(self, rows):
        """Return rows·P⁻¹ for `rows[k, p]`."""
        found, start = np.empty_like(rows), 0
        for basis in self._bases:
            at = slice(start, start := start + basis.size)
            turned = basis.transpose_times(rows[:, at].T).numpy() / self._values[at, None]
            found[:, at] = basis.times(turned).numpy().T
        return found
