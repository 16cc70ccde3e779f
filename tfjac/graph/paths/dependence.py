"""What depends on what, by paths that a gradient follows or by value: one walk over a graph for all sources at once."""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.facts import facts_of, is_identities
from tfjac.graph.gradients import custom_gradients
from tfjac.graph.paths.decided_sizes import DecidedSizes
from tfjac.graph.reading.traversal import Inherited, carries_gradient, references, shape_only
from tfjac.types import Tensor


class Dependence:
    """Which of some sources each tensor of their graph depends on.

    Every tensor carries its set of sources as the bits of an integer, from the inputs of each op to its outputs. What
    was found is kept: a tensor that is asked about later, or was added to the graph later, costs the ops that are new.

    Attributes:
        sources: the list that was given.
        by_value: whether every path counts by which a value depends on another, not only those of gradients.
        by_size: whether sizes count that values decide, too. Without it, a shape depends on no value.
        decided_sizes: the `DecidedSizes`, if they count.
    """

    def __init__(
        self, sources: Any, by_value: bool = False, stops: Iterable[Tensor] = (), by_size: bool = False
    ) -> None:
        """Start from `sources`, tensors or handles of variables; None for one that the graph never uses.

        A source may be computed from another one: what depends on the one then depends on the other too. No path leads
        through `stops`.
        """
        self.sources, self.by_value, self._stops = list(sources), by_value, references(stops)
        self.by_size = by_size
        self._own: dict[Any, int] = {}
        for bit, source in enumerate(self.sources):
            if source is not None:
                self._own[source.ref()] = self._own.get(source.ref(), 0) | 1 << bit
        self._found = Inherited(self._of_outputs)
        self.decided_sizes = DecidedSizes(self._found, self.of_body) if by_size else _no_size

    def of_body(self, sources: Any) -> "Dependence":
        """Return the `Dependence` on other sources, of the body of an op of this graph, in which the same counts."""
        return Dependence(sources, self.by_value, by_size=self.by_size)

    def _of_outputs(self, op: tf.Operation, found: Sequence[int]) -> list[int]:
        inherited = [0] * len(op.outputs)
        if self.by_size and (shape_only(op) or facts_of(op).bodies):
            found = [bits | self.decided_sizes(given) for bits, given in zip(found, op.inputs)]
        if any(found):
            passing = self._passing_inputs(op)
            for index, output in enumerate(op.outputs):
                if self.by_value or carries_gradient(output.dtype):
                    for given in [index] if each_for_itself(op) else passing:
                        inherited[index] |= found[given]
        passed = [0 if output.ref() in self._stops else bits for output, bits in zip(op.outputs, inherited)]
        return [self._own.get(output.ref(), 0) | bits for output, bits in zip(op.outputs, passed)]

    def _passing_inputs(self, op: tf.Operation) -> Any:
        if self.by_size and shape_only(op):
            return [index for index, given in enumerate(op.inputs) if self.decided_sizes(given)]
        return valued_inputs(op) if self.by_value else differentiable_inputs(op)

    def reaches(self, tensor: Tensor) -> bool:
        """Return whether `tensor` depends on any source, or is one."""
        return self._found(tensor) != 0

    def sources_of(self, tensor: Tensor) -> list[int]:
        """Return the indices of the sources that `tensor` depends on, or is, in ascending order."""
        found = self._found(tensor)
        return [bit for bit in range(found.bit_length()) if found >> bit & 1]

    def sources_of_any(self, tensors: Iterable[Tensor]) -> set[int]:
        """Return the set of the indices of the sources that one of `tensors` depends on."""
        return {index for tensor in tensors for index in self.sources_of(tensor)}

    def path(self, targets: Sequence[Tensor]) -> list[tf.Operation]:
        """List the ops on the paths from the sources to `targets`, inputs before consumers."""
        needed, path = references(target for target in targets if self.reaches(target)), []
        for op in reversed(self._found.ops):
            if any(output.ref() in needed for output in op.outputs):
                indices = self._passing_inputs(op)
                if each_for_itself(op):
                    indices = [index for index in indices if op.outputs[index].ref() in needed]
                given = (op.inputs[index] for index in indices)
                inputs = references(tensor for tensor in given if self.reaches(tensor))
                if inputs:
                    needed |= inputs
                    path.append(op)
        return path[::-1]


def _no_size(tensor: Tensor) -> int:
    """Return that no value decides a size."""
    return 0


def each_for_itself(op: tf.Operation) -> bool:
    """Return whether each output of `op` depends on the input of the same index alone: a plain IdentityN.

    The backward of a custom gradient may pass what flows back from one output to all inputs.
    """
    return is_identities(op) and not custom_gradients.is_custom(op)


def differentiable_inputs(op: tf.Operation) -> Any:
    """Return the indices of the inputs of `op` to which a gradient passes."""
    return custom_gradients.receivers(op) if _private.is_differentiable(op) else ()


def valued_inputs(op: tf.Operation) -> Any:
    """Return the indices of the inputs of `op` whose values, and not their shapes alone, its outputs depend on.

    `tf.recompute_grad` compares an integer with itself.
    """
    constant = shape_only(op) or (
        facts_of(op).looks_at == "differences" and op.inputs[0] is op.inputs[1] and not op.inputs[0].dtype.is_floating
    )
    return () if constant else range(len(op.inputs))
