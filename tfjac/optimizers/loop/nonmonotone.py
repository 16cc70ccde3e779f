"""A window of costs: steps that raise the cost are kept, if it stays below the highest of the last few.

With F_i the highest of the last k costs, and σ the reductions that the models promised since then, a step is judged by

    ρ = max((F − F₊) / predicted, (F_i − F₊) / (σ + predicted))

so that it may leave the floor of a curved valley, and cross it. The best point is remembered, and is where it ends.
Reference: L. Grippo, F. Lampariello, S. Lucidi, "A nonmonotone line search technique for Newton's method", 1986; Ph. L.
Toint, "Non-monotone trust-region algorithms for nonlinear optimization subject to convex constraints", 1997.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.optimizers.loop.records import Leeway


class Window(NamedTuple):
    """What is remembered of earlier points.

    Attributes:
        costs: `[k]`, of the last points, the latest first; −∞ where there was none yet.
        promised: `[k]`, what models promised since each.
        best: `[p]`, the point with the lowest cost.
        lowest: scalar, its cost.
    """

    costs: tf.Tensor
    promised: tf.Tensor
    best: tf.Tensor
    lowest: tf.Tensor

    @classmethod
    def empty(cls, size, values):
        """Return the window of `size` costs before the first step from `values` `[p]`."""
        infinity = tf.constant(np.inf, values.dtype)
        return cls(tf.fill([size], -infinity), tf.zeros([size], values.dtype), values, infinity)

    def leeway(self, cost):
        """Return the `Leeway` of a step from a point of `cost`."""
        highest = tf.argmax(self.costs)
        rise = tf.maximum(self.costs[highest] - cost, 0)
        return Leeway(rise, tf.where(rise > 0, self.promised[highest], tf.zeros_like(rise)))

    def after(self, report, values):
        """Return the window after a step that led to `values` `[p]`."""
        costs = tf.where(
            tf.equal(self.lowest, np.inf), tf.concat([[report.cost_before], self.costs[1:]], 0), self.costs
        )
        moved = tf.concat([[report.cost], costs[:-1]], axis=0)
        promised = tf.concat([tf.zeros_like(self.promised[:1]), self.promised[:-1] + report.predicted], axis=0)
        better = report.cost < self.lowest
        return Window(
            tf.where(report.accepted, moved, costs),
            tf.where(report.accepted, promised, self.promised),
            tf.where(better, values, self.best),
            tf.where(better, report.cost, self.lowest),
        )
