"""Sizes that the trace leaves open: where a tensor may turn out to have one row for all examples.

Two axes of open size that are broadcast together are equal, or one of them is 1: only a run tells, and the example
axis of a tensor that has one row after all is none. Two that come down to the same axis of the same tensor are equal
for sure, whatever it is; the others are checked when the graph runs.
"""

from collections.abc import Container, Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph.examples.example_rules import ExampleAxis
from tfjac.types import Tensor


def sizes_to_check(
    path: Sequence[tf.Operation], wanted: Any, proved: Iterable[Tensor] = (), resizing: Container[str] = ()
) -> list[tuple[Tensor, ExampleAxis]]:
    """List the tensors whose number of rows decides whether they carry the examples at all.

    Args:
        path: ops in topological order.
        wanted: what was asked for walking back along it: for the name of an op `wanted.input_axes`, the `ExampleAxis`
            of each input, or `SHARED`; `wanted.meetings`, pairs of a tensor and its axis that it broadcasts together.
        proved: tensors that are known to hold all examples.
        resizing: names of ops whose outputs may have another number of rows than their inputs.

    Returns:
        Pairs of a tensor and its `ExampleAxis`, no two of which stand for the same size.
    """
    origins, found = _Origins(wanted, path), []
    proved = {tensor.ref() for tensor in proved}
    for op in path:
        axes, meeting = wanted.input_axes.get(op.name, ()), wanted.meetings.get(op.name, ())
        sizes = [origins.of(tensor, axis) for tensor, axis in meeting]
        if len({None if size in proved else size for size in sizes}) > 1:
            for size, (tensor, axis) in zip(sizes, meeting):
                if size is not None and size not in proved and wanted.reaches(tensor):
                    proved.add(size)
                    found.append((tensor, axis))
        carrying = [pair for pair in zip(op.inputs, axes) if isinstance(pair[1], ExampleAxis)]
        carried = {origins.of(*pair) for pair in carrying} - {None}
        if meeting and carried & proved:  # what is broadcast with it has no more rows
            carried &= proved
        if op.name not in resizing and carried and (len(carried) == 1 or carried <= proved):
            origins.same(op.outputs, next(iter(carried)))
    return found


class _Origins:
    """For a tensor and its example axis what stands for the size: the tensor that it was first the size of."""

    def __init__(self, wanted: Any, path: Iterable[tf.Operation]) -> None:
        self.wanted, self.on_path = wanted, {op.name for op in path}
        self.known: dict[Any, Any] = {}

    def same(self, outputs: Iterable[Tensor], size: Any) -> None:
        """Note the size of the outputs of an op of the path."""
        self.known.update((output.ref(), size) for output in outputs)

    def of(self, tensor: Tensor, axis: ExampleAxis) -> Any:
        """Return a `ref()`, or None where the size is static, as of variables; lists show theirs in the elements."""
        is_array = tensor.dtype not in (tf.variant, tf.resource) and tensor.shape.rank is not None
        if not is_array or tensor.shape[axis.axis] is not None:
            return None
        first = tensor.ref()
        if first not in self.known:
            self.known[first] = self._off_path(tensor, axis)
        return self.known[first]

    def _off_path(self, tensor: Tensor, axis: ExampleAxis) -> Any:
        """Go up while there is one way only, by the rules that lead along the path."""
        while tensor.ref() not in self.known and tensor.op.name not in self.on_path:
            carriers = self.wanted.carriers(tensor, axis)
            if len(carriers) != 1:
                break
            ((tensor, axis),) = carriers
        return self.known.get(tensor.ref(), tensor.ref())
