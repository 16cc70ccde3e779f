"""Ops that take a part of a tensor by places, and the gradient that puts it back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph.examples.example_rules import SHARED, Axis, ExampleAxis, NoRule, Wanted, known_shape
from tfjac.graph.examples.index_maps import ValueOf
from tfjac.graph.facts import declare
from tfjac.graph.gradients.vectorising import by_known_lists
from tfjac.graph.op_facts.joining import CONCAT_OFFSET, PACK
from tfjac.graph.op_facts.sizes import SHAPE, SHAPES
from tfjac.graph.reading.static_values import of_inputs, static_value
from tfjac.graph.reading.symbolic_sizes import Given, Sizes, SymbolicSizes
from tfjac.types import Array, Tensor


def _slice(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """From 0, up to the end. The parts of a gradient of concat have that size by construction, be it open or not."""
    tensor, begin, size = op.inputs
    whole, taken = tensor.shape[axis.axis], _size_taken(size, axis.axis)
    part_of_concat = begin.op.type == CONCAT_OFFSET and size.op.type == SHAPES and None in (taken, whole)
    reaches_end = taken == -1 or taken == whole is not None or part_of_concat or _is_size_of(tensor, size, axis.axis)
    if not _starts_at_zero(begin, axis.axis) or not reaches_end:
        raise NoRule("it takes a part of the axis of the examples")
    return [axis, SHARED, SHARED]


def _starts_at_zero(begin: Tensor, along: int) -> bool:
    """Whether a slice begins at 0 on axis `along`; a gradient of concat takes its beginnings from ConcatOffset."""
    if begin.op.type == CONCAT_OFFSET:
        concatenated = static_value(begin.op.inputs[0])
        return concatenated is not None and int(concatenated) % begin.shape[0] != along
    value = tf.get_static_value(begin, partial=True)
    return value is not None and bool(value[along] == 0)


def _size_taken(size: Tensor, along: int) -> int | np.integer | None:
    """The size of a slice on axis `along`; None where the trace leaves it open."""
    if size.op.type in (SHAPE, SHAPES):
        return size.op.inputs[size.value_index].shape[along]
    value = static_value(size)
    value = tf.get_static_value(size, partial=True) if value is None else value
    return None if value is None else value[along]


def _is_size_of(tensor: Tensor, size: Tensor, along: int) -> bool:
    """Whether `size[along]` was packed from `tf.shape(tensor)[along]`."""
    entry = size.op.inputs[along] if size.op.type == PACK else size
    if entry.op.type != "StridedSlice" or entry.op.inputs[0].op.type != SHAPE:
        return False
    begin = static_value(entry.op.inputs[1])
    return entry.op.inputs[0].op.inputs[0] is tensor and begin is not None and begin.tolist() == [along]


def _strided_slice(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """Follow the masks: each entry of the index is a new axis, one index, a range, or an ellipsis."""
    begin, end, strides = (static_value(tensor) for tensor in op.inputs[1:4])
    shape = known_shape(wanted, op.inputs[0])
    if strides is None:
        raise NoRule("its strides are unknown until it runs")
    masks = {name: op.get_attr(name + "_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    position = _sliced_axis(axis.axis, len(strides), len(shape), masks)
    if position is None:
        return [SHARED] * 4
    source, entry = position
    if entry is not None and not _whole_range(entry, begin, end, strides, masks, shape[source]):
        raise NoRule("it takes a part of the axis of the examples")
    return [axis.moved(source), SHARED, SHARED, SHARED]


def _strided_slice_gradient(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """The transpose of a slice: what was taken goes back to its place among zeros."""
    begin, end, strides = (static_value(tensor) for tensor in op.inputs[1:4])
    rank, size = op.inputs[0].shape[0], known_shape(wanted, op.outputs[0])[axis.axis]
    if strides is None or rank is None:
        raise NoRule("its strides are unknown until it runs")
    masks = {name: op.get_attr(name + "_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    for target in range(len(known_shape(wanted, op.inputs[4]))):
        source, entry = _sliced_axis(target, len(strides), rank, masks) or (None, None)
        if source == axis.axis and (entry is None or _whole_range(entry, begin, end, strides, masks, size)):
            return [SHARED] * 4 + [axis.moved(target)]
    raise NoRule("it puts back a part of the axis of the examples")


def _sliced_axis(wanted_axis: int, entries: int, rank: int, masks: Mapping[str, int]) -> tuple[int, int | None] | None:
    """Return the input axis and the index entry behind output axis `wanted_axis`; None for a new axis."""
    consumed = sum(not (masks["new_axis"] >> e & 1 or masks["ellipsis"] >> e & 1) for e in range(entries))
    source = target = 0
    for entry in range(entries):
        if masks["ellipsis"] >> entry & 1:
            for _ in range(rank - consumed):
                if target == wanted_axis:
                    return source, None
                source, target = source + 1, target + 1
        elif masks["new_axis"] >> entry & 1:
            if target == wanted_axis:
                return None
            target += 1
        else:
            if not masks["shrink_axis"] >> entry & 1:
                if target == wanted_axis:
                    return source, entry
                target += 1
            source += 1
    return source + (wanted_axis - target), None


def _whole_range(
    entry: int, begin: Array | None, end: Array | None, strides: Array, masks: Mapping[str, int], size: int | None
) -> bool:
    from_start = masks["begin"] >> entry & 1 or (begin is not None and begin[entry] == 0)
    to_end = masks["end"] >> entry & 1 or (end is not None and size is not None and end[entry] >= size)
    return bool(strides[entry] == 1 and from_start and to_end)


def _one_entry(known: SymbolicSizes, output: Tensor, given: Given) -> Sizes:
    """One entry of a vector, or some that follow one another, of which the masks say nothing else."""
    bounds = [static_value(bound) for bound in output.op.inputs[1:]]
    if given[0] is None or any(bound is None or bound.size != 1 for bound in bounds):
        return None
    if output.op.get_attr("ellipsis_mask"):
        return given[0]
    begin, end, stride = (bound.item() for bound in bounds)
    if output.op.get_attr("shrink_axis_mask"):
        return [given[0][begin]]
    begin = None if output.op.get_attr("begin_mask") else begin
    end = None if output.op.get_attr("end_mask") else end
    return given[0][begin:end:stride]


def _entries_of_slice(known: SymbolicSizes, output: Tensor, given: Given) -> Sizes:
    """As the cross-entropies of logits take the last size, where the batch is open."""
    begin, size = (static_value(bound) for bound in output.op.inputs[1:])
    if given[0] is None or begin is None or size is None:
        return None
    (first,), (count,) = begin, size
    return given[0][first:][: None if count < 0 else count]


def _of_vector(output: Tensor, value_of: ValueOf) -> Any:
    """A part of a vector, as in `tf.shape(x)[1:]`, or one element."""
    op = output.op
    if op.inputs[0].shape.rank != 1 or op.get_attr("new_axis_mask") or op.get_attr("ellipsis_mask"):
        return None
    if op.get_attr("shrink_axis_mask"):
        return of_inputs(lambda vector, begin, *_: vector[begin[0]])(output, value_of)
    open_ends = op.get_attr("begin_mask"), op.get_attr("end_mask")

    def part(vector: Any, begin: Any, end: Any, strides: Any) -> Any:
        first, last = (None if is_open else at[0] for is_open, at in zip(open_ends, (begin, end)))
        return vector[first : last : strides[0]]

    return of_inputs(part)(output, value_of)


def _made_a_column(op: tf.Operation) -> Tensor | None:
    """The vector x of `x[:, None]`."""
    whole = op.get_attr("begin_mask") & op.get_attr("end_mask") & 1 and op.get_attr("new_axis_mask") == 2
    strides = static_value(op.inputs[3])
    forwards = whole and op.inputs[0].shape.rank == 1 and strides is not None and strides[0] == 1
    return op.inputs[0] if forwards else None


declare(
    "Slice",
    elements="copied",
    linear="in the first",
    takes="a slice",
    example_axis=_slice,
    entries=_entries_of_slice,
    shortcut=by_known_lists(lambda c, begin, sizes: [[0, *begin], [c, *sizes]]),
)
declare(
    "StridedSlice",
    elements="copied",
    linear="in the first",
    takes="a strided slice",
    example_axis=_strided_slice,
    entries=_one_entry,
    value=_of_vector,
)
declare("StridedSliceGrad", example_axis=_strided_slice_gradient, sized_by=(0,))
declare("StridedSlice", first_column=_made_a_column, sized_by=(1, 2, 3))
declare("Slice", sized_by=(1, 2))
