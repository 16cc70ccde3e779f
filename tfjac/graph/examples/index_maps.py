"""The axes of an op, said once: labels of the axes of each operand and of the output, as in an einsum.

A fact `labels(op, shape, value_of) -> (operands, output)` is a rule that is given two functions: `shape` from the
position of an input to its sizes, None for one that is open; `value_of` from a tensor to its value as an array, or
None. It returns for each input a list of labels, None for an input that holds no elements (axes, a permutation), and
the labels of the output. It returns None where these are unknown until the op runs.

Each output element depends on those elements of the operands that have its place along each label that both have. What
the output lacks is summed over, or reduced; what an operand lacks it is spread along. The labels are words, and

- a number where operands are broadcast: an axis of size 1 is spread along a longer one of the same label;
- None for an axis of size 1 that has no counterpart;
- one that is repeated where a diagonal is taken, or made.

Which axis carries the examples, and open sizes, follow from that here; sparsity, factors and costs in other layers.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from tfjac.graph.examples.example_rules import SHARED, Axis, ExampleAxis, NoRule, Wanted, known_shape, of_operand
from tfjac.graph.facts import facts_of
from tfjac.graph.reading.static_values import static_value
from tfjac.graph.reading.symbolic_sizes import Given, Size, Sizes, SymbolicSizes
from tfjac.types import Tensor

Labels: TypeAlias = list[str | Any]
AxisLabels: TypeAlias = tuple[Sequence[Labels | Any], Labels]
"""The labels of each operand, None for one that holds no elements, and those of the output."""

ShapeOf: TypeAlias = Callable[[int], list[int | Any]]
ValueOf: TypeAlias = Callable[[Tensor], Any]
"""What a rule is given."""


def axis_labels(
    op: tf.Operation,
    shape: ShapeOf | None = None,
    value_of: ValueOf = static_value,
) -> AxisLabels | Any:
    """Return the labels of the operands of `op` and of its output; None where they are unknown, or it has none.

    Args:
        shape: function from the position of an input to its sizes; those that its graph knows if None.
        value_of: function from a tensor to its value, or None.
    """
    rule = facts_of(op).labels
    if rule is None or (shape is None and any(tensor.shape.rank is None for tensor in op.inputs)):
        return None
    return rule(op, shape or (lambda k: op.inputs[k].shape.as_list()), value_of)


def by_labels(rule: Callable[..., AxisLabels | None]) -> dict[str, Callable]:
    """Return the facts that follow from a rule of labels."""
    return {"labels": rule, "example_axis": example_axes, "sizes": labelled_sizes}


def from_the_right(rank: int) -> Labels:
    """Return labels by which operands of different ranks are aligned, and broadcast."""
    return [str(rank - k) for k in range(rank)]


def in_order(rank: int) -> Labels:
    """Return a label for each axis of one operand."""
    return [f"axis {k}" for k in range(rank)]


def example_axes(op: tf.Operation, axis: ExampleAxis, wanted: Wanted, value_of: ValueOf = static_value) -> list[Axis]:
    """The fact `example_axis`: the axis of each operand that has the label of the one of the examples."""
    found = axis_labels(op, lambda k: known_shape(wanted, op.inputs[k]), value_of)
    if found is None:
        raise NoRule("the axes it works along are unknown until it runs")
    operands, output = found
    label = output[axis.axis]
    counts = [labels.count(label) if labels else 0 for labels in operands]
    if label is None or not any(counts):
        raise NoRule("it combines slices along the axis of the examples")
    if max(counts) > 1:
        raise NoRule("it takes a diagonal over the examples")
    _note_sizes(op, operands, wanted)
    shape = wanted.shape(op.outputs[0])
    size = shape[axis.axis] if shape else None
    result: list[Axis] = [
        of_operand(axis, tensor, labels.index(label), size, wanted) if count else SHARED
        for tensor, labels, count in zip(op.inputs, operands, counts)
    ]
    if label.isdigit():
        wanted.meet(op, [pair for pair in zip(op.inputs, result) if pair[1] is not SHARED])
    return result


def _note_sizes(op: tf.Operation, operands: Sequence[Labels | None], wanted: Wanted) -> None:
    """Fill in sizes that one operand leaves open, and another has under the same label."""
    shapes = [known_shape(wanted, tensor) if labels else [] for tensor, labels in zip(op.inputs, operands)]
    sizes = {
        label: size
        for labels, shape in zip(operands, shapes)
        for label, size in zip(labels or (), shape)
        if size is not None and label is not None and not label.isdigit()
    }
    for tensor, labels, shape in zip(op.inputs, operands, shapes):
        if labels and None in shape:
            wanted.shapes[tensor.ref()] = [sizes.get(label, size) for label, size in zip(labels, shape)]


def labelled_sizes(
    known: SymbolicSizes,
    output: Tensor,
    given: Given,
    value_of: ValueOf = static_value,
) -> Sizes:
    """The fact `sizes`: those of one label are equal; where they are broadcast, 1 gives way, or either name."""

    def shape(k: int) -> list[int | None]:
        return [None if size.open else size.number for size in given[k]]

    found = axis_labels(output.op, shape, value_of)
    if found is None:
        return None
    longer: dict[str, list] = {}
    for labels, sizes in zip(found[0], given):
        for label, size in zip(labels or (), sizes):
            if label is not None and size not in longer.setdefault(label, []) and size != Size():
                longer[label].append(size)
    followed = [longer.get(label, [None]) or [Size()] for label in found[1]]
    return [sizes[0] if len(sizes) == 1 or not label.isdigit() else None for label, sizes in zip(found[1], followed)]
