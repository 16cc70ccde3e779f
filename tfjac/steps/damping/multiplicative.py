"""The damping of textbooks: one factor down, another up."""

from collections.abc import Callable

import keras

from tfjac.arguments import positive
from tfjac.linear import arrays
from tfjac.steps.damping.base import Damping, Proposal, Verdict
from tfjac.types import Tensor


@keras.saving.register_keras_serializable("tfjac")
class MultiplicativeDamping(Damping):
    """λ falls by one factor after success and rises by another after failure (Marquardt 1963; MATLAB's `trainlm`).

    Args:
        initial: the first λ as a multiple of the curvature κ.
        decrease, increase: the factors.
        minimum, maximum: see `Damping`.
    """

    state_names = ("damping",)

    def __init__(
        self,
        initial: float = 1e-3,
        decrease: float = 0.1,
        increase: float = 10.0,
        minimum: float | None = None,
        maximum: float | None = None,
    ) -> None:
        super().__init__(minimum, maximum)
        self.initial = positive("initial", initial)
        self.decrease = positive("decrease", decrease, below=1)
        self.increase = positive("increase", increase)
        if self.increase <= 1:
            raise ValueError(f"increase must be larger than 1. Received: increase={increase}")

    def start(self, curvature: Tensor, length: Tensor) -> tuple[Tensor, ...]:
        """Return λ = initial·κ."""
        return (self.clip(self.initial * curvature, curvature),)

    def propose(self, state: tuple[Tensor, ...], solve: Callable[[Tensor], Proposal], curvature: Tensor) -> Proposal:
        """Solve with the λ of the state."""
        return solve(self.clip(state[0], curvature))

    def update(
        self, state: tuple[Tensor, ...], proposal: Proposal, verdict: Verdict, curvature: Tensor
    ) -> tuple[Tensor, ...]:
        """Multiply by the factor of the verdict."""
        factor = arrays.where(verdict.accepted, self.decrease, self.increase)
        return (self.clip(proposal.damping * arrays.cast(factor, curvature.dtype), curvature),)
