"""From factors with one example per row to factors with one example per segment."""

from typing import Any

import tensorflow as tf

from tfjac.graph import axes
from tfjac.linear.factors.forms import DenseFactor, Factor, OuterFactor
from tfjac.linear.factors.gather_factor import GatherFactor
from tfjac.linear.shapes import Size, product
from tfjac.types import Tensor


class Grouping:
    """Rows sorted into segments: row e stands at place `places[e]` of segment `ids[e]`.

    Args:
        rows: the `Rows`.
        num_segments: number s of segments, an integer or a scalar tensor.
        max_rows: the most rows of any one segment, an integer; None to find it when the graph runs.
        wanted: a boolean scalar tensor; where it is false, nothing is sorted, and no row belongs to a segment.
    """

    def __init__(
        self, rows: Any, num_segments: Size, max_rows: int | None = None, wanted: Tensor | bool = True
    ) -> None:
        self.ids = rows.ids if wanted is True else tf.where(wanted, rows.ids, -1)
        self.num_segments = num_segments
        counts = tf.math.unsorted_segment_sum(tf.ones_like(self.ids), self.ids, num_segments)
        largest = tf.reduce_max(tf.concat([counts, [0]], 0))
        self.length = largest if max_rows is None else max_rows
        self.slots = self._slots(counts)
        if max_rows is not None:
            fits = tf.debugging.Assert(
                largest <= max_rows, ["tfjac: a segment has more rows than max_rows. Received:", largest, max_rows]
            )
            with tf.control_dependencies([fits]):
                self.slots = tf.identity(self.slots)

    def _slots(self, counts: Tensor) -> Tensor:
        """The place of each row among `[segments · length]`, negative for rows of no segment."""
        order = tf.argsort(self.ids, stable=True)
        before = tf.concat([[0], tf.cumsum(counts)], 0)  # rows of earlier segments
        without = tf.reduce_sum(tf.cast(self.ids < 0, tf.int32))  # these are sorted to the front
        ordered = tf.gather(self.ids, order)
        place = tf.range(tf.size(order)) - without - tf.gather(before, tf.maximum(ordered, 0))
        slot = tf.where(ordered < 0, -1, ordered * self.length + place)
        return tf.math.unsorted_segment_sum(slot, order, axes(self.ids)[0])

    def padded(self, tensor: Tensor) -> Tensor:
        """Bring the rows of a segment side by side: `[rows, t, ...]` to `[segments, length · t, ...]`, with zeros."""
        _, t, *rest = axes(tensor)
        side_by_side = tf.math.unsorted_segment_sum(tensor, self.slots, self.num_segments * self.length)
        return tf.reshape(side_by_side, [self.num_segments, self.length * t, *rest])

    def padded_cotangents(self, d: Tensor) -> Tensor:
        """The same for `[rows, m, t, ...]`: `[segments, m, length · t, ...]`."""
        rank = d.shape.rank
        swapped = self.padded(tf.transpose(d, [0, 2, 1, *range(3, rank)]))
        return tf.transpose(swapped, [0, 2, 1, *range(3, rank)])

    def added(self, tensor: Tensor) -> Tensor:
        """Add up the rows of each segment."""
        return tf.math.unsorted_segment_sum(tensor, self.ids, self.num_segments)


def in_segments(factor: Factor, grouping: "Grouping") -> Factor:
    """Return the factor of segments, `J[s,m,q] = Σ_{rows e of s} J[e,m,q]`, given that of rows.

    Rows are further positions of use: those of a segment stand side by side along t, the short ones padded with
    zeros. Dense columns are added up.
    """
    if isinstance(factor, OuterFactor):
        return OuterFactor(grouping.padded(factor.a), grouping.padded_cotangents(factor.d), factor.layout)
    if isinstance(factor, GatherFactor):
        return GatherFactor(grouping.padded(factor.ids), grouping.padded_cotangents(factor.d), factor.rows)
    j = grouping.added(factor.dense())
    return DenseFactor(tf.reshape(j, [*axes(j)[:2], product(axes(j)[2:])]))
