"""Sums and extremes over segments of rows, of a tensor or of rows that indices select."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfjac.graph.examples.example_rules import SHARED, Axis, ExampleAxis, NoRule, Wanted
from tfjac.graph.examples.row_rules import InputRows, Rows, WantedRows, summed_into
from tfjac.graph.facts import declare, facts_of, is_identity
from tfjac.graph.gradients.mending import Gradient
from tfjac.types import Tensor

# --------------------------------------------------------------------------------------------- the axis of the examples


def _segments(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """Rows, on the axes that the ids have, are gathered into segments; examples may run along an axis behind."""
    rank = op.inputs[1].shape.rank
    if rank is None or axis.axis == 0:
        raise NoRule("it combines rows of one segment, along the axis of the examples")
    return [axis.moved(axis.axis + rank - 1)] + [SHARED] * (len(op.inputs) - 1)


def _rows_of_segments(op: tf.Operation, rows: Rows, wanted: WantedRows) -> InputRows | None:
    """Row e of the data goes to row `ids[e]` of the output."""
    ids = op.inputs[1]
    if ids.shape.rank != 1:
        raise NoRule("its segment ids are not of rank 1")
    return [(ExampleAxis(0), summed_into(op.outputs[0], rows, ids)), *[(SHARED, None)] * (len(op.inputs) - 1)]


def _sparse_segments(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """Rows that indices select are gathered into segments: those of a table belong to all examples."""
    if axis.axis == 0:
        if wanted.reaches(op.inputs[0]) and not _is_table(op.inputs[0], wanted):
            raise NoRule("it combines rows of one segment, along the axis of the examples")
        return [SHARED] * len(op.inputs)
    return [axis] + [SHARED] * (len(op.inputs) - 1)


def _is_table(tensor: Tensor, wanted: Wanted) -> bool:
    """Whether `tensor` is made of weights alone, or holds some of their rows, as in `tf.nn.embedding_lookup_sparse`."""
    while is_identity(tensor.op) or facts_of(tensor.op).takes == "rows by index":
        tensor = tensor.op.inputs[0]
    return wanted.depends_on_no_data(tensor)


# -------------------------------------------------------------------------------- gradients, conversions to many slices


def _segment_mean(op: tf.Operation, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    """TensorFlow divides by the size of a segment also where that is zero."""
    ids = op.inputs[1]
    counts = tf.math.segment_sum(tf.ones_like(ids, cotangent.dtype), ids)
    return tf.gather(_per_row(tf.math.divide_no_nan, cotangent, counts), ids), None


def _per_row(function: Callable, tensor: Tensor, row: Tensor) -> Tensor:
    ones = tf.ones([tf.rank(tensor) - 1], tf.int32)
    return function(tensor, tf.reshape(row, tf.concat([tf.shape(row), ones], 0)))


def _segment_extreme(op: tf.Operation, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    """Shared equally by all that are the extreme one; TensorFlow divides by their number, which may be zero."""
    x, ids = op.inputs
    chosen = tf.equal(x, tf.gather(op.outputs[0], ids))
    counts = tf.math.segment_sum(tf.cast(chosen, cotangent.dtype), ids)
    shares = tf.gather(tf.math.divide_no_nan(cotangent, counts), ids)
    return tf.where(chosen, shares, tf.zeros_like(shares)), None


def _unsorted_segment_extreme(op: tf.Operation, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    """The same; elements with a negative id belong to no segment."""
    x, ids, num_segments = op.inputs
    belongs = ids >= 0
    places = tf.where(belongs, ids, tf.zeros_like(ids))
    trailing = tf.ones([tf.rank(x) - tf.rank(ids)], tf.int32)
    chosen = tf.equal(x, tf.gather(op.outputs[0], places)) & tf.reshape(
        belongs, tf.concat([tf.shape(ids), trailing], 0)
    )
    counts = tf.math.unsorted_segment_sum(tf.cast(chosen, cotangent.dtype), ids, num_segments)
    shares = tf.gather(tf.math.divide_no_nan(cotangent, counts), places)
    return tf.where(chosen, shares, tf.zeros_like(shares)), None, None


_SEGMENTS = {
    "SparseSegmentSumGrad": tf.raw_ops.SparseSegmentSumWithNumSegments,
    "SparseSegmentMeanGrad": tf.raw_ops.SparseSegmentMeanWithNumSegments,
    "SparseSegmentSqrtNGrad": tf.raw_ops.SparseSegmentSqrtNWithNumSegments,
}


def _gradient_of_sparse_segment(op: tf.Operation, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    grads, indices, ids, _ = op.inputs
    summed = _SEGMENTS[op.type](data=cotangent, indices=indices, segment_ids=ids, num_segments=tf.shape(grads)[0])
    return summed, None, None, None


def _sparse_segment_grad(
    op: tf.Operation, inputs: Sequence[Tensor], stacked: Sequence[bool]
) -> Sequence[Tensor] | None:
    """TensorFlow takes the last id that there is for the number of segments; those behind it have no gradient."""
    cotangents, indices, ids, size = inputs
    if not stacked[0] or any(stacked[1:]):
        return None
    return [cotangents[:, : tf.reduce_max(ids) + 1], indices, ids, size]


# ---------------------------------------------------------------------------------------------------------------- facts

declare(
    """
    SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd
    UnsortedSegmentSum
    """,
    example_axis=_segments,
    rows=_rows_of_segments,
)
declare("SegmentMean SegmentSum UnsortedSegmentSum", linear="in the first")
declare("SegmentMean", gradient=Gradient(_segment_mean))
declare("SegmentMax SegmentMin", gradient=Gradient(_segment_extreme))
declare("UnsortedSegmentMax UnsortedSegmentMin", gradient=Gradient(_unsorted_segment_extreme))
declare(
    """
    SparseSegmentMean SparseSegmentMeanWithNumSegments SparseSegmentSqrtN SparseSegmentSqrtNWithNumSegments
    SparseSegmentSum SparseSegmentSumWithNumSegments
    """,
    example_axis=_sparse_segments,
)
declare(*_SEGMENTS, gradient=Gradient(_gradient_of_sparse_segment), conversion=_sparse_segment_grad)
declare("SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum", sized_by=(1,))
declare("UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum", sized_by=(2,))
declare("SparseSegmentMean SparseSegmentSqrtN SparseSegmentSum", sized_by=(2,))
declare("SparseSegmentMeanGrad SparseSegmentSqrtNGrad SparseSegmentSumGrad", sized_by=(3,))
declare("SparseSegmentMeanWithNumSegments SparseSegmentSqrtNWithNumSegments", sized_by=(2, 3))
declare("SparseSegmentSumWithNumSegments", sized_by=(2, 3))
