"""Radius damping: a trust region for which one solve a step mostly suffices."""

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from tfjac.arguments import positive
from tfjac.linear import arrays
from tfjac.steps.damping.base import Damping, Proposal, RegionChange, Verdict, solved_where
from tfjac.types import Tensor


@keras.saving.register_keras_serializable("tfjac")
class RadiusDamping(Damping):
    """λ is kept where the step is about as long as a radius Δ: ‖D^½ p(λ)‖ between Δ/1.5 and 1.5·Δ.

    The step is solved for with the λ that the last step leads to expect. Mostly its length will do. Otherwise it is
    solved for again, with λ′ = λ·(‖D^½ p‖/Δ)^1.5 inside a bracket. If λ′ < λ, the model gains at most
    λ‖D^½ p‖²(λ/λ′ − 1), by an integral for each eigenvalue. If that is below 1 % of its gain, the step stays.

    If λ is controlled by ρ alone, as in Nielsen's rule, it stays where it is while ρ is near ½, and steps become
    shorter with the gradient; with a radius λ falls with it.
    The first step has no radius: λ is `initial`·κ, and Δ is the length of that step.

    The radius shrinks by interpolation if ρ ≤ ⅒, and doubles if ρ ≥ ¾ (Moré 1978; Conn, Gould & Toint 2000, ch. 6).
    It also doubles after three kept steps in a row that did not let it grow, if ρ > ¼: in a curved valley ρ is about ⅓
    for steps of any length, and the longest gain most.

    Args:
        initial: the first λ as a multiple of the curvature κ. Default: 1e-9 if the solver is `"sparse"`, else 1e-3.
        minimum, maximum: see `Damping`.
    """

    state_names = ("radius", "damping", "waited")
    patience = 3.0
    usual_initial = 1e-3
    slack = 1.5
    worth = 0.01
    max_solves = 6

    def __init__(
        self, initial: float | None = None, minimum: float | None = None, maximum: float | None = None
    ) -> None:
        super().__init__(minimum, maximum)
        self.initial = None if initial is None else positive("initial", initial)

    def start(self, curvature: Tensor, length: Tensor) -> tuple[Tensor, ...]:
        """Return Δ = 0, which stands for none, λ = initial·κ, and no step that has waited for a longer radius."""
        initial = self.usual_initial if self.initial is None else self.initial
        none = arrays.zeros_like(curvature)
        return none, self.clip(initial * curvature, curvature), none

    def starting_with(self, initial: float | None) -> Damping:
        known = initial is None or self.initial is not None
        return self if known else type(self).from_config({**self.get_config(), "initial": initial})

    def propose(self, state: tuple[Tensor, ...], solve: Callable[[Tensor], Proposal], curvature: Tensor) -> Proposal:
        """Return the step that the λ of the state gives where its length will do, else one that fits the radius."""
        radius, damping, _ = state
        low, high = self.bounds(curvature)

        def misfit(proposal: Proposal) -> tuple:
            """Whether a step is too long, and whether it is too short and the next λ is worth a solve."""
            long = ~proposal.solved | (proposal.length > self.slack * radius)
            short = proposal.solved & (proposal.length * self.slack < radius)
            held = proposal.damping * arrays.square(proposal.length)
            promise = (held - proposal.slope) / 2  # what the model gains by the solution of a damped system
            worth = held * (1 / self._factor(radius, proposal) - 1) > self.worth * promise
            return long & (radius > 0) & (proposal.damping < high), short & worth & (proposal.damping > low)

        def unfinished(count: Tensor, lower: Tensor, upper: Tensor, proposal: Proposal) -> Tensor:
            long, short = misfit(proposal)
            return (count < self.max_solves) & arrays.reduce_any(long | short)

        def again(count: Tensor, lower: Tensor, upper: Tensor, proposal: Proposal) -> tuple:
            long, short = misfit(proposal)
            lower, upper = arrays.where(long, proposal.damping, lower), arrays.where(short, proposal.damping, upper)
            trial = solved_where(long | short, solve, self._next(radius, lower, upper, proposal), proposal)
            return count + 1, lower, upper, trial

        first = solve(self.clip(damping, curvature))
        start = (arrays.constant(1, low, tf.int32), low, high, first)
        return Proposal(*arrays.loop(unfinished, again, start)[-1])

    @staticmethod
    def _factor(radius: Tensor, proposal: Proposal) -> Tensor:
        """Return λ′/λ = (‖D^½ p‖/Δ)^1.5, from 10⁻³ to 10³."""
        ratio = arrays.where(proposal.solved, proposal.length / radius, arrays.constant(np.inf, radius))
        return arrays.clip(ratio, 0.01, 100) ** 1.5

    def _next(self, radius: Tensor, lower: Tensor, upper: Tensor, proposal: Proposal) -> Tensor:
        """Return λ′; the geometric mean of the bracket where that leaves it."""
        guess = proposal.damping * self._factor(radius, proposal)
        inside = (guess > lower) & (guess < upper)
        return arrays.where(inside, guess, arrays.sqrt(lower) * arrays.sqrt(upper))

    def update(
        self, state: tuple[Tensor, ...], proposal: Proposal, verdict: Verdict, curvature: Tensor
    ) -> tuple[Tensor, ...]:
        """Shrink, keep or double the radius by the gain ratio, and scale λ along with it."""
        radius, _, waited = state
        length = arrays.where(proposal.solved, proposal.length, radius)
        short = verdict.accepted & (verdict.ratio < 0.75)
        waited = arrays.where(short, waited + 1, arrays.zeros_like(waited))
        forced = (waited >= self.patience) & (verdict.ratio > 0.25)
        good = (verdict.ratio >= 0.75) | forced
        change = RegionChange.after(verdict, good, poor=0.1)
        whole = arrays.maximum(radius, arrays.where(good, 2 * length, length))
        limits = arrays.finfo(radius)
        radius = arrays.clip(arrays.where(change.poor, change.shrink * length, whole), limits.tiny, limits.max)
        waited = arrays.where(forced, arrays.zeros_like(waited), waited)
        return radius, self.clip(proposal.damping * change.damping, curvature), waited
