"""Ops that give the elements of a tensor another shape or order, or repeat them."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.examples.example_rules import SHARED, Axis, ExampleAxis, NoRule, Wanted, aligned, known_shape
from tfjac.graph.examples.index_maps import (
    AxisLabels,
    ShapeOf,
    ValueOf,
    axis_labels,
    example_axes,
    from_the_right,
    in_order,
    labelled_sizes,
)
from tfjac.graph.facts import declare
from tfjac.graph.gradients.mending import Gradient
from tfjac.graph.gradients.vectorising import by_known_lists
from tfjac.graph.op_facts.elementwise import EQUAL, MINIMUM, SELECT, SELECT_V2
from tfjac.graph.op_facts.reductions import undoes_broadcast
from tfjac.graph.op_facts.sizes import RESHAPE, SHAPE
from tfjac.graph.reading.static_values import of_inputs, static_value
from tfjac.graph.reading.symbolic_sizes import Given, Size, Sizes, SymbolicSizes, of_first, product
from tfjac.types import Array, Tensor


def _is_fixed(op: tf.Operation, ops: Iterable[tf.Operation]) -> bool:
    """Whether XLA compiles this, and the graph fixes the permutation."""
    return _private.compiled_by_xla(op.graph) and static_value(op.inputs[1]) is not None


def _gradient_of_transpose(op: tf.Operation, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    """By a constant, which XLA needs: a loop saves the permutation, and on the way back it is none any more."""
    return tf.transpose(cotangent, np.argsort(static_value(op.inputs[1]))), None


# --------------------------------------------------------------------------------------------- the axis of the examples


def _reshape(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """Behind the sum that undoes a broadcast, in a gradient, the axes are those of the sum, less some in front."""
    if undoes_broadcast(op.inputs[0].op):
        return [axis.moved(axis.axis + op.inputs[0].op.inputs[0].shape.rank - op.outputs[0].shape.rank), SHARED]
    return [_regrouped(op, axis, wanted), SHARED]


def _with_one_more(op: tf.Operation, shape: ShapeOf, value_of: ValueOf) -> AxisLabels | None:
    added, labels = value_of(op.inputs[1]), in_order(len(shape(0)))
    if added is None:
        return None
    at = int(np.reshape(added, [])) % (len(labels) + 1)
    return [labels, None], [*labels[:at], None, *labels[at:]]


def _without_ones(op: tf.Operation, shape: ShapeOf, value_of: ValueOf) -> AxisLabels | None:
    sizes = shape(0)
    removed = {axis % len(sizes) for axis in op.get_attr("squeeze_dims")}
    if not removed and None in sizes:
        return None
    removed = removed or {axis for axis, size in enumerate(sizes) if size == 1}
    labels = [None if axis in removed else label for axis, label in enumerate(in_order(len(sizes)))]
    return [labels], [label for label in labels if label]


def _axes_of_size_1(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """If the examples run along an axis that is added, or what is removed is open, by the order of the elements."""
    found = axis_labels(op, lambda k: known_shape(wanted, op.inputs[k]))
    if found is None or found[1][axis.axis] is None:
        return [_regrouped(op, axis, wanted), SHARED][: len(op.inputs)]
    return example_axes(op, axis, wanted)


def _regrouped(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> ExampleAxis:
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


def _implausible(axis: ExampleAxis, size: int | None, num_examples: int | None) -> tuple[bool, bool | int]:
    """Sort key: open axes first. Those of size 1 last, save where there is one example: any axis would fit then."""
    if num_examples == 1:
        assert axis.inner is not None  # it fits
        return size is not None, axis.outer * axis.inner
    return size is not None, size == 1


def _sizes(wanted: Wanted, tensor: Tensor, shape: Sequence[int | Any]) -> list[Size]:
    """The sizes of `tensor`, some of which `shape` may know by number."""
    if None not in shape:
        return [Size(size) for size in shape]
    return [named if size is None else Size(size) for size, named in zip(shape, wanted.symbolic_sizes.sizes(tensor))]


def _number(size: Size | None) -> int:
    """The number that a `Size` is, 0 where it is open or None."""
    return 0 if size is None or size.open else size.number


def _divides(block: int, size: int | None, num_examples: int | None) -> bool:
    if size is None:
        return True
    return size == block * num_examples if num_examples is not None else size % block == 0


def _permuted(op: tf.Operation, shape: ShapeOf, value_of: ValueOf) -> AxisLabels | None:
    order = value_of(op.inputs[1])
    if order is None:
        return None
    labels = in_order(len(order))
    return [labels, None], [labels[int(axis)] for axis in order]


def _transpose(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    return example_axes(op, axis, wanted, lambda _: permutation_of(op, wanted.symbolic_sizes))


def _tile(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    shape, multiples = known_shape(wanted, op.inputs[0]), wanted.symbolic_sizes.entries(op.inputs[1])
    if shape[axis.axis] == 1 and op.outputs[0].shape[axis.axis] != 1:
        return [SHARED, SHARED]
    if multiples is None or multiples[axis.axis] != Size():
        raise NoRule("it repeats examples")
    return [axis, SHARED]


def _spread(op: tf.Operation, shape: ShapeOf, value_of: ValueOf) -> AxisLabels | None:
    (rank,) = shape(1)
    return None if rank is None else ([from_the_right(len(shape(0))), None], from_the_right(rank))


def _broadcast_to(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    given, result = op.inputs[0], op.outputs[0]
    return [aligned(op, axis, [given, result], known_shape(wanted, result), wanted)[0], SHARED]


def _space_to_batch(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """The new batch is block · n, the block outermost."""
    block = static_value(op.inputs[1])
    if block is None or axis.axis != 0 or axis.outer % math.prod(block):
        raise NoRule("it moves positions into the axis of the examples")
    return [ExampleAxis(0, int(axis.outer // math.prod(block)), axis.inner), SHARED, SHARED]


def _batch_to_space(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    block = static_value(op.inputs[1])
    if block is None or axis.axis != 0:
        raise NoRule("it moves positions out of the axis of the examples")
    return [ExampleAxis(0, int(axis.outer * math.prod(block)), axis.inner), SHARED, SHARED]


# ---------------------------------------------------------------------------------------------------------------- sizes


def _reshaped_sizes(known: SymbolicSizes, output: Tensor, given: Given) -> Sizes:
    """The entries of the new shape; what stands for -1 follows from the others."""
    entries = known.entries(output.op.inputs[1])
    if entries is None:
        return None
    rest = product(given[0]).over(product(entry for entry in entries if entry != Size(-1)))
    return [rest if entry == Size(-1) else entry for entry in entries]


def _transposed_sizes(known: SymbolicSizes, output: Tensor, given: Given) -> Sizes:
    return labelled_sizes(known, output, given, lambda _: permutation_of(output.op, known))


def permutation_of(op: tf.Operation, known: SymbolicSizes) -> Array | None:
    """Return the permutation of a Transpose, None where it is unknown; `known` are the `SymbolicSizes` of its graph.

    TensorFlow's vectoriser leaves the first two of three axes as they are where one of them has size 1, and gives the
    result the shape of the swap by a reshape behind it: there, to leave them is to swap them.
    """
    fixed, choice = static_value(op.inputs[1]), op.inputs[1].op
    if fixed is not None or choice.type not in (SELECT, SELECT_V2):
        return fixed
    left, swapped = (static_value(tensor) for tensor in choice.inputs[1:])
    if left is None or swapped is None or [left.tolist(), swapped.tolist()] != [[0, 1, 2], [1, 0, 2]]:
        return None
    swaps = _one_has_size_1(known, choice.inputs[0].op, op.inputs[0]) and _reshaped_as_swapped(known, op)
    return swapped if swaps else None


def _one_has_size_1(known: SymbolicSizes, condition: tf.Operation, tensor: Tensor) -> bool:
    """Whether `condition` is `tf.minimum(s[0], s[1]) == 1`, where `s = tf.shape(tensor)`."""
    if condition.type != EQUAL or static_value(condition.inputs[1]) != 1 or tensor.shape.rank is None:
        return False
    smaller = condition.inputs[0].op
    sizes = [[size] for size in known.sizes(tensor)[:2]]
    return smaller.type == MINIMUM and [known.entries(size) for size in smaller.inputs] == sizes


def _reshaped_as_swapped(known: SymbolicSizes, transpose: tf.Operation) -> bool:
    """Whether all that reads the elements are reshapes to the shape of the input, its first two sizes swapped."""
    first, second, *others = known.sizes(transpose.inputs[0])
    readers = [reader for reader in transpose.outputs[0].consumers() if reader.type != SHAPE]
    shapes = [reader.type == RESHAPE and known.entries(reader.inputs[1]) for reader in readers]
    return shapes != [] and all(shape == [second, first, *others] for shape in shapes)


def _tiled_sizes(known: SymbolicSizes, output: Tensor, given: Given) -> Sizes:
    multiples = known.entries(output.op.inputs[1])
    return multiples and [size * times for size, times in zip(given[0], multiples)]


def _made_a_column(op: tf.Operation) -> Tensor | None:
    return op.inputs[0] if op.inputs[0].shape.rank == 1 and op.outputs[0].shape[1:] == [1] else None


# ---------------------------------------------------------------------------------------------------------------- facts

declare(
    RESHAPE,
    elements="in order",
    columns="the same",
    linear="in the first",
    example_axis=_reshape,
    sizes=_reshaped_sizes,
    entries=of_first,
    shortcut=by_known_lists(lambda c, sizes: [[c, *sizes]]),
)
declare(
    "ExpandDims",
    elements="in order",
    columns="the same",
    linear="in the first",
    labels=_with_one_more,
    example_axis=_axes_of_size_1,
    sizes=labelled_sizes,
    entries=of_first,
)
declare(
    "Squeeze",
    elements="in order",
    columns="the same",
    linear="in the first",
    labels=_without_ones,
    example_axis=_axes_of_size_1,
    sizes=labelled_sizes,
    entries=of_first,
)
declare(
    "Transpose",
    elements="permuted",
    columns="transposed",
    linear="in the first",
    labels=_permuted,
    example_axis=_transpose,
    sizes=_transposed_sizes,
    shortcut=by_known_lists(lambda c, order: [[0, *(k + (k >= 0) for k in order)]]),
)
declare("Transpose", gradient=Gradient(_gradient_of_transpose, when=_is_fixed), value=of_inputs(np.transpose))
declare("ConjugateTranspose", columns="transposed conjugates", labels=_permuted, example_axis=_transpose)
declare(
    "Tile",
    elements="copied",
    linear="in the first",
    example_axis=_tile,
    sizes=_tiled_sizes,
    shortcut=by_known_lists(lambda c, repeats: [[1, *repeats]]),
)
declare(
    "BroadcastTo",
    elements="copied",
    linear="in the first",
    labels=_spread,
    example_axis=_broadcast_to,
    sizes=lambda known, output, given: known.entries(output.op.inputs[1]),
)
declare("SpaceToBatchND", example_axis=_space_to_batch)
declare("BatchToSpaceND", example_axis=_batch_to_space)
declare("SpaceToBatchND BatchToSpaceND", affine=(0,), maps="kept", sized_by=(1, 2))
declare(RESHAPE, "ExpandDims", first_column=_made_a_column)
declare("BroadcastTo Tile", sized_by=(1,))
declare(RESHAPE, value=of_inputs(np.reshape))
