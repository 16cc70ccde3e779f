"""Ops that move rows from one set to another: gathers and sums over segments, as in graph neural networks.

A rule is `rule(op, rows, wanted) -> list`, one pair per input: its `ExampleAxis` or `SHARED`, and its `Rows` where it
carries rows. It returns None where the op works within each row after all. The outputs have their rows along axis 0.
"""

import dataclasses

import tensorflow as tf

from tfjac.graph.example_rules import SHARED, ExampleAxis, NoRule
from tfjac.graph.op_types import CHOICES, LOOPS
from tfjac.graph.registration import registering

_RULES = {}
_NONE = -1  # the segment of a row that contributes to nothing


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
    def size(self):
        """Number of rows: an integer, or a scalar tensor where it is open while tracing."""
        static = self.ids.shape[0]
        return tf.shape(self.ids)[0] if static is None else static

    def along(self, tensor):
        """The segment of each slice along axis 0 of `tensor`, which has the same number of slices for each row."""
        if tensor.shape[0] is not None and tensor.shape[0] == self.ids.shape[0]:
            return self.ids
        return tf.repeat(self.ids, tf.shape(tensor)[0] // tf.maximum(self.size, 1))


def merged(one, other):
    """Return the rows of a tensor that is used as `one` and as `other`, and where these agree, `[rows]`."""
    agree = (one.ids == other.ids) | (one.ids < 0) | (other.ids < 0)
    return Rows(tf.maximum(one.ids, other.ids)), agree


row_rule = registering(_RULES)
"""Register a rule for `op_types`."""


def moves_rows(op):
    """Return whether `op` takes what is along axis 0 of its inputs to other places."""
    return op.type in _RULES and op.type not in (*LOOPS, *CHOICES)


def input_rows(op, axis, rows, wanted):
    """Return the axis and the rows of each input of `op`, or None where no row leaves its place.

    Raises:
        NoRule: for a use of such an op that is not covered.
    """
    if op.type not in _RULES or (moves_rows(op) and axis.axis != 0):
        return None
    if axis.outer != 1:  # all rows, and once more
        rows = Rows(tf.tile(rows.ids, [axis.outer]))
    return _RULES[op.type](op, rows, wanted)


SEGMENT_OPS = """
    SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd
    UnsortedSegmentSum
"""


@row_rule(*SEGMENT_OPS.split())
def _segments(op, rows, wanted):
    """Row e of the data goes to row `ids[e]` of the output."""
    ids = op.inputs[1]
    if ids.shape.rank != 1:
        raise NoRule("its segment ids are not of rank 1")
    return [(ExampleAxis(0), _summed_into(op.outputs[0], rows, ids)), *[(SHARED, None)] * (len(op.inputs) - 1)]


@row_rule("ScatterNd")
def _scatter(op, rows, wanted):
    return [(SHARED, None), (ExampleAxis(0), _summed_into(op.outputs[0], rows, _of_rows(op.inputs[0]))), (SHARED, None)]


@row_rule("TensorScatterAdd", "TensorScatterSub")
def _scatter_into(op, rows, wanted):
    updates = _summed_into(op.outputs[0], rows, _of_rows(op.inputs[1]))
    return [(ExampleAxis(0), rows), (SHARED, None), (ExampleAxis(0), updates)]


@row_rule("GatherV2")
def _gather(op, rows, wanted):
    """Row e of the output comes from row `indices[e]`, of other rows; or of a table that all share."""
    params, indices, along = op.inputs
    whole_rows = tf.get_static_value(along) == 0 and not op.get_attr("batch_dims")
    if not whole_rows or not wanted.reaches(params) or wanted.is_weight(params):
        return None
    return [(ExampleAxis(0), _gathered_from(params, rows, indices, op, wanted)), (SHARED, None), (SHARED, None)]


@row_rule("GatherNd")
def _gather_nd(op, rows, wanted):
    params, indices = op.inputs
    if not wanted.reaches(params) or wanted.is_weight(params):
        raise NoRule("it picks from a table that all examples share")
    return [(ExampleAxis(0), _gathered_from(params, rows, _of_rows(indices), op, wanted)), (SHARED, None)]


@row_rule("SparseTensorDenseMatMul")
def _sparse_matmul(op, rows, wanted):
    """Entry e takes row `column[e]` of the dense matrix to row `row[e]` of the output: a gather, then a sum."""
    if op.get_attr("adjoint_b"):
        raise NoRule("its dense factor is transposed")
    order = (1, 0) if op.get_attr("adjoint_a") else (0, 1)
    row, column = (op.inputs[0][:, k] for k in order)
    entries = _summed_into(op.outputs[0], rows, row)
    return [(SHARED, None), (ExampleAxis(0), entries), (SHARED, None),
            (ExampleAxis(0), _gathered_from(op.inputs[3], entries, column, op, wanted))]  # fmt: skip


@row_rule("ConcatV2")
def _concat(op, rows, wanted):
    """Rows below one another, as edges and self loops."""
    *parts, along = op.inputs
    along, rank = tf.get_static_value(along), op.outputs[0].shape.rank
    if along is None or rank is None or int(along) % rank != 0:
        return None
    ids = tf.split(rows.along(op.outputs[0]), tf.stack([tf.shape(part)[0] for part in parts]), num=len(parts))
    return [*((ExampleAxis(0), Rows(each)) for each in ids), (SHARED, None)]


@row_rule(*LOOPS, *CHOICES)
def _control_flow(op, rows, wanted):
    raise NoRule("loops and conditionals are not covered where examples are groups of rows")


def _of_rows(indices):
    """Indices `[..., 1]` of whole rows as `[...]`."""
    if indices.shape[-1] != 1:
        raise NoRule("its indices do not name whole rows")
    return indices[..., 0]


def _summed_into(output, rows, ids):
    """The rows of what is summed: row e belongs to the segment of row `ids[e]` of the output."""
    ids = tf.cast(ids, tf.int32)
    return Rows(tf.where(ids < 0, _NONE, tf.gather(rows.along(output), tf.maximum(ids, 0))))


def _gathered_from(params, rows, indices, op, wanted):
    """The rows of what is gathered from: a row belongs to the segment of the outputs that it is part of.

    That must be one and the same for all of them: else segments depend on one another.
    """
    indices = tf.cast(indices, tf.int32)
    ids = Rows(rows.along(indices)).along(tf.reshape(indices, [-1]))
    indices = tf.reshape(indices, [-1])
    of_params = tf.maximum(tf.math.unsorted_segment_max(ids, indices, tf.shape(params)[0]), _NONE)
    wanted.must_agree((tf.gather(of_params, indices) == ids) | (ids < 0), op)
    return Rows(of_params)
