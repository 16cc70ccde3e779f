"""Sizes that values decide: `tf.shape` of what `tf.where` finds says something of the values that it looked at.

Values decide a shape where an op has taken a size from them, as `tf.range(tf.reduce_max(x))` does, or has counted, as
`tf.where` does. An op type without a record may do either. A static shape is decided by none.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.facts import facts_by_type, facts_of, is_loop
from tfjac.graph.reading.traversal import Inherited
from tfjac.types import Tensor

Dependences = Callable[[Sequence[Tensor]], Any]
"""Function from tensors of a body to the `Dependence` on them, by value and by size."""


class DecidedSizes:
    """For each tensor, the sources whose values decide its shape, as the bits of an integer.

    Args:
        values: function from a tensor to the bits of the sources that its value depends on.
        inside: `Dependences` for the bodies of loops, branches and calls.
    """

    def __init__(self, values: Callable[[Tensor], int], inside: Dependences) -> None:
        self._values, self._inside = values, inside
        self._found = Inherited(self._of_outputs)

    def __call__(self, tensor: Tensor) -> int:
        """Return the bits of the sources whose values decide the shape of `tensor`."""
        return self._found(tensor)

    def _of_outputs(self, op: tf.Operation, found: Sequence[int]) -> list[int]:
        inherited, given = _union(found), list(map(self._values, op.inputs))
        if any(given) and not all(map(_is_static, op.outputs)):
            inherited |= _union(given[k] for k in self._deciding(op))
        return [0 if _is_static(output) else inherited for output in op.outputs]

    def _deciding(self, op: tf.Operation) -> Sequence[int]:
        """Return the indices of the inputs of `op` whose values decide a size."""
        if facts_of(op).bodies:
            return self._deciding_inside(op)
        sized_by = facts_of(op).sized_by
        if sized_by is None:
            return () if op.type in facts_by_type() else range(len(op.inputs))
        return range(len(op.inputs)) if isinstance(sized_by, str) else [k for k in sized_by if k < len(op.inputs)]

    def _deciding_inside(self, op: tf.Operation) -> Sequence[int]:
        """The same for an op with bodies: what decides a size in one, which branch is run, and when a loop ends."""
        if is_loop(op):
            (condition,), (body,) = (_private.function_bodies(op, name) for name in ("cond", "body"))
            ends, inner = self._inside(condition.inputs).sources_of_any(condition.outputs), self._inside(body.inputs)
            return _changed_by(inner, body.outputs, ends | _deciding_in(inner, body.outputs))
        bodies = [body for name in facts_of(op).bodies for body in _private.function_bodies(op, name)]
        first = len(op.inputs) - len(bodies[0].inputs)
        found = [_deciding_in(self._inside(body.inputs), body.outputs) for body in bodies]
        return [*range(first), *{first + k for each in found for k in each}]


def _deciding_in(inner: Any, outputs: Sequence[Tensor]) -> set[int]:
    """Return the indices of the inputs of a body, of the `Dependence` `inner`, that decide the size of an output."""
    bits = _union(map(inner.decided_sizes, outputs))
    return {k for k in range(bits.bit_length()) if bits >> k & 1}


def _changed_by(inner: Any, outputs: Sequence[Tensor], needed: set[int]) -> list[int]:
    """Return `needed`, indices of loop variables, and those that these depend on after some steps."""
    further = needed
    while further:
        further = inner.sources_of_any([outputs[k] for k in needed]) - needed
        needed = needed | further
    return sorted(needed)


def _is_static(tensor: Tensor) -> bool:
    """Return whether the shape is known while tracing; that of a list of tensors is not."""
    return tensor.dtype != tf.variant and tensor.shape.is_fully_defined()


def _union(bits: Any) -> int:
    found = 0
    for each in bits:
        found |= each
    return found
