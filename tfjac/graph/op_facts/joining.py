"""Ops that put tensors together, take them apart again, or put something around them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph.examples.example_rules import SHARED, Axis, ExampleAxis, NoRule, Wanted
from tfjac.graph.examples.index_maps import ValueOf
from tfjac.graph.examples.row_rules import InputRows, Rows, WantedRows
from tfjac.graph.facts import declare
from tfjac.graph.gradients.mending import Gradient, refused
from tfjac.graph.gradients.vectorising import by_known_lists
from tfjac.graph.reading.static_values import of_inputs, static_value
from tfjac.graph.reading.symbolic_sizes import Given, Size, Sizes, SymbolicSizes
from tfjac.types import Array, Tensor

CONCAT_OFFSET, PACK = "ConcatOffset", "Pack"
"""Types of ops that rules of other families look for."""


def _concat(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    along, rank = static_value(op.inputs[-1]), op.outputs[0].shape.rank
    if along is None or rank is None or int(along) % rank == axis.axis:
        raise NoRule("it concatenates along the axis of the examples")
    return [axis] * (len(op.inputs) - 1) + [SHARED]


def _pack(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    along = op.get_attr("axis") % op.outputs[0].shape.rank
    if along == axis.axis:
        raise NoRule("it stacks along the axis of the examples")
    return [axis.moved(axis.axis - (along < axis.axis))] * len(op.inputs)


def _unpack(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    along = op.get_attr("axis") % op.inputs[0].shape.rank
    return [axis.moved(axis.axis + (along <= axis.axis))]


def _split(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    value, along = (op.inputs[1], op.inputs[0]) if op.type == "Split" else (op.inputs[0], op.inputs[2])
    along = static_value(along)
    if along is None or int(along) % value.shape.rank == axis.axis:
        raise NoRule(
            "it splits the axis of the examples. Views of one example that go through one network are joined by "
            "tf.reshape(tf.stack([a, b], axis=1), [-1, ...]), not by tf.concat along axis 0"
        )
    return [axis if tensor is value else SHARED for tensor in op.inputs]


def _pad(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    paddings = static_value(op.inputs[1])
    if paddings is None or paddings[axis.axis].any():
        raise NoRule("it pads the axis of the examples")
    return [axis] + [SHARED] * (len(op.inputs) - 1)


def _rows_of_concat(op: tf.Operation, rows: Rows, wanted: WantedRows) -> InputRows | None:
    """Rows below one another, as edges and self loops."""
    *parts, along = op.inputs
    along, rank = tf.get_static_value(along), op.outputs[0].shape.rank
    if along is None or rank is None or int(along) % rank != 0:
        return None
    ids = tf.split(rows.along(op.outputs[0]), tf.stack([tf.shape(part)[0] for part in parts]), num=len(parts))
    return [*((ExampleAxis(0), Rows(each)) for each in ids), (SHARED, None)]


def _joined(parts: Sequence[Sequence[Size | None] | Any]) -> Sizes:
    return None if None in parts else [entry for part in parts for entry in part]


def _part(known: SymbolicSizes, output: Tensor, given: Given) -> Sizes:
    """A part of a vector that is split into equal ones."""
    entries = given[1] if output.op.type == "Split" else given[0]
    size = 1 if output.shape.rank == 0 else output.shape[0]
    return entries and entries[output.value_index * size :][:size]


def _offset(output: Tensor, value_of: ValueOf) -> Array | None:
    """Where a part of a concatenation begins."""
    axis, *sizes = (value_of(part) for part in output.op.inputs)
    if axis is None or any(size is None for size in sizes):
        return None
    offset = np.zeros_like(sizes[0])
    offset[axis] = sum(each[axis] for each in sizes[: output.value_index])
    return offset


def _gradient_of_pad(op: tf.Operation, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    """With what pads, too: TensorFlow says that nothing depends on it."""
    x, paddings, _ = op.inputs
    inner = tf.slice(cotangent, paddings[:, 0], tf.shape(x, paddings.dtype))
    return inner, None, tf.reduce_sum(cotangent) - tf.reduce_sum(inner)


def _first_beside_others(op: tf.Operation) -> Tensor | None:
    """What stands in front where columns, or matrices, are put side by side."""
    axis = op.get_attr("axis") if op.type == PACK else static_value(op.inputs[-1])
    return op.inputs[0] if axis in (1, -1) else None


declare(
    "ConcatV2",
    joins="all but the last",
    elements="copied",
    maps="kept",
    linear="in all",
    vanishes="where all do",
    example_axis=_concat,
    rows=_rows_of_concat,
    entries=lambda known, output, given: _joined(given[:-1]),
    value=of_inputs(lambda *parts: np.concatenate(parts[:-1], axis=parts[-1])),
)
declare(CONCAT_OFFSET, value=_offset)
declare(
    PACK,
    joins="all inputs",
    elements="copied",
    linear="in all",
    vanishes="where all do",
    example_axis=_pack,
    entries=lambda known, output, given: _joined(given),
    value=of_inputs(lambda *parts: np.stack(parts)),
)
declare("Unpack", elements="copied", linear="in the first", example_axis=_unpack, entries=_part)
declare("Split", elements="copied", linear="in all", example_axis=_split, entries=_part)
declare("SplitV", elements="copied", example_axis=_split)
declare(
    "Pad",
    linear="in the first",
    example_axis=_pad,
    shortcut=by_known_lists(lambda c, paddings: [[[0, 0], *paddings]]),
)
declare(
    "PadV2",
    linear="in all",
    vanishes="where all do",
    example_axis=_pad,
    gradient=Gradient(_gradient_of_pad),
)
declare("MirrorPad", linear="in the first", example_axis=_pad)
declare("Pad PadV2 MirrorPad", maps="kept")
declare("SparseConcat", gradient=refused("it is declared to have none, so that nothing depends on the values"))
declare(PACK, "ConcatV2", first_column=_first_beside_others)
declare("SparseConcat", sized_by="all")
declare("Pad PadV2 MirrorPad SplitV", sized_by=(1,))
