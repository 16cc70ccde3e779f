"""Walks over a graph: what a tensor depends on, and what of it depends on something else.

A set of tensors is a set of `tensor.ref()`: tensors compare by value, references by identity.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph.facts import facts_of
from tfjac.types import Tensor


def references(tensors: Iterable[Tensor]) -> set:
    """Return the set of `ref()` of `tensors`."""
    return {tensor.ref() for tensor in tensors}


def _inputs(op: tf.Operation) -> Any:
    return op.inputs


def ancestors(targets: Sequence[Tensor], stop: Iterable[Tensor] = (), reads: Callable = _inputs) -> list[tf.Operation]:
    """List the ops that `targets` are computed from, inputs before consumers.

    Args:
        targets: tensors of one graph.
        stop: tensors at which the walk ends; the op that makes such a tensor is left out unless another path needs it.
        reads: function from an op to the tensors that it is computed from; its inputs where left out.

    Returns:
        A list of `tf.Operation` in topological order. Control inputs are not followed.
    """
    return _upwards(targets, references(stop), reads)


def _upwards(targets: Sequence[Tensor], ends: Any, reads: Callable = _inputs) -> list[tf.Operation]:
    """`ancestors` up to the tensors whose `ref()` is in the container `ends`."""
    ordered, opened, listed = [], set(), set()
    stack = [target.op for target in targets if target.ref() not in ends]
    while stack:
        op = stack[-1]
        if op.name not in opened:
            opened.add(op.name)
            stack.extend(tensor.op for tensor in reads(op) if tensor.ref() not in ends and tensor.op.name not in opened)
            continue
        stack.pop()
        if op.name not in listed:
            listed.add(op.name)
            ordered.append(op)
    return ordered


def between(
    sources: Any, targets: Sequence[Tensor], reads: Callable = _inputs, constant: Callable = lambda op: False
) -> list[tf.Operation]:
    """List the ops on the paths from `sources` to `targets`, inputs before consumers.

    Args:
        sources, targets: tensors of one graph.
        reads: as in `ancestors`.
        constant: function from an op to whether its outputs are taken as they are, whatever they are computed from;
            `shape_only` for paths by which values depend on values.

    Returns:
        The ops that `targets` depend on and that depend on `sources`; ops above the sources are not followed.
    """
    reached, reaching = references(sources), []
    for op in ancestors(targets, sources, reads):
        if any(tensor.ref() in reached for tensor in reads(op)) and not constant(op):
            reaching.append(op)
            reached |= references(op.outputs)
    needed, path = references(targets), []
    for op in reversed(reaching):
        if references(op.outputs) & needed:
            path.append(op)
            needed |= references(reads(op))
    return path[::-1]


def shape_only(op: tf.Operation) -> bool:
    """Return whether `op` looks at the shapes of its inputs alone."""
    return facts_of(op).looks_at == "shapes"


def carries_gradient(dtype: tf.DType) -> bool:
    """Return whether tensors of this dtype pass gradients on, or hold what does."""
    return dtype.is_floating or dtype.is_complex or dtype in (tf.resource, tf.variant)


class Inherited:
    """Something that a tensor has from the inputs of its op, found once per op, for each tensor that is asked about.

    Attributes:
        ops: the ops that were walked so far, inputs before consumers.
    """

    def __init__(self, rule: Callable) -> None:
        """Start with an empty table.

        Args:
            rule: function of an op and the list of what its inputs have, which returns what its outputs have.
        """
        self.ops: list[tf.Operation] = []
        self._rule, self._known = rule, dict[Any, Any]()

    def __call__(self, tensor: Tensor) -> Any:
        """Return what `tensor` has. Costs a walk over those of its ancestors that were not met before."""
        if tensor.ref() not in self._known:
            for op in _upwards([tensor], self._known):
                given = [self._known[each.ref()] for each in op.inputs]
                self._known.update(zip((output.ref() for output in op.outputs), self._rule(op, given)))
                self.ops.append(op)
        return self._known[tensor.ref()]


def stands_before(op: tf.Operation, other: tf.Operation) -> bool:
    """Return whether `op` was added to their graph before `other`."""
    names = (each.name for each in op.graph.get_operations())
    return next(name for name in names if name in (op.name, other.name)) == op.name
