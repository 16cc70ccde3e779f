"""Fits that no step took further, because they are at minima where columns of J have vanished."""

from typing import Any

import tensorflow as tf

from tfjac.graph import while_loop
from tfjac.optimizers.conditions.bounds import Box
from tfjac.optimizers.execution.many_fits.fit_objective import FitObjective
from tfjac.optimizers.execution.many_fits.pool import FitData, Found
from tfjac.optimizers.loop.converge import Tolerances
from tfjac.optimizers.loop.vanished import Place, vanished_at_minimum
from tfjac.optimizers.statuses import Status
from tfjac.types import Tensor


class VanishedFits:
    """Fits that have ended, and what it takes to look at some of them again.

    Args:
        objective: `FitObjective`.
        data: `FitData`.
        start: `[B, p]`, where they began.
        box: a `Box` of `[B, p]`, or an empty tuple.
        in_turn: whether residuals can be evaluated for some of the fits.
    """

    def __init__(
        self, objective: FitObjective, data: FitData, start: Tensor, box: Box | tuple[()], in_turn: bool
    ) -> None:
        self._objective, self._data, self._start, self._box, self._in_turn = objective, data, start, box, in_turn

    def told(self, found: Found, at_once: int | Tensor, limits: Tolerances) -> Found:
        """Return what fits `Found`: those that have stalled at such a minimum have converged.

        Args:
            found: a `Found`.
            at_once: how many fits are looked at at once, an integer or a scalar tensor; all, if not `in_turn`.
            limits: `Tolerances`.
        """
        stalled, count = tf.equal(found.outcome.status, int(Status.STALLED)), tf.shape(found.values)[0]
        order = tf.argsort(tf.cast(~stalled, tf.int32), stable=True) if self._in_turn else tf.range(count)
        number = tf.math.count_nonzero(stalled, dtype=tf.int32)

        def more(begun: Tensor, vanished: Tensor) -> Tensor:
            return begun < (number if self._in_turn else tf.minimum(number, 1))

        def some(begun: Tensor, vanished: Tensor) -> tuple[Tensor, Tensor]:
            places = begun + tf.range(at_once)
            index = tf.gather(order, tf.minimum(places, count - 1))
            seen = self._vanished(found, index, tf.gather(stalled, index) & (places < count), limits)
            rows = tf.where(places < count, index, count)[:, None]
            return begun + at_once, tf.tensor_scatter_nd_update(vanished, rows, seen)

        nothing = tf.zeros([count + 1, found.values.shape[1]], tf.bool)
        shapes = [tf.TensorShape([]), nothing.shape]
        _, vanished = while_loop(more, some, (tf.constant(0), nothing), folds=False, shape_invariants=tuple(shapes))
        vanished = tf.ensure_shape(vanished[:count], found.values.shape)
        status = tf.where(tf.reduce_any(vanished, axis=1), int(Status.GRADIENT_TOLERANCE), found.outcome.status)
        return found._replace(outcome=found.outcome._replace(status=status), vanished=vanished)

    def _vanished(self, found: Found, index: Tensor, stalled: Tensor, limits: Tolerances) -> Tensor:
        """Return which columns of J have vanished at the minima of some fits, `[n, p]`, bool."""
        values, start = tf.gather(found.values, index), tf.gather(self._start, index)
        data, one = self._data.among_shared(self._data.rows(index)), tf.ones_like(values[:, 0])
        here, unit = self._objective.linearise(values, data, one, tf.ones_like(one, tf.bool))
        box: Any = self._box and Box(*(tf.gather(side, index) for side in self._box))
        free = box.free(values, here.gradient) if box else tf.ones_like(values, tf.bool)
        reach = tf.maximum(tf.abs(values), tf.abs(values - start))

        def cost_at(change: Tensor) -> Tensor:
            end = box.project(values + change) if box else values + change
            return self._objective.costs(end, data, unit)

        place = Place(here.cost, here.gram, here.gradient, reach, free & stalled[:, None])
        return vanished_at_minimum(place, cost_at, limits)
