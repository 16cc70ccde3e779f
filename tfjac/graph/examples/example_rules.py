"""The rules that say which axis of each input carries the examples, given that of the output: what they have in common.

A rule is `rule(op, axis, wanted) -> list`, one entry per input, each an `ExampleAxis`, `SHARED`, or None where the
outputs in question do not depend on it; it raises `NoRule` where the op combines slices of different examples.
`wanted.shape(tensor)` gives static shapes. A rule of an op that runs bodies is given the axes of the outputs as a
dict by index, in place of the one axis. The rules stand among the facts of their ops, in `op_facts`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import tensorflow as tf

from tfjac.graph.facts import facts_by_type, facts_of, instead_of
from tfjac.graph.gradients.custom_gradients import is_custom
from tfjac.graph.reading.symbolic_sizes import SymbolicSizes
from tfjac.types import Tensor

SHARED = "shared"
CUSTOM = "CustomGradient"
"""Stands in the place of an op type where the gradient is a user's."""


class NoRule(Exception):
    """The op mixes examples, or nothing is known about it."""


@dataclasses.dataclass(frozen=True)
class ExampleAxis:
    """The examples run along `axis`, whose size is `outer · n · inner` (row-major).

    `inner` is None where the trace leaves it open: a whole number that is known, and checked, when the graph runs.
    """

    axis: int
    outer: int = 1
    inner: int | None = 1

    def moved(self, axis: int) -> "ExampleAxis":
        """The same examples along another axis."""
        return dataclasses.replace(self, axis=axis)


Axis: TypeAlias = ExampleAxis | Any
"""An `ExampleAxis`, or `SHARED`; None where what is asked for does not depend on the tensor."""


class Wanted(Protocol):
    """What a rule may ask of the walk that asks it, and note with it; see `example_axis.WantedAxes`."""

    num_examples: int | None
    by_value: bool
    dependence: Any
    reaches: Callable[[Tensor], bool]
    depends_on_no_data: Callable[[Tensor], bool]
    symbolic_sizes: SymbolicSizes
    shapes: dict[Any, list[int | Any]]
    insides: dict[str, Any]

    def shape(self, tensor: Tensor) -> list[int | Any] | None: ...

    def meet(self, op: tf.Operation, carriers: list[tuple[Tensor, ExampleAxis]]) -> None: ...

    def assume(self, op: tf.Operation, tensor: Tensor, axis: ExampleAxis) -> None: ...

    def analyse_body(self, sources: Sequence[Tensor], targets: Sequence[Tensor], axes: Sequence[Axis]) -> Any: ...

    def keeps_apart(self, sources: Sequence[tuple[Tensor, Axis]], target: Tensor, axis: ExampleAxis) -> bool: ...


def known_shape(wanted: Wanted, tensor: Tensor) -> list[int | Any]:
    """Return `wanted.shape(tensor)`.

    Raises:
        NoRule: where not even the rank is known.
    """
    shape = wanted.shape(tensor)
    if shape is None:
        raise NoRule(f"the rank of {tensor.name!r} is unknown")
    return shape


def aligned(
    op: tf.Operation, axis: ExampleAxis, tensors: Sequence[Tensor], out: Sequence[int | Any], wanted: Wanted
) -> list[Axis]:
    """Return the example axis of each of `tensors`, which `op` broadcasts to the shape `out`, aligned from the right.

    One that has size 1 there is shared by all examples; where sizes are open this is found out when the graph runs.
    With a static batch of one, size 1 says nothing: what depends on data then counts as per example.
    """
    positions = [axis.axis - len(out) + len(known_shape(wanted, tensor)) for tensor in tensors]
    found = [of_operand(axis, *pair, out[axis.axis], wanted) for pair in zip(tensors, positions)]
    wanted.meet(op, [pair for pair in zip(tensors, found) if pair[1] is not SHARED])
    return found


def of_operand(axis: ExampleAxis, tensor: Tensor, position: int, size: int | None, wanted: Wanted) -> Axis:
    """Return the example axis of an operand that has it at `position`, if it has one; it has `size` in the output."""
    one = position >= 0 and known_shape(wanted, tensor)[position] == 1
    if position < 0 or (one and (size != 1 or wanted.depends_on_no_data(tensor))):
        return SHARED
    return axis.moved(position)


def input_axes(op: tf.Operation, wanted_outputs: Mapping[int, Axis], wanted: Wanted) -> list[Axis]:
    """Return the example axis of each input of `op`, given those of its outputs by index."""
    facts = facts_by_type()[CUSTOM] if is_custom(op) and not wanted.by_value else facts_of(op)
    if facts.axes_of_body is not None:
        return facts.axes_of_body(op, wanted_outputs, wanted)
    if facts.example_axis is None:
        raise NoRule(f"nothing is known about ops of this type{instead_of(op.type)}")
    axes = set(wanted_outputs.values())
    if SHARED in axes:
        raise NoRule("some of its outputs are used per example and others by all examples at once")
    if len(axes) > 1:
        raise NoRule("its outputs carry the examples along different axes")
    return facts.example_axis(op, axes.pop(), wanted)


def own_input_axes(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """Return the example axis of each input of an op without a body; all `SHARED` where its rule says no more."""
    rule = facts_of(op).example_axis
    try:
        return [SHARED] * len(op.inputs) if rule is None else rule(op, axis, wanted)
    except NoRule:
        return [SHARED] * len(op.inputs)
