"""Fits that no step took further: at minima where columns of J have vanished, or where J was zero from the start."""

from typing import Any

import tensorflow as tf

from tfjac.drive.many_fits.fit_objective import FitObjective
from tfjac.drive.many_fits.pool import FitData, Found
from tfjac.graph import while_loop
from tfjac.steps.beside import Beside, falls_beside, shares_of, unseen
from tfjac.steps.conditions import Box
from tfjac.steps.converge import Tolerances
from tfjac.steps.statuses import Status
from tfjac.steps.vanished import Place, vanished_at_minimum
from tfjac.types import Tensor


def are_asked(found: Found, start: Tensor, box: Box | tuple[()]) -> Tensor:
    """Return which of what fits `Found` are to be looked at again, `[B]`, bool; see `VanishedFits`.

    Args:
        start: `[B, p]`, where they began.
        box: a `Box` of `[B, p]`, or an empty tuple.
    """
    stalled = tf.equal(found.outcome.status, int(Status.STALLED))
    doubts = unseen(found.shares, *_travelled(start, found.values), box)
    return stalled | (found.outcome.success & tf.reduce_any(doubts, axis=1))


class VanishedFits:
    """Fits that have ended, and what it takes to look at some of them again.

    Args:
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

        Those that have converged where the cost falls beside them are at no minimum.

        Args:
            at_once: how many fits are looked at at once, an integer or a scalar tensor; all, if not `in_turn`.
        """
        stalled, count = tf.equal(found.outcome.status, int(Status.STALLED)), tf.shape(found.values)[0]
        asked = are_asked(found, self._start, self._box)
        order = tf.argsort(tf.cast(~asked, tf.int32), stable=True) if self._in_turn else tf.range(count)
        number = tf.math.count_nonzero(asked, dtype=tf.int32)

        def more(begun: Tensor, vanished: Tensor, falls: Tensor) -> Tensor:
            return begun < (number if self._in_turn else tf.minimum(number, 1))

        def some(begun: Tensor, vanished: Tensor, falls: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            places = begun + tf.range(at_once)
            index = tf.gather(order, tf.minimum(places, count - 1))
            one = tf.gather(asked, index) & (places < count)
            seen, down = self._looked_at(found, index, one, tf.gather(stalled, index), limits)
            rows = tf.where(places < count, index, count)[:, None]
            vanished = tf.tensor_scatter_nd_update(vanished, rows, seen)
            return begun + at_once, vanished, tf.tensor_scatter_nd_update(falls, rows, down)

        nothing = tf.zeros([count + 1, found.values.shape[1]], tf.bool)
        start = tf.constant(0), nothing, tf.zeros([count + 1], tf.bool)
        shapes = tf.TensorShape([]), nothing.shape, tf.TensorShape([None])
        _, vanished, falls = while_loop(more, some, start, optimizes=False, shape_invariants=shapes)
        vanished = tf.ensure_shape(vanished[:count], found.values.shape)
        status = tf.where(tf.reduce_any(vanished, axis=1), int(Status.GRADIENT_TOLERANCE), found.outcome.status)
        status = tf.where(falls[:count], int(Status.NOT_A_MINIMUM), status)
        return found._replace(outcome=found.outcome._replace(status=status), vanished=vanished)

    def _looked_at(
        self, found: Found, index: Tensor, asked: Tensor, stalled: Tensor, limits: Tolerances
    ) -> tuple[Tensor, Tensor]:
        """Return which columns of J have vanished at minima, `[n, p]`, bool, and where the cost falls nearby, `[n]`.

        Args:
            found: a `Found`; index: `[n]`, of the fits.
            asked: `[n]`, bool: which are asked about, the first of those that have `stalled`, the second of others.
        """
        values, start = tf.gather(found.values, index), tf.gather(self._start, index)
        data, one = self._data.among_shared(self._data.rows(index)), tf.ones_like(values[:, 0])
        here, unit = self._objective.linearise(values, data, one, tf.ones_like(one, tf.bool))
        box: Any = self._box and Box(*(tf.gather(side, index) for side in self._box))
        free = box.free(values, here.gradient) if box else tf.ones_like(values, tf.bool)
        moved, reach = _travelled(start, values)

        def cost_at(change: Tensor) -> Tensor:
            end = box.project(values + change) if box else values + change
            return self._objective.costs(end, data, unit)

        given = tf.linalg.diag_part(here.gram), here.cost, here.gradient
        shares, known = shares_of(*given, free), shares_of(*given, None)
        doubts = unseen(shares, moved, reach, box) & (asked & ~stalled)[:, None]
        beside = Beside(here.cost, known, reach, doubts, tf.where(shares > known, tf.sign(here.gradient), 0))
        place = Place(here.cost, here.gram, here.gradient, reach, free & (asked & stalled)[:, None])
        return vanished_at_minimum(place, cost_at, limits), falls_beside(beside, cost_at)


def _travelled(start: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
    """Return by how much parameters have moved, and how large they have been; see `Coordinates.travelled`."""
    moved = tf.abs(end - start)
    return moved, tf.maximum(moved, tf.abs(end))
