"""Rules of ops that move rows from one set to another: gathers and sums over segments, as in graph neural networks.

A rule is `rule(op, rows, wanted) -> list`, one pair per input: its `ExampleAxis` or `SHARED`, and its `Rows` where it
carries rows. It returns None where the op works within each row after all. The outputs have their rows along axis 0.
The rules stand among the facts of their ops, in `op_facts`.
"""

import dataclasses
from typing import Any, Protocol, TypeAlias

import tensorflow as tf

from tfjac._indices import as_int32
from tfjac.graph.examples.example_rules import Axis, ExampleAxis, NoRule, Wanted
from tfjac.graph.facts import facts_of, is_branching, is_loop
from tfjac.types import Tensor

NONE = -1
"""The segment of a row that contributes to nothing."""


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """A set of rows, such as the nodes or the edges of a batch of graphs.

    Attributes:
        ids: `[rows]` int32, the segment that each row contributes to, or negative for none.
        is_segments: whether row k is segment k itself.
    """

    ids: tf.Tensor
    is_segments: bool = False

    @property
    def size(self) -> int | Tensor:
        """Number of rows: an integer, or a scalar tensor where it is open while tracing."""
        static = self.ids.shape[0]
        return tf.shape(self.ids)[0] if static is None else static

    def along(self, tensor: Tensor) -> Tensor:
        """The segment of each slice along axis 0 of `tensor`, which has the same number of slices for each row."""
        if tensor.shape[0] is not None and tensor.shape[0] == self.ids.shape[0]:
            return self.ids
        return tf.repeat(self.ids, tf.shape(tensor)[0] // tf.maximum(self.size, 1))


InputRows: TypeAlias = list[tuple[Axis, Rows | Any]]
"""The axis of each input of an op, and its rows where it carries some."""


class WantedRows(Wanted, Protocol):
    """The same for rules of rows; see `row_segments`."""

    rows: dict[Any, Rows]

    def must_agree(self, agree: Tensor, op: tf.Operation) -> None: ...

    def is_weight(self, tensor: Tensor) -> bool: ...


def merged(one: Rows, other: Rows) -> tuple[Rows, Tensor]:
    """Return the rows of a tensor that is used as `one` and as `other`, and where these agree, `[rows]`."""
    agree = (one.ids == other.ids) | (one.ids < 0) | (other.ids < 0)
    return Rows(tf.maximum(one.ids, other.ids)), agree


def moves_rows(op: tf.Operation) -> bool:
    """Return whether `op` takes what is along axis 0 of its inputs to other places."""
    return facts_of(op).rows is not None and not (is_loop(op) or is_branching(op))


def input_rows(op: tf.Operation, axis: ExampleAxis, rows: Rows, wanted: WantedRows) -> InputRows | None:
    """Return the axis and the rows of each input of `op`, or None where no row leaves its place.

    Raises:
        NoRule: for a use of such an op that is not covered.
    """
    rule = facts_of(op).rows
    if rule is None or (moves_rows(op) and axis.axis != 0):
        return None
    if axis.outer != 1:  # all rows, and once more
        rows = Rows(tf.tile(rows.ids, [axis.outer]))
    return rule(op, rows, wanted)


def of_rows(indices: Tensor) -> Tensor:
    """Indices `[..., 1]` of whole rows as `[...]`."""
    if indices.shape[-1] != 1:
        raise NoRule("its indices do not name whole rows")
    return indices[..., 0]


def summed_into(output: Tensor, rows: Rows, ids: Tensor) -> Rows:
    """The rows of what is summed: row e belongs to the segment of row `ids[e]` of the output."""
    ids = as_int32(ids)
    return Rows(tf.where(ids < 0, NONE, tf.gather(rows.along(output), tf.maximum(ids, 0))))


def gathered_from(params: Tensor, rows: Rows, indices: Tensor, op: tf.Operation, wanted: WantedRows) -> Rows:
    """The rows of what is gathered from: a row belongs to the segment of the outputs that it is part of.

    That must be one and the same for all of them: else segments depend on one another.
    """
    indices = as_int32(indices)
    ids = Rows(rows.along(indices)).along(tf.reshape(indices, [-1]))
    indices = tf.reshape(indices, [-1])
    of_params = tf.maximum(tf.math.unsorted_segment_max(ids, indices, tf.shape(params)[0]), NONE)
    wanted.must_agree((tf.gather(of_params, indices) == ids) | (ids < 0), op)
    return Rows(of_params)
