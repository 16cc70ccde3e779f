"""Trust-region damping: λ is whatever makes the step fill a region that is trusted."""

from collections.abc import Callable

import keras
import tensorflow as tf

from tfjac.arguments import positive
from tfjac.linear import arrays
from tfjac.steps.damping.base import Damping, Proposal, RegionChange, Verdict, solved_where
from tfjac.types import Tensor


def _no_radius(like: Tensor) -> Tensor:
    """Return the least radius that stands for none, of the dtype of a scalar."""
    return arrays.constant(arrays.finfo(like).max / 16, like)


@keras.saving.register_keras_serializable("tfjac")
class TrustRegionDamping(Damping):
    """The state is a radius Δ, and λ solves ‖D^½ p(λ)‖ = Δ to within a tenth (Moré 1978; MINPACK `lmder`, `lmpar`).

    The Gauss–Newton step (the smallest λ) is taken where it fits. Otherwise 1/‖D^½ p‖, which is nearly linear in λ
    (Hebden 1973), is brought to 1/Δ by the secant method inside a bracket; each trial is one more solve with the same
    JᵀJ. The radius shrinks by interpolation where ρ ≤ ¼, doubles where ρ ≥ ¾.

    Args:
        factor: the first radius as a multiple of ‖D^½ w‖; 1 as in SciPy's `trf`, with which far starts go wrong less
            often than with MINPACK's 100. A start at zero has no such length. There the first step is that of Gauss and
            Newton, if it is no more than ten times as long as that of λ = 10⁻³κ, else the latter: where two columns of
            J are alike at zero, the former is as long as rounding lets it be.
        minimum, maximum: see `Damping`.
        residual_curvature: whether to estimate the curvature that JᵀJ leaves out, where residuals stay large. That is
            for `least_squares` and `curve_fit` of one problem with up to 256 parameters in float64, a sum of squares.
    """

    state_names = ("radius", "damping")
    tolerance = 0.1
    """Lengths are met to within this part of the radius."""
    max_solves = 12
    """Of one attempt."""
    first_guess = 1e-3
    """The first guess of λ, a multiple of κ."""
    good = 0.75
    """From this ρ the radius grows."""
    reach = 10
    """A region is no larger than so many steps."""

    def __init__(
        self,
        factor: float = 1.0,
        minimum: float | None = None,
        maximum: float | None = None,
        residual_curvature: bool = True,
    ) -> None:
        super().__init__(minimum, maximum)
        self.factor, self.residual_curvature = positive("factor", factor), bool(residual_curvature)

    def start(self, curvature: Tensor, length: Tensor) -> tuple[Tensor, ...]:
        """Return Δ = factor·‖D^½ w‖, which stands for none where that is zero, and a first guess of λ."""
        radius = arrays.where(length > 0, self.factor * length, _no_radius(length))
        return radius, self.clip(self.first_guess * curvature, curvature)

    def propose(self, state: tuple[Tensor, ...], solve: Callable[[Tensor], Proposal], curvature: Tensor) -> Proposal:
        """Return the Gauss–Newton step where it fits the radius, else the step that fills it."""
        radius, damping = state
        newton = solve(self.bounds(curvature)[0])
        guess, none = self.clip(damping, curvature), radius >= _no_radius(radius)

        def first() -> Proposal:
            damped = solved_where(none, solve, guess, newton)
            held = none & (~newton.solved | (newton.length > self.reach * damped.length))
            return arrays.choice(held, damped, newton)

        fits = none | (newton.solved & (newton.length <= (1 + self.tolerance) * radius))
        step = arrays.branch(arrays.reduce_any(none), first, lambda: newton)
        filled = lambda: self._fill(radius, guess, solve, self.bounds(curvature), step, fits)  # noqa: E731
        return arrays.branch(arrays.reduce_all(fits), lambda: step, filled)

    def _fill(
        self,
        radius: Tensor,
        guess: Tensor,
        solve: Callable[[Tensor], Proposal],
        bounds: tuple[Tensor, Tensor],
        step: Proposal,
        fits: Tensor,
    ) -> Proposal:
        """Find λ with ‖D^½ p(λ)‖ within a tenth of `radius`, where `step` does not fit."""
        low, high = bounds

        def outside(lower: Tensor, upper: Tensor, proposal: Proposal) -> Tensor:
            off = arrays.absolute(proposal.length - radius) > self.tolerance * radius
            return (lower < upper) & (off | ~proposal.solved)

        def unfinished(count: Tensor, lower: Tensor, upper: Tensor, last: tuple, proposal: Proposal) -> Tensor:
            return (count < self.max_solves) & arrays.reduce_any(outside(lower, upper, proposal))

        def again(count: Tensor, lower: Tensor, upper: Tensor, last: tuple, proposal: Proposal) -> tuple:
            searching = outside(lower, upper, proposal)
            long = ~proposal.solved | (proposal.length > radius)
            lower = arrays.where(searching & long, proposal.damping, lower)
            upper = arrays.where(searching & ~long, proposal.damping, upper)
            trial = solved_where(searching, solve, self._next(radius, lower, upper, last, proposal), proposal)
            return count + 1, lower, upper, (proposal.damping, proposal.length), trial

        nowhere = (arrays.zeros_like(guess), arrays.zeros_like(guess))
        first = solved_where(~fits, solve, guess, step)
        start = (arrays.constant(1, low, tf.int32), arrays.where(fits, high, low), high, nowhere, first)
        return Proposal(*arrays.loop(unfinished, again, start)[-1])

    @staticmethod
    def _next(radius: Tensor, lower: Tensor, upper: Tensor, last: tuple, proposal: Proposal) -> Tensor:
        """Secant step on 1/‖D^½ p‖ through the last two λ; the geometric mean of the bracket where that leaves it."""
        old_damping, old_length = last
        inverse, old_inverse = 1 / proposal.length, arrays.divide_no_nan(arrays.ones_like(old_length), old_length)
        slope = (inverse - old_inverse) / (proposal.damping - old_damping)
        guess = proposal.damping + (1 / radius - inverse) / slope
        inside = arrays.is_finite(guess) & (guess > lower) & (guess < upper)
        return arrays.where(inside, guess, arrays.sqrt(lower) * arrays.sqrt(upper))

    def update(
        self, state: tuple[Tensor, ...], proposal: Proposal, verdict: Verdict, curvature: Tensor
    ) -> tuple[Tensor, ...]:
        """Shrink, keep or double the radius by the gain ratio, and scale λ along with it."""
        radius, _ = state
        newton = proposal.damping <= self.bounds(curvature)[0]
        good = (verdict.ratio >= self.good) | newton
        change = RegionChange.after(verdict, good)
        length = arrays.where(proposal.solved, proposal.length, radius)
        radius = arrays.minimum(radius, self.reach * length)
        radius = arrays.where(change.poor, change.shrink * radius, arrays.where(good, 2 * length, radius))
        limits = arrays.finfo(radius)
        radius = arrays.clip(radius, limits.tiny, limits.max)
        return radius, self.clip(proposal.damping * change.damping, curvature)
