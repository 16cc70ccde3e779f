"""P⁻¹ by Kronecker factors whose eigenvalues are corrected: of each weight, P ≈ (U ⊗ V) diag(s + nλ) (U ⊗ V)ᵀ.

U and V are the eigenvectors of A and G, with JᵀHJ ≈ A ⊗ G. In their basis s is the diagonal of Σ JᵀHJ itself: among all
diagonal matrices it is the one next to it. The blocks between two weights are left out.
"""

import numpy as np

from tfjac.influence.sides import chosen_damping


class EigenvalueCorrected:
    """P⁻¹ of each weight by itself, in the eigenbasis of its Kronecker factors; no matrix of p rows is formed.

    Args:
        data: `TrainingData`.
        damping: λ; None for a share of the mean curvature.

    Reference: T. George et al., "Fast approximate natural gradient descent in a Kronecker factored eigenbasis", 2018.
    """

    def __init__(self, data, damping):
        outputs, p = data.loss.num_outputs, data.num_parameters
        pairs = data.curvature.kronecker(data.x, outputs)
        self._bases = [(np.linalg.eigh(a)[1], np.linalg.eigh(g)[1]) for a, g, _ in pairs]
        self._layouts = [layout for _, _, layout in pairs]
        moments = data.loss.scale * data.curvature.moments(data.x, outputs, p, self._bases)
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
        for (left, right), layout in zip(self._bases, self._layouts):
            sizes = dict(zip("gio", (*left.shape[:2], right.shape[1])))
            at = slice(start, start := start + int(np.prod([*sizes.values()])))
            shape = [sizes[axis] for axis in layout]
            turned = _turned(rows[:, at].reshape(-1, *shape), layout, left, right)
            turned = turned / self._values[at].reshape(shape)
            back = _turned(turned, layout, left.transpose(0, 2, 1), right.transpose(0, 2, 1))
            found[:, at] = back.reshape(len(rows), -1)
        return found


def _turned(blocks, layout, left, right):
    """Return Uᵀ X V in each group, for X in the order of `layout`, one for each row."""
    order = [0, *(1 + layout.index(axis) for axis in "gio")]
    turned = left.transpose(0, 2, 1) @ blocks.transpose(order) @ right
    return turned.transpose(np.argsort(order))
