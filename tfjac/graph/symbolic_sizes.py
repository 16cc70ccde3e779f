"""Sizes as the graph knows them: each a number times sizes that the trace leaves open, by name.

TensorFlow's vectoriser reshapes to sizes that it takes from `tf.shape` of other tensors. That products of axes are the
same before and behind such a reshape shows only where open sizes are told apart, and followed to where they begin.
"""

import collections
import dataclasses
import math

import tensorflow as tf

from tfjac.graph.op_types import ELEMENTWISE, GRADIENTS
from tfjac.graph.static_values import static_value
from tfjac.graph.traversal import Inherited


@dataclasses.dataclass(frozen=True)
class Size:
    """`number` times open sizes: pairs of one, the axis of a tensor as `(ref(), axis)`, and its power."""

    number: int = 1
    open: frozenset = frozenset()

    @classmethod
    def of(cls, tensor, axis):
        """Return the size of an axis by its number, else by its name."""
        size = tensor.shape[axis]
        return cls(size) if size is not None else cls(open=frozenset([((tensor.ref(), axis), 1)]))

    def __mul__(self, other):
        return Size(self.number * other.number, _added(self.open, other.open, 1))

    def over(self, other):
        """Return the quotient where it is whole whatever the open sizes, else None."""
        if other.number == 0 or self.number % other.number:
            return None
        powers = _added(self.open, other.open, -1)
        return None if any(power < 0 for _, power in powers) else Size(self.number // other.number, powers)


def _added(powers, others, sign):
    total = collections.Counter(dict(powers))
    for name, power in others:
        total[name] += sign * power
    return frozenset(pair for pair in total.items() if pair[1])


def product(sizes):
    """Return the product of a list of `Size`."""
    return math.prod(sizes, start=Size())


class SymbolicSizes:
    """What is known of the sizes of tensors, and of the numbers in small vectors of sizes.

    Attributes:
        sizes: function from a tensor to a list of `Size`, one per axis, None for an unknown rank. What cannot be
            followed has its own name.
        entries: function from a vector, or a scalar as a vector of one, to its entries as a list of `Size`, None where
            they are unknown.
    """

    def __init__(self):
        self.sizes, self.entries = Inherited(self._sizes_of_outputs), Inherited(self._entries_of_outputs)

    def permutation(self, op):
        """Return the permutation of a Transpose, None where it is unknown.

        TensorFlow's vectoriser leaves the first two of three axes as they are where one of them has size 1, and gives
        the result the shape of the swap by a reshape behind it: there, to leave them is to swap them.
        """
        known, choice = static_value(op.inputs[1]), op.inputs[1].op
        if known is not None or choice.type not in ("Select", "SelectV2"):
            return known
        left, swapped = (static_value(tensor) for tensor in choice.inputs[1:])
        if left is None or swapped is None or [left.tolist(), swapped.tolist()] != [[0, 1, 2], [1, 0, 2]]:
            return None
        swaps = self._one_has_size_1(choice.inputs[0].op, op.inputs[0]) and self._reshaped_as_swapped(op)
        return swapped if swaps else None

    def _one_has_size_1(self, condition, tensor):
        """Whether `condition` is `tf.minimum(s[0], s[1]) == 1`, where `s = tf.shape(tensor)`."""
        if condition.type != "Equal" or static_value(condition.inputs[1]) != 1 or tensor.shape.rank is None:
            return False
        smaller = condition.inputs[0].op
        known = [[size] for size in self.sizes(tensor)[:2]]
        return smaller.type == "Minimum" and [self.entries(size) for size in smaller.inputs] == known

    def _reshaped_as_swapped(self, transpose):
        """Whether all that reads the elements are reshapes to the shape of the input, its first two sizes swapped."""
        first, second, *others = self.sizes(transpose.inputs[0])
        readers = [reader for reader in transpose.outputs[0].consumers() if reader.type != "Shape"]
        shapes = [reader.type == "Reshape" and self.entries(reader.inputs[1]) for reader in readers]
        return shapes != [] and all(shape == [second, first, *others] for shape in shapes)

    def _sizes_of_outputs(self, op, given):
        return [self._sizes_of(output, given) for output in op.outputs]

    def _sizes_of(self, output, given):
        if output.shape.rank is None:
            return None
        own = [Size.of(output, axis) for axis in range(output.shape.rank)]
        if output.shape.is_fully_defined() or None in given or output.op.type not in _SIZES:
            return own
        found = _SIZES[output.op.type](self, output, given)
        if found is None or len(found) != len(own):
            return own
        return [followed if size.open and followed else size for size, followed in zip(own, found)]

    def _entries_of_outputs(self, op, given):
        return [self._entries_of(output, given) for output in op.outputs]

    def _entries_of(self, output, given):
        if not output.dtype.is_integer or output.shape.rank not in (0, 1):
            return None
        value = tf.get_static_value(output)
        if value is not None:
            return [Size(int(entry)) for entry in value.reshape(-1)] if value.size <= 32 else None
        if output.op.type in ("Shape", "ShapeN", "Size"):
            return self._entries_of_shape(output)
        rule = _ENTRIES.get(output.op.type)
        return rule and rule(output, given)

    def _entries_of_shape(self, output):
        source = output.op.inputs[output.value_index]
        if source.op.type == "Transpose" and static_value(source.op.inputs[1]) is None:
            return None  # it is swapped only behind the reshape
        sizes = self.sizes(source)
        return [product(sizes)] if sizes and output.op.type == "Size" else sizes


# ---------------------------------------------------------------------------------------------- sizes of results


def _same_sizes(known, output, given):
    return given[0]


def _same_rows(known, output, given):
    return [given[0][0]] + [None] * (len(given[0]) - 1)


def _broadcast_sizes(known, output, given):
    """Aligned from the right: what is 1 gives way, the others are equal; two of different names may be either."""
    longest = max(map(len, given))
    columns = zip(*([Size()] * (longest - len(sizes)) + sizes for sizes in given))
    others = [set(column) - {Size()} for column in columns]
    return [sizes.pop() if len(sizes) == 1 else None for sizes in others]


def _reduced_sizes(known, output, given):
    axes = static_value(output.op.inputs[1])
    if axes is None:
        return None
    if output.op.get_attr("keep_dims"):
        return given[0]
    reduced = {axis % len(given[0]) for axis in axes.reshape(-1).tolist()}
    return [size for axis, size in enumerate(given[0]) if axis not in reduced]


def _reshaped_sizes(known, output, given):
    """The entries of the new shape; what stands for -1 follows from the others."""
    entries = known.entries(output.op.inputs[1])
    if entries is None:
        return None
    rest = product(given[0]).over(product(entry for entry in entries if entry != Size(-1)))
    return [rest if entry == Size(-1) else entry for entry in entries]


def _transposed_sizes(known, output, given):
    permutation = known.permutation(output.op)
    return None if permutation is None else [given[0][axis] for axis in permutation]


def _product_sizes(known, output, given):
    (rows, inner), (other, columns) = given
    return [
        inner if output.op.get_attr("transpose_a") else rows,
        other if output.op.get_attr("transpose_b") else columns,
    ]


def _tiled_sizes(known, output, given):
    multiples = known.entries(output.op.inputs[1])
    return multiples and [size * times for size, times in zip(given[0], multiples)]


def _expanded_sizes(known, output, given):
    axis = static_value(output.op.inputs[1])
    if axis is None:
        return None
    at = axis.item() % (len(given[0]) + 1)
    return [*given[0][:at], Size(), *given[0][at:]]


_SIZES = {
    **dict.fromkeys(ELEMENTWISE - {"Select"}, _broadcast_sizes),
    **dict.fromkeys([*GRADIENTS, "BiasAdd", "LogSoftmax", "Softmax"], _same_sizes),
    **dict.fromkeys(
        ["AvgPool", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "FusedBatchNormV3", "MaxPool"], _same_rows
    ),
    **dict.fromkeys(["Max", "Mean", "Min", "Prod", "Sum"], _reduced_sizes),
    "BroadcastTo": lambda known, output, given: known.entries(output.op.inputs[1]),
    "ExpandDims": _expanded_sizes,
    "Fill": lambda known, output, given: known.entries(output.op.inputs[0]),
    "IdentityN": lambda known, output, given: given[output.value_index],
    "MatMul": _product_sizes,
    "Reshape": _reshaped_sizes,
    "Tile": _tiled_sizes,
    "Transpose": _transposed_sizes,
}

# ------------------------------------------------------------------------------------------- arithmetic of sizes


def _first(output, given):
    return given[0]


def _joined(parts):
    return None if None in parts else [entry for part in parts for entry in part]


def _one_entry(output, given):
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


def _part(output, given):
    """A part of a vector that is split into equal ones."""
    entries = given[1] if output.op.type == "Split" else given[0]
    size = 1 if output.shape.rank == 0 else output.shape[0]
    return entries and entries[output.value_index * size :][:size]


def _products(output, given):
    if None in given or len(given[0]) != len(given[1]):
        return None
    return [one * other for one, other in zip(*given)]


def _quotients(output, given):
    """What is left over in no division is there whatever the open sizes."""
    if None in given or len(given[0]) != len(given[1]):
        return None
    found = [one.over(other) for one, other in zip(*given)]
    return None if None in found else found


def _one_for_all(output, given):
    return given[0][:1] if given[0] and len(set(given[0])) == 1 else None


def _product_of_all(output, given):
    return given[0] and [product(given[0])]


def _ones(output, given):
    return [Size()] * output.shape.num_elements() if output.shape.is_fully_defined() else None


_ENTRIES = {
    "Cast": _first,
    "ConcatV2": lambda output, given: _joined(given[:-1]),
    "ExpandDims": _first,
    "FloorDiv": _quotients,
    "Identity": _first,
    "Max": _one_for_all,
    "Mul": _products,
    "OnesLike": _ones,
    "Pack": lambda output, given: _joined(given),
    "Prod": _product_of_all,
    "Reshape": _first,
    "Split": _part,
    "Squeeze": _first,
    "StridedSlice": _one_entry,
    "Unpack": _part,
}
