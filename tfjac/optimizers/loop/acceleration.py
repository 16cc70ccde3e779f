"""Second order along the step: geodesic acceleration."""

from collections.abc import Callable

import keras
import tensorflow as tf

from tfjac.arguments import positive, resolve
from tfjac.optimizers.damping.base import Proposal
from tfjac.optimizers.damping.scaling import scaled_norm
from tfjac.types import Config, Function, Tensor


@keras.saving.register_keras_serializable("tfjac")
class GeodesicAcceleration:
    """Follows the curve of the model rather than its tangent, where residuals are bent: the step v + ½a,

        (JᵀJ + λD + Λ) v = −g,    (JᵀJ + λD + Λ) a = −Jᵀ d²r(w + t·v)/dt²

    with the second derivative along v by forward mode, twice. Where a is too long for the parabola to be trusted,
    ‖D^½ a‖ > limit·‖D^½ v‖, or cannot be had, the step is v. The model that ρ compares with is that of v alone.

    Args:
        limit: α.

    Cost: for each attempt, one more solve, and about four forward passes; tracing takes longer.
    Reference: M. K. Transtrum, J. P. Sethna, "Improvements to the Levenberg-Marquardt algorithm for nonlinear
    least-squares minimization", 2012.
    """

    def __init__(self, limit: float = 0.75) -> None:
        self.limit = positive("limit", limit)

    def bend(
        self, proposal: Proposal, solve: Function, second_derivative: Callable[[Tensor], Tensor], scaling: Tensor
    ) -> Tensor:
        """Return ½a `[p]`, or zeros where it is too long.

        Args:
            proposal: the `Proposal` of v.
            solve: what the `solver` of a `System` returned.
            second_derivative: function from v `[p]` to the second derivative of the residuals along it, `[rows]`.
            scaling: `[p]`, D.
        """
        acceleration, solved = solve(proposal.damping, second_derivative(proposal.step))
        short = solved & (scaled_norm(acceleration, scaling) <= self.limit * proposal.length)
        return tf.where(short, acceleration / 2, tf.zeros_like(acceleration))

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        return {"limit": self.limit}

    @classmethod
    def from_config(cls, config: Config) -> "GeodesicAcceleration":
        """Rebuild from `get_config()`."""
        return cls(**config)


def get_acceleration(acceleration):
    """Return the object that `acceleration` names, or itself, or None for none."""
    if acceleration is None:
        return None
    return resolve("acceleration", acceleration, {"geodesic": GeodesicAcceleration})
