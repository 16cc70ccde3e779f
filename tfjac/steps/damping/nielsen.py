"""Nielsen's damping: smooth in the gain ratio, and ever faster where steps keep failing."""

from collections.abc import Callable

import keras

from tfjac.arguments import positive
from tfjac.linear import arrays
from tfjac.steps.damping.base import Damping, Proposal, Verdict
from tfjac.types import Tensor


@keras.saving.register_keras_serializable("tfjac")
class NielsenDamping(Damping):
    """λ follows the gain ratio smoothly (Nielsen 1999; Madsen, Nielsen & Tingleff 2004, eq. 2.21).

    Accepted: λ ← λ·max(⅓, 1 − (2ρ − 1)³), ν ← 2. Rejected: λ ← λν, ν ← 2ν. The first λ is `initial`·κ.

    Args:
        initial: the first λ as a multiple of the curvature κ (τ in the paper).
        minimum, maximum: see `Damping`.
    """

    state_names = ("damping", "growth")
    largest_growth = 2.0**16

    def __init__(self, initial: float = 1e-3, minimum: float | None = None, maximum: float | None = None) -> None:
        super().__init__(minimum, maximum)
        self.initial = positive("initial", initial)

    def start(self, curvature: Tensor, length: Tensor) -> tuple[Tensor, ...]:
        """Return λ = initial·κ and ν = 2."""
        return self.clip(self.initial * curvature, curvature), 2 * arrays.ones_like(curvature)

    def propose(self, state: tuple[Tensor, ...], solve: Callable[[Tensor], Proposal], curvature: Tensor) -> Proposal:
        """Solve with the λ of the state."""
        return solve(self.clip(state[0], curvature))

    def update(
        self, state: tuple[Tensor, ...], proposal: Proposal, verdict: Verdict, curvature: Tensor
    ) -> tuple[Tensor, ...]:
        """Apply Nielsen's rule."""
        _, growth = state
        surprise = 2 * arrays.clip(verdict.ratio, 0, 1) - 1
        factor = arrays.where(verdict.accepted, arrays.maximum(1 - surprise**3, 1 / 3), growth)
        grown = arrays.minimum(2 * growth, self.largest_growth)
        return (
            self.clip(proposal.damping * factor, curvature),
            arrays.where(verdict.accepted, arrays.constant(2, growth), grown),
        )
