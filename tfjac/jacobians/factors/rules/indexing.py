"""Embeddings: a table whose rows are gathered by integers."""

import tensorflow as tf

from tfjac._indices import as_int32
from tfjac.graph import SHARED, ExampleAxis, axes, handle_shape
from tfjac.jacobians.factors.rules.factor_rules import NoFactor, rule
from tfjac.jacobians.factors.rules.fallback import pulled_through_op
from tfjac.jacobians.factors.slices import sliced
from tfjac.jacobians.factors.uses import READ, ROWS_OF_WEIGHT, Use
from tfjac.jacobians.shapes import split_examples
from tfjac.linear.factors.forms import Factor
from tfjac.linear.factors.gather_factor import GatherFactor
from tfjac.linear.shapes import Size, product
from tfjac.types import Tensor


@rule("GatherV2")
def _gather(use: Use) -> Factor:
    along = tf.get_static_value(use.op.inputs[2])
    if use.weight_index != 0 or along is None or int(along) != 0 or use.op.get_attr("batch_dims") != 0:
        raise NoFactor("only gathering rows of a table by per-example indices is covered")
    return _rows(use, use.op.inputs[1], axes(use.weight)[0])


@rule("ResourceGather")
def _resource_gather(use: Use) -> Factor:
    if use.op.get_attr("batch_dims") != 0:
        raise NoFactor("only gathering without batch dimensions is covered")
    return _rows(use, use.op.inputs[1], _number_of_rows(use.weight))


@rule("GatherNd", "ResourceGatherNd")
def _gather_nd(use: Use) -> Factor:
    indices = use.op.inputs[1]
    by_rows = indices.shape.rank is not None and indices.shape[-1] == 1 and use.input_axes[1] is not SHARED
    if use.weight_index != 0 or not by_rows:
        raise NoFactor("only gathering whole rows of a table is covered")
    return _rows(use, tf.squeeze(indices, -1), _number_of_rows(use.weight))


@rule("StridedSlice", "Slice")
def _slice(use: Use) -> Factor:
    found = sliced(use.op) if use.weight_index == 0 and use.axis == ExampleAxis(0) else None
    if found is None:
        raise NoFactor("only slicing rows, or a part of one row, of a table is covered")
    d = use.split_cotangent()
    n, m, *sizes = axes(d)
    d = tf.reshape(d, [n, m, 1, product(sizes)])
    if found.is_one_row:
        return found.factor_of_parts(d)
    return found.factor(GatherFactor(tf.range(n)[:, None], d, n))


@rule(READ, "Reshape")
def _own_rows(use: Use) -> Factor:
    """Each example is computed from a row of its own; the order of elements stays what it is."""
    if (use.axis.axis, use.axis.outer) != (0, 1):
        raise NoFactor("only rows along axis 0 are covered")
    return _each_its_row(use.split_cotangent())


@rule(ROWS_OF_WEIGHT)
def _rows_of_weight(use: Use) -> Factor:
    """The op takes a row for each example: the cotangents are pulled back through it, those of all examples at once."""
    return _each_its_row(split_examples(pulled_through_op(use), ExampleAxis(0), use.n, lead=1))


def _each_its_row(d: Tensor) -> Factor:
    """The factor of a table of which example n reads row n, given the cotangents `[n, m, ...]` of the rows."""
    n, m, *sizes = axes(d)
    return GatherFactor(tf.range(n)[:, None], tf.reshape(d, [n, m, 1, product(sizes)]), n)


def _number_of_rows(table: Tensor) -> Size:
    if table.dtype != tf.resource:
        return axes(table)[0]
    rows = handle_shape(table)[0]
    return tf.raw_ops.VariableShape(input=table)[0] if rows is None else rows


def _rows(use: Use, ids: Tensor, rows: Size) -> Factor:
    """ids [..., n, ...] and output [..., n, ..., *columns]: positions are all axes of the ids but the example's."""
    ids = use.split(ids, use.input_axes[1])
    d = use.split_cotangent()
    n, m, *sizes = axes(d)
    positions = ids.shape.rank - 1
    t, o = product(sizes[:positions]), product(sizes[positions:])
    rows = tf.cast(rows, tf.int32) if tf.is_tensor(rows) else rows
    ids = as_int32(tf.reshape(ids, [n, t]))  # the dtype of sizes that are open while tracing
    return GatherFactor(ids, tf.reshape(d, [n, m, t, o]), rows)
