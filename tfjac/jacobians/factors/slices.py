"""Slices of a table: which of its rows and columns they are."""

import typing

import tensorflow as tf

from tfjac.graph import axes, replay
from tfjac.graph.facts import facts_of
from tfjac.linear.factors.gather_factor import GatherFactor
from tfjac.linear.shapes import Size
from tfjac.types import Tensor

_HOLDS = {tf.float64: 2**53, tf.float32: 2**24}
"""Integers that a dtype holds exactly."""


class Sliced(typing.NamedTuple):
    """Rows and columns of a table, `[rows, columns]`, or `[columns]` of a single row.

    Attributes:
        rows: `[number of rows taken]`, int32.
        columns: `[number of columns taken]`, int32, of a row as a vector; None for all.
        shape: `(rows, width)` of the table, integers.
        is_one_row: whether it is a row without the axis of rows.
    """

    rows: tf.Tensor
    columns: tf.Tensor | None
    shape: tuple
    is_one_row: bool = False

    def factor_of_parts(self, d: Tensor) -> GatherFactor:
        """Return the `GatherFactor` of the table where the row is cut into examples, given `d[n,m,1,k]` of theirs."""
        n, _, _, k = axes(d)
        places = tf.one_hot(tf.reshape(self.columns, [n, k]), self.shape[1], dtype=d.dtype)
        ids = tf.tile(self.rows[:1, None], [n, 1])
        return GatherFactor(ids, tf.einsum("nmtk,nko->nmto", d, places), self.shape[0])

    def factor(self, factor: GatherFactor) -> GatherFactor:
        """Return the `GatherFactor` of the table, given that of the slice."""
        d = factor.d
        if self.columns is not None:
            d = tf.einsum("nmtk,ko->nmto", d, tf.one_hot(self.columns, self.shape[1], dtype=d.dtype))
        return GatherFactor(tf.gather(self.rows, factor.ids), d, self.shape[0])


def sliced(op: tf.Operation) -> "Sliced | None":
    """Return what a slice, strided or not, takes of its input, `Sliced`; None where that has other rows, or is open.

    Row numbers and column numbers, sliced alike, say it, also where the places are known only when the graph runs.
    """
    table, (output,) = op.inputs[0], op.outputs
    known = table.shape.is_fully_defined() and table.shape.rank > 0 and output.shape.num_elements()
    strided = facts_of(op).takes == "a strided slice"
    one_row = strided and op.get_attr("shrink_axis_mask") & 1
    if not known or (strided and op.get_attr("new_axis_mask")):
        return None
    shape = table.shape[0], table.shape[1:].num_elements()
    if max(shape) > _HOLDS.get(table.dtype, 0):
        return None
    count = 1 if one_row else output.shape[0]
    rows = _sliced_alike(op, tf.broadcast_to(tf.range(shape[0])[:, None], shape), count)[:, 0]
    if one_row:
        return Sliced(rows, _sliced_alike(op, tf.broadcast_to(tf.range(shape[1]), shape), count)[0], shape, True)
    if output.shape[1:] == table.shape[1:] and not strided:
        return Sliced(rows, None, shape)
    return Sliced(rows, _sliced_alike(op, tf.broadcast_to(tf.range(shape[1]), shape), count)[0], shape)


def _sliced_alike(op: tf.Operation, numbers: Tensor, count: Size) -> Tensor:
    """What the slice, of so many rows, makes of integers `[rows, width]`."""
    numbers = tf.reshape(tf.cast(numbers, op.inputs[0].dtype), op.inputs[0].shape)
    (taken,) = replay([op.outputs[0]], [(op.inputs[0], numbers)])
    return tf.cast(tf.reshape(taken, [count, -1]), tf.int32)
