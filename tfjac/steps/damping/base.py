"""What a damping is: how much of λD is added to JᵀJ, and how the answer to a trial step changes it.

A damping keeps a tuple of scalar tensors as its state, so that the same code runs in a loop inside a graph, in an
optimizer whose state is saved, and in a test. A state of zeros means "not chosen yet". Of many fits at once, every
scalar is a vector `[n]`, one element for each, and every step `[n, p]`: the formulas are elementwise.

λ has the units of JᵀJ / D. What it is compared with is the *curvature* κ = max diag(D⁻¹ JᵀJ): the first λ and the
bounds are multiples of κ, so that scaling the residuals changes nothing.
"""

import abc
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tfjac.arguments import Configured, positive
from tfjac.linear import arrays
from tfjac.types import Tensor


class Proposal(NamedTuple):
    """A step that was solved for.

    Attributes:
        step: `[p]`, p in (JᵀJ + λD + Λ) p = −g; zeros where it could not be solved.
        solved: scalar bool, whether it could.
        damping: scalar, the λ it was solved with.
        length: scalar, ‖D^½ p‖.
        slope: scalar, gᵀp.
    """

    step: tf.Tensor
    solved: tf.Tensor
    damping: tf.Tensor
    length: tf.Tensor
    slope: tf.Tensor


def solved_where(wanted: Tensor, solve: Callable[[Tensor], Proposal], damping: Tensor, other: Proposal) -> Proposal:
    """Return the `Proposal` of `damping` where one is wanted, which one problem always does, else another.

    Systems of other fits are not factorised, as NaN has no solution.
    """
    if arrays.rank(wanted) == 0:
        return solve(damping)
    nowhere = tf.constant(float("nan"), damping.dtype)
    found = solve(arrays.where(wanted, damping, nowhere))
    return tf.nest.map_structure(lambda one, two: tf.compat.v1.where(wanted, one, two), found, other)  # by rows


class Verdict(NamedTuple):
    """What became of a proposal; scalars.

    Attributes:
        accepted: bool.
        ratio: ρ, actual over predicted reduction; −∞ where anything was not finite.
        slope: gᵀp, the directional derivative of the cost along the step.
        reduction: F − F(w + p); −∞ where not finite.
        cost: F before.
    """

    accepted: tf.Tensor
    ratio: tf.Tensor
    slope: tf.Tensor
    reduction: tf.Tensor
    cost: tf.Tensor


POOR = 0.25
"""Up to this ρ a trust region shrinks, if nothing else is said."""

LEAST_SHRINK, MOST_SHRINK = 0.1, 0.5
"""Between these is the factor that it shrinks by."""


class RegionChange(NamedTuple):
    """What a verdict does to a trust region; scalars.

    Attributes:
        poor: bool, whether ρ is so small, at most ¼, that the region shrinks.
        shrink: by which factor it shrinks then, from ⅒ to ½, by interpolation of the cost along the step.
        damping: by which factor λ changes: 1/shrink, ½ where the region grows, or 1.
    """

    poor: tf.Tensor
    shrink: tf.Tensor
    damping: tf.Tensor

    @classmethod
    def after(cls, verdict: Verdict, good: Tensor, poor: float = POOR) -> "RegionChange":
        """Return the change after a `Verdict`, where the region grows if `good`, a scalar bool (Moré 1978).

        Args:
            poor: up to which ρ the region shrinks.
        """
        shrink = MOST_SHRINK * verdict.slope / (verdict.slope + verdict.reduction)
        half = arrays.constant(MOST_SHRINK, shrink)
        shrink = arrays.where(verdict.reduction >= 0, half, arrays.maximum(shrink, LEAST_SHRINK))
        poor = verdict.ratio <= poor
        return cls(poor, shrink, arrays.where(poor, 1 / shrink, arrays.where(good, half, arrays.ones_like(shrink))))


class Damping(Configured, abc.ABC):
    """How λ is chosen, lowered after success and raised after failure.

    Args:
        minimum, maximum: bounds of λ as multiples of the curvature κ. Default: ε² and 1/ε of the dtype (below, λ is
            lost in the rounding of JᵀJ; above, the step is lost in the rounding of the variables).
    """

    state_names: tuple[str, ...] = ()
    """Names of the scalars of the state, the damping among them."""

    def __init__(self, minimum: float | None = None, maximum: float | None = None) -> None:
        self.minimum = None if minimum is None else positive("minimum", minimum)
        self.maximum = None if maximum is None else positive("maximum", maximum)
        if self.minimum is not None and self.maximum is not None and not self.minimum < self.maximum:
            raise ValueError(f"minimum must be below maximum. Received: minimum={minimum}, maximum={maximum}")

    @abc.abstractmethod
    def start(self, curvature: Tensor, length: Tensor) -> tuple[Tensor, ...]:
        """Return the first state, from κ and the scaled length ‖D^½ w‖ of the variables."""

    @abc.abstractmethod
    def propose(self, state: tuple[Tensor, ...], solve: Callable[[Tensor], Proposal], curvature: Tensor) -> Proposal:
        """Return a `Proposal`, given `solve(λ) -> Proposal` and κ."""

    @abc.abstractmethod
    def update(
        self, state: tuple[Tensor, ...], proposal: Proposal, verdict: Verdict, curvature: Tensor
    ) -> tuple[Tensor, ...]:
        """Return the state after `verdict` on `proposal`."""

    def starting_with(self, initial: float | None) -> "Damping":
        """Return the damping whose first λ is `initial`·κ, where the user has named none and there is one."""
        return self

    def metric(self, state: tuple[Tensor, ...], scaling: Tensor) -> Tensor:
        """Return the D `[p]` that steps are measured with, of the D of the scaling."""
        return scaling

    def remeasures(self, before: tuple[Tensor, ...], after: tuple[Tensor, ...]) -> Tensor:
        """Return whether a rejected attempt, by the states before and after it, is not to be repeated with this D."""
        return arrays.zeros_like(after[0], tf.bool)

    def resume(self, state: tuple[Tensor, ...], curvature: Tensor, length: Tensor) -> tuple[Tensor, ...]:
        """Return `state`, or the first one where it is all zeros."""
        fresh = arrays.all_of([arrays.equal(value, 0) for value in state])
        return tuple(arrays.where(fresh, new, old) for new, old in zip(self.start(curvature, length), state))

    def bounds(self, curvature: Tensor) -> tuple[Tensor, Tensor]:
        """Return the smallest and the largest λ allowed at curvature κ."""
        limits = arrays.finfo(curvature)
        low = limits.eps**2 if self.minimum is None else self.minimum
        high = 1 / limits.eps if self.maximum is None else self.maximum
        curvature = arrays.where(curvature > 0, curvature, arrays.ones_like(curvature))
        return arrays.maximum(low * curvature, limits.tiny), arrays.minimum(high * curvature, limits.max)

    def clip(self, value: Tensor, curvature: Tensor) -> Tensor:
        """Return λ within its bounds."""
        low, high = self.bounds(curvature)
        return arrays.clip(value, low, high)
