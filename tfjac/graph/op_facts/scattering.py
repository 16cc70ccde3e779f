"""Ops that write by index: scatters, stitches, updates of a block.

Of writes to the same place twice, the one that is overwritten has no gradient. TensorFlow gives each of them the
gradient of what stands there in the end. Which one stands there, the op itself is asked: it writes their numbers in the
same way.
"""

from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from tfjac._indices import as_int32
from tfjac.graph.examples.example_rules import SHARED, Axis, ExampleAxis, NoRule, Wanted, known_shape
from tfjac.graph.examples.row_rules import NONE, InputRows, Rows, WantedRows, of_rows, summed_into
from tfjac.graph.facts import declare, facts_of
from tfjac.graph.gradients.mending import Gradient
from tfjac.graph.op_facts.indexing import depth_of
from tfjac.graph.reading.static_values import static_value
from tfjac.types import Tensor

# --------------------------------------------------------------------------------------------- the axis of the examples


def _scatter_nd(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """Updates [positions, ...behind] are added up at the places that the indices name: [places, ...behind]."""
    indices, updates, _ = op.inputs
    if _writes_each_row(op, indices, updates, axis, wanted):
        return [SHARED, axis, SHARED]
    return [SHARED, _behind_places(indices, axis, wanted), SHARED]


def _scatter_into(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    _, indices, updates = op.inputs
    if _writes_each_row(op, indices, updates, axis, wanted):
        return [axis, SHARED, axis]
    return [axis, SHARED, _behind_places(indices, axis, wanted)]


def _writes_each_row(op: tf.Operation, indices: Tensor, updates: Tensor, axis: ExampleAxis, wanted: Wanted) -> bool:
    """Whether row k of the indices `[n, depth]` names a place in example k, for each of the n examples."""
    if axis != ExampleAxis(0) or indices.shape.rank != 2 or not numbers_rows(indices):
        return False
    rows, size = known_shape(wanted, updates)[0], known_shape(wanted, op.outputs[0])[0]
    if rows is not None and size is not None:
        return rows == size
    wanted.assume(op, updates, axis)
    return True


def numbers_rows(tensor: Tensor) -> bool:
    """Whether the first column of a tensor, or a vector, is 0, 1, 2, ..., as far as the graph tells."""
    known = static_value(tensor)
    if known is not None:
        first = known if known.ndim == 1 else known[:, 0]
        return bool((first == np.arange(len(first))).all())
    rule = facts_of(tensor.op).first_column
    column = None if rule is None else rule(tensor.op)
    return column is True or (column is not None and column.shape.rank in (1, 2) and numbers_rows(column))


def _behind_places(indices: Tensor, axis: ExampleAxis, wanted: Wanted) -> ExampleAxis:
    depth, positions = depth_of(indices, wanted)
    if axis.axis < depth:
        raise NoRule("it writes to examples by index")
    return axis.moved(axis.axis - depth + positions)


def _update_block(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """A block replaces a part of the input; along the axis of the examples it must be as long as the input."""
    size, block = (known_shape(wanted, tensor)[axis.axis] for tensor in op.inputs[:2])
    if size != block:
        raise NoRule("it replaces a part of the axis of the examples")
    wanted.meet(op, [(tensor, axis) for tensor in op.inputs[:2]])
    return [axis, axis, SHARED]


# ----------------------------------------------------------------------------------------------------------------- rows


def _rows_of_scatter(op: tf.Operation, rows: Rows, wanted: WantedRows) -> InputRows | None:
    return [(SHARED, None), (ExampleAxis(0), summed_into(op.outputs[0], rows, of_rows(op.inputs[0]))), (SHARED, None)]


def _rows_of_scatter_into(op: tf.Operation, rows: Rows, wanted: WantedRows) -> InputRows | None:
    updates = summed_into(op.outputs[0], rows, of_rows(op.inputs[1]))
    return [(ExampleAxis(0), rows), (SHARED, None), (ExampleAxis(0), updates)]


def _rows_of_stitch(op: tf.Operation, rows: Rows, wanted: WantedRows) -> InputRows | None:
    """Row e of each part goes to row `indices[e]` of the output."""
    indices = list(op.inputs[: len(op.inputs) // 2])
    if any(each.shape.rank != 1 for each in indices):
        raise NoRule("its indices are no vectors")
    return [(SHARED, None)] * len(indices) + [
        (ExampleAxis(0), summed_into(op.outputs[0], rows, each)) for each in indices
    ]


def _rows_of_partition(op: tf.Operation, rows: Rows, wanted: WantedRows) -> InputRows | None:
    """Row e of the data is a row of one of the outputs, which have their own rows each, or none at all."""
    data, partitions = op.inputs
    if partitions.shape.rank != 1:
        raise NoRule("its partitions are no vector")
    counted = tf.range(tf.shape(data)[0])
    places = tf.dynamic_partition(counted, partitions, len(op.outputs))
    given = [wanted.rows.get(output.ref()) for output in op.outputs]
    ids = [tf.fill(tf.shape(k), NONE) if each is None else each.ids for k, each in zip(places, given)]
    of_data = tf.tensor_scatter_nd_update(
        tf.fill(tf.shape(counted), NONE), tf.concat(places, 0)[:, None], tf.concat(ids, 0)
    )
    return [(ExampleAxis(0), Rows(tf.ensure_shape(of_data, data.shape[:1]))), (SHARED, None)]


# ------------------------------------------------------------------------------------------------------------ gradients


def _may_repeat(indices: Tensor) -> bool:
    """Whether a row of `[k, depth]` indices may occur twice, as far as the graph tells."""
    known = static_value(indices)
    return known is None or len({tuple(row) for row in known.reshape(-1, known.shape[-1])}) < known[..., 0].size


def _gradient_of_update(op: tf.Operation, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    tensor, indices, updates = op.inputs
    indices = as_int32(indices)  # TensorFlow 2.21 does not vectorise writes by others
    depth = tf.shape(indices)[-1]
    count = tf.reduce_prod(tf.shape(indices)[:-1])
    numbers = tf.reshape(tf.range(count), tf.shape(indices)[:-1])
    places = tf.zeros(tf.shape(tensor)[:depth], numbers.dtype)
    stands = tf.equal(tf.gather_nd(tf.tensor_scatter_nd_update(places, indices, numbers), indices), numbers)
    rest = tf.tensor_scatter_nd_update(cotangent, indices, tf.zeros_like(updates))
    return rest, None, _where_first_axes(stands, tf.gather_nd(cotangent, indices))


def _stitches_may_repeat(op: tf.Operation, ops: Iterable[tf.Operation]) -> bool:
    known = [static_value(indices) for indices in op.inputs[: len(op.inputs) // 2]]
    if any(value is None for value in known):
        return True
    together = [index for value in known for index in value.reshape(-1).tolist()]
    return len(set(together)) < len(together)


def _stitch(op: tf.Operation, cotangent: Tensor) -> list[Tensor | None]:
    cotangent = tf.convert_to_tensor(cotangent)
    indices = op.inputs[: len(op.inputs) // 2]
    sizes = tf.stack([tf.size(each) for each in indices])
    firsts = tf.cumsum(sizes, exclusive=True)
    numbers = [tf.reshape(tf.range(tf.size(each)) + firsts[k], tf.shape(each)) for k, each in enumerate(indices)]
    write = getattr(tf.raw_ops, op.type)
    written = write(indices=indices, data=numbers)
    parts = [
        _where_first_axes(tf.equal(tf.gather(written, each), own), tf.gather(cotangent, each))
        for each, own in zip(indices, numbers)
    ]
    return [None] * len(indices) + parts


def _where_first_axes(mask: Tensor, tensor: Tensor) -> Tensor:
    """Zeros where `mask`, of the first axes of `tensor`, is false."""
    trailing = tf.ones([tf.rank(tensor) - tf.rank(mask)], tf.int32)
    return tf.where(tf.reshape(mask, tf.concat([tf.shape(mask), trailing], 0)), tensor, tf.zeros_like(tensor))


# ---------------------------------------------------------------------------------------------------------------- facts

declare("ScatterNd", example_axis=_scatter_nd, rows=_rows_of_scatter, sized_by=(2,))
declare(
    "TensorScatterAdd TensorScatterSub",
    vanishes="where all do",
    example_axis=_scatter_into,
    rows=_rows_of_scatter_into,
)
declare(
    "TensorScatterUpdate",
    vanishes="where all do",
    example_axis=_scatter_into,
    rows=_rows_of_scatter_into,
    gradient=Gradient(_gradient_of_update, when=lambda op, ops: _may_repeat(op.inputs[1])),
)
declare("TensorScatterMax TensorScatterMin", example_axis=_scatter_into)
declare("XlaDynamicUpdateSlice", example_axis=_update_block)
declare(
    "DynamicStitch ParallelDynamicStitch",
    rows=_rows_of_stitch,
    gradient=Gradient(_stitch, when=_stitches_may_repeat),
)
declare("DynamicPartition", rows=_rows_of_partition)
declare("DynamicPartition DynamicStitch ParallelDynamicStitch", sized_by="all")
