"""Sizes as the graph knows them: each a number times sizes that the trace leaves open, by name.

TensorFlow's vectoriser reshapes to sizes that it takes from `tf.shape` of other tensors. That products of axes are the
same before and behind such a reshape shows only where open sizes are told apart, and followed to where they begin.

How an op passes sizes on stands among its facts, in `op_facts`: `sizes(known, output, given) -> list` is given the
sizes of its inputs, and `entries(known, output, given) -> list` what vectors of sizes hold; `known` are the
`SymbolicSizes` that ask. Each may return None for all or single ones that it does not know.
"""

import collections
import dataclasses
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from tfjac.graph.facts import facts_of
from tfjac.graph.reading.traversal import Inherited
from tfjac.types import Tensor


@dataclasses.dataclass(frozen=True)
class Size:
    """`number` times open sizes: pairs of one, the axis of a tensor as `(ref(), axis)`, and its power."""

    number: int = 1
    open: frozenset = frozenset()

    @classmethod
    def of(cls, tensor: Tensor, axis: int) -> "Size":
        """Return the size of an axis by its number, else by its name."""
        size = tensor.shape[axis]
        return cls(size) if size is not None else cls(open=frozenset([((tensor.ref(), axis), 1)]))

    def __mul__(self, other: "Size") -> "Size":
        return Size(self.number * other.number, _added(self.open, other.open, 1))

    def over(self, other: "Size") -> "Size | None":
        """Return the quotient where it is whole whatever the open sizes, else None."""
        if other.number == 0 or self.number % other.number:
            return None
        powers = _added(self.open, other.open, -1)
        return None if any(power < 0 for _, power in powers) else Size(self.number // other.number, powers)


Sizes: TypeAlias = Sequence[Size | None] | None
"""What a rule returns: a list of sizes, or entries, None for each that is unknown; None where all are."""

Given: TypeAlias = Sequence[list[Size] | Any]
"""What a rule is given: the sizes, or entries, of each input, None where they are unknown."""


def _added(powers: Any, others: Any, sign: int) -> frozenset:
    total = collections.Counter(dict(powers))
    for name, power in others:
        total[name] += sign * power
    return frozenset(pair for pair in total.items() if pair[1])


def product(sizes: Any) -> "Size":
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

    def __init__(self) -> None:
        self.sizes, self.entries = Inherited(self._sizes_of_outputs), Inherited(self._entries_of_outputs)

    def _sizes_of_outputs(self, op: tf.Operation, given: Any) -> list:
        return [self._sizes_of(output, given) for output in op.outputs]

    def _sizes_of(self, output: Tensor, given: Any) -> "list[Size] | None":
        if output.shape.rank is None:
            return None
        own = [Size.of(output, axis) for axis in range(output.shape.rank)]
        rule = facts_of(output.op).sizes
        if output.shape.is_fully_defined() or None in given or rule is None:
            return own
        found = rule(self, output, given)
        if found is None or len(found) != len(own):
            return own
        return [followed if size.open and followed else size for size, followed in zip(own, found)]

    def _entries_of_outputs(self, op: tf.Operation, given: Any) -> list:
        return [self._entries_of(output, given) for output in op.outputs]

    def _entries_of(self, output: Tensor, given: Any) -> Any:
        if not output.dtype.is_integer or output.shape.rank not in (0, 1):
            return None
        value = tf.get_static_value(output)
        if value is not None:
            return [Size(int(entry)) for entry in value.reshape(-1)] if value.size <= 32 else None
        rule = facts_of(output.op).entries
        return rule and rule(self, output, given)


def of_first(known: Any, output: Tensor, given: Any) -> Any:
    """The sizes, or entries, of ops whose output has those of the first input: a fact for `sizes` and `entries`."""
    return given[0]


def axes(tensor: tf.Variable | Tensor) -> list:
    """Return the sizes of `tensor`: Python integers where static, scalar tensors where not.

    Raises:
        ValueError: where its rank is not known.
    """
    if tensor.shape.rank is None:
        raise ValueError(
            "A tensor on the way must have a known rank: give it one by tensor.set_shape(...), which, unlike "
            f"tf.ensure_shape, holds for what made it. Received: {tensor.name!r} of shape {tensor.shape}"
        )
    if tensor.shape.is_fully_defined():
        return tensor.shape.as_list()
    dynamic = tf.shape(tensor)
    return [dynamic[k] if size is None else size for k, size in enumerate(tensor.shape)]
