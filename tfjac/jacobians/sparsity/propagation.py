"""Index sets carried through a graph, op by op."""

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import Dependence, handle_shape, references
from tfjac.jacobians.sparsity.by_gradient import index_sets_by_gradient
from tfjac.jacobians.sparsity.known import Known
from tfjac.jacobians.sparsity.rules import NoIndexSets, Step, all_of_all, carries_gradient, index_sets_of
from tfjac.jacobians.sparsity.rules.index_set_rules import Patterns
from tfjac.linear.shapes import product
from tfjac.types import Tensor


class Propagation:
    """Index sets on their way through one graph.

    Attributes:
        known: the `Known` of the graph.
        opaque: list that takes the names of the ops that cannot be followed through.
        by_value: whether every path by which values depend on values counts. Else only those that gradients pass along
            count, and an op that is not differentiable cuts the dependence.
        reading: the types of ops whose gradients are being read: they are not to be read once more inside.
    """

    def __init__(
        self, known: Known, opaque: list[str], by_value: bool = False, reading: frozenset = frozenset()
    ) -> None:
        self.known, self.opaque, self.by_value, self.reading = known, opaque, by_value, reading

    def within(self, known: Known) -> "Propagation":
        """Return the same for the body of a loop or branch, of which `known` is known."""
        return Propagation(known, self.opaque, self.by_value, self.reading)

    def through_gradient(self, known: Known, kind: tuple) -> "Propagation":
        """Return one for the graph of a gradient, of which `known` is known, of an op of type `kind`."""
        return Propagation(known, [], True, self.reading | {kind})

    def carry(
        self,
        sources: Iterable[tuple[Tensor, Any]],
        targets: Sequence[Tensor],
        path: Sequence[tf.Operation] | None = None,
    ) -> Patterns:
        """Carry index sets from some tensors of the graph to others.

        Args:
            sources: pairs of a tensor and its index sets. One may be computed from another.
            path: what `path` gives, where that was asked before.

        Returns:
            For each target its index sets, or None where it depends on no source.
        """
        own: dict[Any, Any] = {}
        for tensor, sets in sources:
            own[tensor.ref()] = sets + own[tensor.ref()] if tensor.ref() in own else sets
        found = dict(own)
        path = self.path([tensor for tensor, _ in sources], targets) if path is None else path
        wanted = references(targets).union(*(references(op.inputs) for op in path))
        for op in path:
            outputs = {k for k, each in enumerate(op.outputs) if each.ref() in wanted and self._follows(each)}
            step = Step(op, [found.get(tensor.ref()) for tensor in op.inputs], outputs, self)
            if not step.carriers:
                continue
            for output, sets in zip(op.outputs, self._through(step)):
                if sets is not None:  # an x that is computed from another x depends on itself too
                    found[output.ref()] = sets + own[output.ref()] if output.ref() in own else sets
        return [found.get(target.ref()) for target in targets]

    def path(self, sources: Sequence[Tensor], targets: Sequence[Tensor]) -> list[tf.Operation]:
        """List the ops between some tensors of the graph and others, inputs before consumers."""
        return Dependence(sources, self.by_value).path(targets)

    def shape(self, tensor: Tensor) -> list[int]:
        """Return the sizes of the axes of a tensor, or of the variable that it stands for.

        Raises:
            ValueError: where they are not known while tracing.
        """
        shape = handle_shape(tensor).as_list() if tensor.dtype == tf.resource else self.known.shape(tensor)
        if shape is None:
            raise ValueError(
                "A sparsity pattern needs shapes that are known while tracing: give the tf.function an "
                f"input_signature, or fix the shape with tf.ensure_shape. Received: {tensor!r}"
            )
        return shape

    def size(self, tensor: Tensor) -> int:
        """Return the number of elements of a tensor."""
        return product(self.shape(tensor))

    def _follows(self, tensor: Tensor) -> bool:
        return self.by_value or carries_gradient(tensor.dtype)

    def _through(self, step: Step) -> Patterns:
        """The index sets of the outputs by a rule, else from the op's gradient, else all of all."""
        for way in (index_sets_of, index_sets_by_gradient):
            with contextlib.suppress(NoIndexSets):
                return way(step)
        self.opaque.append(step.op.name)
        return all_of_all(step)
