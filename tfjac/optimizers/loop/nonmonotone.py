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

from tfjac.optimizers.loop.records import Leeway, Report
from tfjac.types import Tensor

LONGEST_PAUSE = 2**20
"""Steps."""

ROUNDINGS = 64
"""Rounding errors of the best cost, by which another one is not worse."""


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
        infinity, zero = tf.constant(np.inf, values.dtype), tf.constant(0)
        costs, promised = tf.fill([size], -infinity), tf.zeros([size], values.dtype)
        return cls(costs, promised, values, infinity, zero, zero, tf.constant(size), tf.constant(False))

    def leeway(self, cost: Tensor) -> Leeway:
        """Return the `Leeway` of a step from a point of `cost`."""
        highest = tf.argmax(self.costs)
        rise = tf.where(self.closed > 0, tf.zeros_like(cost), tf.maximum(self.costs[highest] - cost, 0))
        return Leeway(rise, tf.where(rise > 0, self.promised[highest], tf.zeros_like(rise)))

    def is_left(self, report: Report) -> Tensor:
        """Return whether a step ended at a worse point than the best one before it, a scalar bool."""
        rounding = ROUNDINGS * np.finfo(report.cost.dtype.as_numpy_dtype).eps * tf.abs(self.lowest)
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
        forgotten = tf.fill(tf.shape(self.costs), -tf.constant(np.inf, self.costs.dtype))
        return moved._replace(
            costs=tf.where(returns, forgotten, moved.costs),
            since=tf.where(returns, 0, moved.since),
            closed=tf.where(returns, self.pause, tf.maximum(self.closed - 1, 0)),
            pause=tf.where(returns, tf.minimum(2 * self.pause, LONGEST_PAUSE), self.pause),
            returns=returns,
        )

    def _moved(self, report: Report, values: Tensor) -> "Window":
        """Return the window after a step, if it goes on from where that led."""
        costs = tf.where(
            tf.equal(self.lowest, np.inf), tf.concat([[report.cost_before], self.costs[1:]], 0), self.costs
        )
        moved = tf.concat([[report.cost], costs[:-1]], axis=0)
        promised = tf.concat([tf.zeros_like(self.promised[:1]), self.promised[:-1] + report.predicted], axis=0)
        better = report.cost < self.lowest
        return self._replace(
            costs=tf.where(report.accepted, moved, costs),
            promised=tf.where(report.accepted, promised, self.promised),
            best=tf.where(better, values, self.best),
            lowest=tf.where(better, report.cost, self.lowest),
            since=tf.where(better, 0, self.since + tf.cast(report.accepted, tf.int32)),
        )
