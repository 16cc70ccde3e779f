"""Two ways to measure the length of a step compete: D = I, and the D of a scaling.

No diagonal suits every problem. Cameras and points have units that differ by powers of ten: with D = I they take
hundreds of steps. The path of a robot with landmarks has one unit: with D = diag(JᵀJ) the few residuals that see a
landmark move it to where wrong poses want it, and the poses hardly move. So the rule measures how much steps gain.
"""

from collections.abc import Callable

from tfjac.linear import arrays
from tfjac.steps.damping.base import Damping, Proposal, Verdict
from tfjac.types import Tensor


class Competition(Damping):
    """A damping for each of two *metrics*: one measures steps with D = I, the other with the D of the scaling.

    One metric is the favourite, D = I at first. The other is tried for one step: after the first step, then after 1, 2,
    4, … 32 more as it keeps losing. It becomes the favourite if its step divided the cost by more than the last step of
    the favourite did. D of the scaling must be twice as good, in the logarithm: on networks it gains fast, and then its
    parameters are where further steps gain little.

    If eight attempts in a row are rejected with one metric, or λ is as large as can be, the other is the favourite:
    where units differ, no step with D = I may be short enough to follow a curved valley.

    The state is that of the damping of the metric in use, that of the other, and what is remembered of their steps.
    """

    margin = 2.0
    most_steps = 32.0
    patience = 8.0

    def __init__(self, inner: Damping) -> None:
        super().__init__(inner.minimum, inner.maximum)
        self.inner = inner
        names = inner.state_names
        record = ("metric", "favourite", "gain", "steps", "lost", "rejected", "gave_up")
        self.state_names = (*names, *(f"other_{name}" for name in names), *record)
        self._size = len(names)

    def starting_with(self, initial: float | None) -> Damping:
        """Return a competition of the damping that starts so."""
        return Competition(self.inner.starting_with(initial))

    def metric(self, state: tuple[Tensor, ...], scaling: Tensor) -> Tensor:
        """Return ones, or D where the scaling's metric is in use."""
        return arrays.where((state[2 * self._size] > 0)[..., None], scaling, arrays.ones_like(scaling))

    def bounds(self, curvature: Tensor) -> tuple[Tensor, Tensor]:
        """Return the bounds of the damping that is used twice."""
        return self.inner.bounds(curvature)

    def start(self, curvature: Tensor, length: Tensor) -> tuple[Tensor, ...]:
        """Return the first state of the metric in use; zeros for all else."""
        rest = len(self.state_names) - self._size
        return (*self.inner.start(curvature, length), *(arrays.zeros_like(curvature),) * rest)

    def resume(self, state: tuple[Tensor, ...], curvature: Tensor, length: Tensor) -> tuple[Tensor, ...]:
        """Return `state`, with the first one of the damping in use where that was not used before."""
        return (*self.inner.resume(state[: self._size], curvature, length), *state[self._size :])

    def propose(self, state: tuple[Tensor, ...], solve: Callable[[Tensor], Proposal], curvature: Tensor) -> Proposal:
        """Return what the damping in use proposes."""
        return self.inner.propose(state[: self._size], solve, curvature)

    def update(
        self, state: tuple[Tensor, ...], proposal: Proposal, verdict: Verdict, curvature: Tensor
    ) -> tuple[Tensor, ...]:
        """Update the damping in use, and say which metric the next step is measured with."""
        used = self.inner.update(state[: self._size], proposal, verdict, curvature)
        other, record = state[self._size : 2 * self._size], state[2 * self._size :]
        kept, rejected = self._kept(record[:5], verdict), self._rejected(record, proposal, curvature)
        after = tuple(arrays.where(verdict.accepted, one, other) for one, other in zip(kept, rejected))
        same = arrays.equal(after[0], record[0])
        pairs = [(arrays.where(same, one, two), arrays.where(same, two, one)) for one, two in zip(used, other)]
        return (*(one for one, _ in pairs), *(two for _, two in pairs), *after)

    def remeasures(self, before: tuple[Tensor, ...], after: tuple[Tensor, ...]) -> Tensor:
        """Return whether the metric is another one after a rejected attempt."""
        return arrays.not_equal(before[2 * self._size], after[2 * self._size])

    def _rejected(self, record: tuple, proposal: Proposal, curvature: Tensor) -> tuple:
        """Return what is remembered after an attempt that was rejected; only one metric is given up in a row."""
        metric, favourite, gain, steps, lost, rejected, gave_up = record
        none = arrays.zeros_like(gain)
        ended = (rejected + 1 >= self.patience) | (proposal.damping >= self.bounds(curvature)[1])
        ended &= arrays.equal(gave_up, 0)
        changed = 1 - metric, 1 - metric, none, none, none, none, none + 1
        same = metric, favourite, gain, steps, lost, rejected + 1, gave_up
        return tuple(arrays.where(ended, one, other) for one, other in zip(changed, same))

    def _kept(self, record: tuple, verdict: Verdict) -> tuple:
        """Return what is remembered after a step that was kept."""
        metric, favourite, gain, steps, lost = record
        none, one = arrays.zeros_like(gain), arrays.ones_like(gain)
        part = arrays.clip(arrays.divide_no_nan(verdict.reduction, arrays.absolute(verdict.cost)), 0, 1 - 1e-7)
        gained = -arrays.log1p(-part)
        on_trial = arrays.not_equal(metric, favourite)
        won = on_trial & (gained > gain * arrays.where(metric > 0, self.margin * one, one / self.margin))
        favourite = arrays.where(won, metric, favourite)
        gain = arrays.where(on_trial & ~won, gain, gained)
        lost = arrays.where(on_trial, arrays.where(won, none, lost + 1), lost)
        steps = arrays.where(on_trial, none, steps + 1)
        next_trial = steps >= arrays.minimum(2**lost, self.most_steps)
        return arrays.where(next_trial, 1 - favourite, favourite), favourite, gain, steps, lost, none, none
