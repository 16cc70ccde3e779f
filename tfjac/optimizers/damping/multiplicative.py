"""The damping of textbooks: one factor down, another up."""

import keras
import tensorflow as tf

from tfjac.arguments import positive
from tfjac.optimizers.damping.base import Damping


@keras.saving.register_keras_serializable("tfjac")
class MultiplicativeDamping(Damping):
    """λ falls by one factor after success and rises by another after failure (Marquardt 1963; MATLAB's `trainlm`).

    Args:
        initial: the first λ as a multiple of the curvature κ.
        decrease, increase: the factors.
        minimum, maximum: see `Damping`.
    """

    state_names = ("damping",)

    def __init__(self, initial=1e-3, decrease=0.1, increase=10.0, minimum=None, maximum=None):
        super().__init__(minimum, maximum)
        self.initial = positive("initial", initial)
        self.decrease = positive("decrease", decrease, below=1)
        self.increase = positive("increase", increase)
        if self.increase <= 1:
            raise ValueError(f"increase must be larger than 1. Received: increase={increase}")

    def start(self, curvature, length):
        """Return λ = initial·κ."""
        return (self.clip(self.initial * curvature, curvature),)

    def propose(self, state, solve, curvature):
        """Solve with the λ of the state."""
        return solve(self.clip(state[0], curvature))

    def update(self, state, proposal, verdict, curvature):
        """Multiply by the factor of the verdict."""
        factor = tf.where(verdict.accepted, self.decrease, self.increase)
        return (self.clip(proposal.damping * tf.cast(factor, curvature.dtype), curvature),)

    def get_config(self):
        """Return the arguments of the constructor."""
        return {
            "initial": self.initial, "decrease": self.decrease, "increase": self.increase, **super().get_config()
        }  # fmt: skip
