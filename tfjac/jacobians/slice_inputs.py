"""What the path of the weights reads in a slice of a batch: rows of the slice, or what the whole batch has.

Nothing but the path is computed again for a slice. What enters it was computed for the whole batch: it comes in by its
rows where it has the examples, and as it is where all examples share it. So a number of examples, a choice that depends
on it, and what is drawn at random stay those of the batch. One thing alone is changed: where an op of the path is told
the size of its result, the axis of the examples gets that of the slice.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import (
    SHARED,
    ExampleAnalysis,
    ExampleAxis,
    Inherited,
    SymbolicSizes,
    axes,
    holds_bodies,
    shape_only,
    static_value,
)
from tfjac.graph.examples.example_rules import Axis
from tfjac.graph.facts import facts_of
from tfjac.graph.gradients import custom_gradients
from tfjac.jacobians.shapes import inner_size
from tfjac.jacobians.slice_bodies import NotSliced, axes_by_bodies
from tfjac.linear.shapes import Size
from tfjac.types import Tensor

_KEPT = "kept"


class SliceInputs:
    """What enters the path, tensor by tensor, and what stands for it in a slice."""

    def __init__(self, analysis: ExampleAnalysis, n: Size, data: Sequence[tuple[Tensor, ExampleAxis]]) -> None:
        """Read the path.

        Args:
            analysis: that of the results.
            n: number of examples of the batch, an integer or a scalar tensor.
            data: list of pairs of the tensors that the examples enter by, and their `ExampleAxis`.

        Raises:
            NotSliced: where a slice could turn out to be another function than the batch.
        """
        self._analysis, self._n, self._sizes = analysis, n, SymbolicSizes()
        self._data = {tensor.ref(): axis for tensor, axis in data}
        self._is_no_count = Inherited(self._are_no_counts)
        self._entering: dict[Any, tuple[Tensor, Any]] = {}
        for op in analysis.path:
            if len(custom_gradients.inputs_read(op)) != len(op.inputs):
                raise NotSliced  # its backward reads what no rule knows the examples of
            if holds_bodies(op):
                self._read_bodies(op)
            else:
                self._read(op)

    def pairs(self, start: Tensor, size: Size) -> list[tuple[Tensor, Tensor]]:
        """Return pairs of a tensor that enters and what stands for it in the slice of `size` examples from `start`."""
        return [(tensor, self._in_slice(tensor, use, start, size)) for tensor, use in self._entering.values()]

    def _in_slice(self, tensor: Tensor, use: Any, start: Tensor, size: Size) -> Tensor:
        if isinstance(use, ExampleAxis):
            return self._rows(tensor, use, start, size)
        if not tensor.dtype.is_integer:
            return tensor
        value = static_value(tensor)
        if use == _KEPT and value is not None:
            return tf.constant(value, tensor.dtype)  # what a loop captures tells no shapes
        if tensor.shape.rank != 1 or not tensor.shape.is_fully_defined():
            return tensor
        entries = self._entries(tensor)
        if use != _KEPT:
            entries[use] = self._size_in_slice(entries[use], size)
        return tf.stack([tf.cast(entry, tensor.dtype) for entry in entries]) if entries else tensor

    def _rows(self, tensor: Tensor, axis: ExampleAxis, start: Tensor, size: Size) -> Tensor:
        """The rows of a slice; all there are, if it turns out that they are fewer: one for all examples."""
        inner, begin, sizes = inner_size(tensor, axis, self._n), [0] * tensor.shape.rank, axes(tensor)
        rows = sizes[axis.axis]
        least = min if isinstance(rows, int) and isinstance(size, int) and isinstance(inner, int) else tf.minimum
        sizes[axis.axis] = least(size * inner, rows)
        begin[axis.axis] = tf.minimum(start * inner, rows - sizes[axis.axis])
        return tf.slice(tensor, begin, sizes)

    def _entries(self, sizes: Tensor) -> list[Any]:
        """The entries of a vector, numbers where they are known while tracing."""
        known = self._sizes.entries(sizes) or [None] * sizes.shape[0]
        return [sizes[k] if each is None or each.open else each.number for k, each in enumerate(known)]

    def _size_in_slice(self, whole: Any, size: Size) -> Any:
        """What stands for a size, or a multiple, in a slice: the same where it counts no examples, as −1 and 1."""
        if isinstance(whole, int):
            counts = isinstance(self._n, int) and whole > 0 and whole % self._n == 0
            return whole // self._n * size if counts else whole
        n, size = tf.cast(tf.maximum(self._n, 1), whole.dtype), tf.cast(size, whole.dtype)
        return tf.where(whole % n == 0, whole // n * size, whole)

    def _read(self, op: tf.Operation) -> None:
        """Note what enters at `op`."""
        found = self._analysis.input_axes.get(op.name, [SHARED] * len(op.inputs))
        for position, (tensor, axis) in enumerate(zip(op.inputs, found)):
            if self._analysis.axis(tensor) is not None or tensor.dtype == tf.resource:
                continue
            if position == facts_of(op).shaped_by:
                self._note_sizes(tensor, self._analysis.axis(op.outputs[0]))
            elif facts_of(op).takes == "a strided slice" and position > 0:
                self._note(tensor, _KEPT)  # what ends behind the slice ends with it
            else:
                self._enter(tensor, axis)

    def _read_bodies(self, op: tf.Operation) -> None:
        """Note what enters a loop or branch, where the examples must be apart by value as well."""
        outputs = {k: self._analysis.axis(x) for k, x in enumerate(op.outputs) if self._analysis.axis(x) is not None}
        carries = any(isinstance(axis, ExampleAxis) for axis in outputs.values())
        found = axes_by_bodies(op, outputs, self._analysis) if carries else [_KEPT] * len(op.inputs)
        for tensor, axis in zip(op.inputs, found):
            known = self._analysis.axis(tensor)
            if known is not None and carries and axis not in (None, known):
                raise NotSliced
            if known is None and tensor.dtype != tf.resource:
                self._note(tensor, _KEPT) if axis == _KEPT else self._enter(tensor, axis)

    def _enter(self, tensor: Tensor, axis: Axis) -> None:
        """Note a tensor, or list, whose elements are computed with."""
        if tensor.dtype == tf.variant:
            self._enter_list(tensor, axis)
        elif isinstance(axis, ExampleAxis):
            if axis.outer != 1:
                raise NotSliced
            self._note(tensor, axis)
        elif tensor.dtype.is_integer and not self._is_no_count(tensor):
            raise NotSliced  # it may become the size of what has the rows of a slice
        else:
            self._note(tensor, _KEPT)

    def _enter_list(self, tensor: Tensor, axis: Axis) -> None:
        """Note what a list is made of: sizes alone, or a tensor that has its elements."""
        op = tensor.op
        of_tensor = facts_of(op).list == "made of a tensor"
        if not of_tensor and facts_of(op).list != "made of sizes":
            raise NotSliced
        behind = axis.moved(axis.axis + 1) if of_tensor and isinstance(axis, ExampleAxis) else SHARED
        for position, given in enumerate(op.inputs):
            if position == facts_of(op).shaped_by:
                self._note_sizes(given, axis)
            else:
                self._enter(given, behind)

    def _note_sizes(self, sizes: Tensor, axis: Axis) -> None:
        """Note a vector of sizes, or of multiples, whose result has the examples along `axis`."""
        if not isinstance(axis, ExampleAxis) or sizes.shape.rank == 0:
            self._note(sizes, _KEPT)
        elif not sizes.shape.is_fully_defined():
            raise NotSliced
        else:
            self._note(sizes, axis.axis if self._may_count(sizes, axis.axis) else _KEPT)

    def _may_count(self, sizes: Tensor, axis: int) -> bool:
        """Whether a vector of sizes may have the number of examples at `axis`, as a factor."""
        value = static_value(sizes)
        if value is None:
            return True
        return isinstance(self._n, int) and value[axis] > 0 and value[axis] % self._n == 0

    def _note(self, tensor: Tensor, use: Any) -> None:
        if self._entering.setdefault(tensor.ref(), (tensor, use))[1] != use:
            raise NotSliced  # one op needs that of a slice, and another one that of the batch

    def _are_no_counts(self, op: tf.Operation, given: Sequence[bool]) -> list[bool]:
        """Whether the outputs of `op`, integers, have nothing of the number of examples in them for certain."""
        computed = bool(op.inputs) and not shape_only(op) and not op.op_def.is_stateful and not holds_bodies(op)
        return [self._has_no_count(output, computed and all(given)) for output in op.outputs]

    def _has_no_count(self, output: Tensor, computed_of_such: bool) -> bool:
        if computed_of_such or (output.dtype.is_integer and static_value(output) is not None):
            return True
        entries = self._sizes.entries(output)
        return entries is not None and all(self._is_of_an_example(*name) for size in entries for name, _ in size.open)

    def _is_of_an_example(self, reference: Any, axis: int) -> bool:
        """Whether the size of an axis is one of the rows: of a tensor that has the examples along another axis."""
        known = self._data.get(reference, self._analysis.axis(reference.deref()))
        return isinstance(known, ExampleAxis) and known.axis != axis
