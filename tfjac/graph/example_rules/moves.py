"""Ops that move elements: reshape, transpose, concat, slice."""

import math

import tensorflow as tf

from tfjac.graph.example_rules.registry import SHARED, ExampleAxis, NoRule, known_shape, rule, undoes_broadcast
from tfjac.graph.static_values import static_value
from tfjac.graph.symbolic_sizes import Size, product


@rule("Reshape")
def _reshape(op, axis, wanted):
    """Behind the sum that undoes a broadcast, in a gradient, the axes are those of the sum, less some in front."""
    if undoes_broadcast(op.inputs[0].op):
        return [axis.moved(axis.axis + op.inputs[0].op.inputs[0].shape.rank - op.outputs[0].shape.rank), SHARED]
    return [_regrouped(op, axis, wanted), SHARED]


@rule("ExpandDims")
def _expand_dims(op, axis, wanted):
    added = static_value(op.inputs[1])
    added = None if added is None else added.item() % len(known_shape(wanted, op.outputs[0]))
    if added in (None, axis.axis):
        return [_regrouped(op, axis, wanted), SHARED]
    return [axis.moved(axis.axis - (added < axis.axis)), SHARED]


@rule("Squeeze")
def _squeeze(op, axis, wanted):
    shape = known_shape(wanted, op.inputs[0])
    removed = {index % len(shape) for index in op.get_attr("squeeze_dims")}
    if not removed and None in shape:
        return [_regrouped(op, axis, wanted)]
    removed = removed or {index for index, size in enumerate(shape) if size == 1}
    return [axis.moved([index for index in range(len(shape)) if index not in removed][axis.axis])]


def _regrouped(op, axis, wanted):
    """Keep the row-major order: `before` elements outside an example's block and `after` inside must stay the same.

    Where sizes are open, examples that run outermost stay outermost, and how many rows each takes is left open.
    """
    out, shape = known_shape(wanted, op.outputs[0]), known_shape(wanted, op.inputs[0])
    sizes, sizes_behind = _sizes(wanted, op.inputs[0], shape), _sizes(wanted, op.outputs[0], out)
    before = product([Size(axis.outer), *sizes_behind[: axis.axis]])
    after = None if axis.inner is None else product([Size(axis.inner), *sizes_behind[axis.axis + 1 :]])
    fitting = []
    for position, size in enumerate(shape):
        outer = _number(before.over(product(sizes[:position])))
        inner = after and _number(after.over(product(sizes[position + 1 :])))
        if outer and inner and _divides(outer * inner, size, wanted.num_examples):
            fitting.append(ExampleAxis(position, outer, inner))
    if fitting:
        return min(fitting, key=lambda axis: _implausible(axis, shape[axis.axis], wanted.num_examples))
    if before == Size() and (after is None or after.open or None in shape[1:]) and shape[0] is None:
        return ExampleAxis(0, 1, None)
    raise NoRule(f"it reshapes {shape} to {out}, in which the examples cannot be told apart")


def _implausible(axis, size, num_examples):
    """Sort key: open axes first. Those of size 1 last, save where there is one example: any axis would fit then."""
    if num_examples == 1:
        return size is not None, axis.outer * axis.inner
    return size is not None, size == 1


def _sizes(wanted, tensor, shape):
    """The sizes of `tensor`, some of which `shape` may know by number."""
    if None not in shape:
        return [Size(size) for size in shape]
    return [named if size is None else Size(size) for size, named in zip(shape, wanted.symbolic_sizes.sizes(tensor))]


def _number(size):
    """The number that a `Size` is, 0 where it is open or None."""
    return 0 if size is None or size.open else size.number


def _divides(block, size, num_examples):
    if size is None:
        return True
    return size == block * num_examples if num_examples is not None else size % block == 0


@rule("Transpose", "ConjugateTranspose")
def _transpose(op, axis, wanted):
    permutation = wanted.symbolic_sizes.permutation(op)
    if permutation is None:
        raise NoRule("its permutation is unknown until it runs")
    return [axis.moved(int(permutation[axis.axis])), SHARED]


@rule("Pad", "PadV2", "MirrorPad")
def _pad(op, axis, wanted):
    paddings = static_value(op.inputs[1])
    if paddings is None or paddings[axis.axis].any():
        raise NoRule("it pads the axis of the examples")
    return [axis] + [SHARED] * (len(op.inputs) - 1)


@rule("Tile")
def _tile(op, axis, wanted):
    shape, multiples = known_shape(wanted, op.inputs[0]), wanted.symbolic_sizes.entries(op.inputs[1])
    if shape[axis.axis] == 1 and op.outputs[0].shape[axis.axis] != 1:
        return [SHARED, SHARED]
    if multiples is None or multiples[axis.axis] != Size():
        raise NoRule("it repeats examples")
    return [axis, SHARED]


@rule("ConcatV2")
def _concat(op, axis, wanted):
    along, rank = static_value(op.inputs[-1]), op.outputs[0].shape.rank
    if along is None or rank is None or int(along) % rank == axis.axis:
        raise NoRule("it concatenates along the axis of the examples")
    return [axis] * (len(op.inputs) - 1) + [SHARED]


@rule("Pack")
def _pack(op, axis, wanted):
    along = op.get_attr("axis") % op.outputs[0].shape.rank
    if along == axis.axis:
        raise NoRule("it stacks along the axis of the examples")
    return [axis.moved(axis.axis - (along < axis.axis))] * len(op.inputs)


@rule("Unpack")
def _unpack(op, axis, wanted):
    along = op.get_attr("axis") % op.inputs[0].shape.rank
    return [axis.moved(axis.axis + (along <= axis.axis))]


@rule("Split", "SplitV")
def _split(op, axis, wanted):
    value, along = (op.inputs[1], op.inputs[0]) if op.type == "Split" else (op.inputs[0], op.inputs[2])
    along = static_value(along)
    if along is None or int(along) % value.shape.rank == axis.axis:
        raise NoRule("it splits the axis of the examples")
    return [axis if tensor is value else SHARED for tensor in op.inputs]


@rule("Slice")
def _slice(op, axis, wanted):
    """From 0, up to the end. The parts of a gradient of concat have that size by construction, be it open or not."""
    tensor, begin, size = op.inputs
    whole, taken = tensor.shape[axis.axis], _size_taken(size, axis.axis)
    part_of_concat = begin.op.type == "ConcatOffset" and size.op.type == "ShapeN" and None in (taken, whole)
    reaches_end = taken == -1 or taken == whole is not None or part_of_concat or _is_size_of(tensor, size, axis.axis)
    if not _starts_at_zero(begin, axis.axis) or not reaches_end:
        raise NoRule("it takes a part of the axis of the examples")
    return [axis, SHARED, SHARED]


def _starts_at_zero(begin, along):
    """Whether a slice begins at 0 on axis `along`; a gradient of concat takes its beginnings from ConcatOffset."""
    if begin.op.type == "ConcatOffset":
        concatenated = static_value(begin.op.inputs[0])
        return concatenated is not None and int(concatenated) % begin.shape[0] != along
    value = tf.get_static_value(begin, partial=True)
    return value is not None and value[along] == 0


def _size_taken(size, along):
    """The size of a slice on axis `along`; None where the trace leaves it open."""
    if size.op.type in ("Shape", "ShapeN"):
        return size.op.inputs[size.value_index].shape[along]
    value = static_value(size)
    value = tf.get_static_value(size, partial=True) if value is None else value
    return None if value is None else value[along]


def _is_size_of(tensor, size, along):
    """Whether `size[along]` was packed from `tf.shape(tensor)[along]`."""
    entry = size.op.inputs[along] if size.op.type == "Pack" else size
    if entry.op.type != "StridedSlice" or entry.op.inputs[0].op.type != "Shape":
        return False
    begin = static_value(entry.op.inputs[1])
    return entry.op.inputs[0].op.inputs[0] is tensor and begin is not None and begin.tolist() == [along]


@rule("StridedSlice")
def _strided_slice(op, axis, wanted):
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


@rule("StridedSliceGrad")
def _strided_slice_gradient(op, axis, wanted):
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


def _sliced_axis(wanted_axis, entries, rank, masks):
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


def _whole_range(entry, begin, end, strides, masks, size):
    from_start = masks["begin"] >> entry & 1 or (begin is not None and begin[entry] == 0)
    to_end = masks["end"] >> entry & 1 or (end is not None and size is not None and end[entry] >= size)
    return strides[entry] == 1 and from_start and to_end


@rule("SpaceToBatchND")
def _space_to_batch(op, axis, wanted):
    """The new batch is block · n, the block outermost."""
    block = static_value(op.inputs[1])
    if block is None or axis.axis != 0 or axis.outer % math.prod(block):
        raise NoRule("it moves positions into the axis of the examples")
    return [ExampleAxis(0, axis.outer // math.prod(block), axis.inner), SHARED, SHARED]


@rule("BatchToSpaceND")
def _batch_to_space(op, axis, wanted):
    block = static_value(op.inputs[1])
    if block is None or axis.axis != 0:
        raise NoRule("it moves positions out of the axis of the examples")
    return [ExampleAxis(0, int(axis.outer * math.prod(block)), axis.inner), SHARED, SHARED]
