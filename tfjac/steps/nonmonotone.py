"""A window of costs: steps that raise the cost are kept, if it stays below the highest of the last few.

With F_i the highest of the last k costs, and σ the reductions that the models promised since then, a step is judged by

    ρ = max((F − F₊) / predicted, (F_i − F₊) / (σ + predicted))

so that it may leave the floor of a curved valley, and cross it. The best point is remembered, and is where it ends.

If k kept steps in a row find no better point, or if there is a reason to stop at a worse one, the next step starts from
the best point, and the cost must not rise for k steps; the next time for 2k, and so on. So it stops only where the best
point gives a reason, and few steps wander.
Reference: L. Grippo, F. Lampariello, S. Lucidi, "A nonmonotone line search technique for Newton's method", 1986; Ph. L.
Toint, "Non-monotone trust-region algorithms for nonlinear optimization subject to convex constraints", 1997; R. M.
Chamberlain et al., "The watchdog technique for forcing convergence in algorithms for constrained optimization", 1982.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.linear import arrays
from tfjac.steps.beside import ROUNDINGS
from tfjac.steps.records import Leeway, Report
from tfjac.types import Tensor

LONGEST_PAUSE = 2**20
"""Steps."""


class Window(NamedTuple):
    """What is remembered of earlier points.

    Attributes:
        costs: `[k]`, of the last points, the latest first; −∞ where there was none yet.
        promised: `[k]`, what models promised since each.
        best: `[p]`, the point with the lowest cost.
        lowest: scalar, its cost.
        since: scalar int32, how many steps were kept since then.
        closed: scalar int32, for how many steps the cost must not rise yet.
        pause: scalar int32, for how many it must not the next time.
        returns: scalar bool, whether the next step starts from the best point.
    """

    costs: tf.Tensor
    promised: tf.Tensor
    best: tf.Tensor
    lowest: tf.Tensor
    since: tf.Tensor
    closed: tf.Tensor
    pause: tf.Tensor
    returns: tf.Tensor

    @classmethod
    def empty(cls, size: int, values: Tensor) -> "Window":
        """Return the window of `size` costs before the first step from `values` `[p]`."""
        infinity, zero = arrays.constant(np.inf, values), arrays.constant(0, values, tf.int32)
        costs, promised = arrays.constant([-np.inf] * size, values), arrays.constant([0.0] * size, values)
        no = arrays.constant(False, values, tf.bool)
        return cls(costs, promised, values, infinity, zero, zero, arrays.constant(size, values, tf.int32), no)

    def leeway(self, cost: Tensor) -> Leeway:
        """Return the `Leeway` of a step from a point of `cost`."""
        highest = arrays.argmax(self.costs)
        rise = arrays.where(self.closed > 0, arrays.zeros_like(cost), arrays.maximum(self.costs[highest] - cost, 0))
        return Leeway(rise, arrays.where(rise > 0, self.promised[highest], arrays.zeros_like(rise)))

    def is_left(self, report: Report) -> Tensor:
        """Return whether a step ended at a worse point than the best one before it, a scalar bool."""
        rounding = ROUNDINGS * arrays.finfo(report.cost).eps * arrays.absolute(self.lowest)
        has_moved = report.accepted | (self.since > 0)
        return has_moved & (report.cost - self.lowest > rounding)

    def after(self, report: Report, values: Tensor, stops: Tensor) -> "Window":
        """Return the window after a step that led to `values` `[p]`.

        Args:
            report: its `Report`.
            values: `[p]`.
            stops: scalar bool, whether there is a reason to stop elsewhere than at the best point.
        """
        moved = self._moved(report, values)
        returns = stops | (moved.since >= self.costs.shape[0])
        forgotten = arrays.full_like(self.costs, -np.inf)
        return moved._replace(
            costs=arrays.where(returns, forgotten, moved.costs),
            since=arrays.where(returns, 0, moved.since),
            closed=arrays.where(returns, self.pause, arrays.maximum(self.closed - 1, 0)),
            pause=arrays.where(returns, arrays.minimum(2 * self.pause, LONGEST_PAUSE), self.pause),
            returns=returns,
        )

    def _moved(self, report: Report, values: Tensor) -> "Window":
        """Return the window after a step, if it goes on from where that led."""
        costs = arrays.where(
            arrays.equal(self.lowest, np.inf), arrays.concat([[report.cost_before], self.costs[1:]], 0), self.costs
        )
        moved = arrays.concat([[report.cost], costs[:-1]], axis=0)
        promised = arrays.concat([arrays.zeros_like(self.promised[:1]), self.promised[:-1] + report.predicted], axis=0)
        better = report.cost < self.lowest
        return self._replace(
            costs=arrays.where(report.accepted, moved, costs),
            promised=arrays.where(report.accepted, promised, self.promised),
            best=arrays.where(better, values, self.best),
            lowest=arrays.where(better, report.cost, self.lowest),
            since=arrays.where(better, 0, self.since + arrays.cast(report.accepted, tf.int32)),
        )
