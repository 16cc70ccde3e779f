"""Loops and branches in a slice of a batch: whether they do to the rows of a slice what they do to those of the batch.

All of a body is computed again for a slice. So it may not look at a size that is open, as this may be the number of
rows; nor draw at random; and each row of what comes out may depend, by value, on the same rows alone of what goes in.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import (
    Dependence,
    ExampleAnalysis,
    ExampleAxis,
    ExamplesMix,
    analyse_examples,
    ancestors,
    axes_by_value,
    bodies_of,
    holds_bodies,
    shape_only,
)
from tfjac.graph.copying.bodies import Body
from tfjac.graph.examples.example_rules import SHARED, Axis
from tfjac.graph.facts import facts_of, is_constant, is_loop
from tfjac.types import Tensor


class NotSliced(Exception):
    """The graph cannot be copied for a slice."""


def axes_by_bodies(op: tf.Operation, outputs: Mapping[int, Axis], analysis: ExampleAnalysis) -> list[Axis]:
    """Return the axis of each input of a loop or branch on the path, on the path or not.

    Args:
        op: the loop or branch.
        outputs: for the index of each output on the path, its `ExampleAxis` or `SHARED`.
        analysis: that of the results.

    Raises:
        NotSliced: where a slice could turn out to be another function than the batch.
    """
    sources = [tensor for tensor in op.inputs if _may_carry(tensor, analysis)]
    try:
        found, inside = axes_by_value(op, sources, outputs)
        if is_loop(op):
            _check_loop(inside)
        else:
            for branch in inside:
                rows = [k for k, axis in branch.inputs.items() if isinstance(axis, ExampleAxis)]
                _check_body(branch.body, rows, outputs, set())
    except ExamplesMix as mix:
        raise NotSliced from mix
    return found


def _may_carry(tensor: Tensor, analysis: ExampleAnalysis) -> bool:
    """Whether `tensor` may have a row for each example: not what is known to be shared, and no counter."""
    if analysis.axis(tensor) is not None or tensor.dtype == tf.variant:
        return analysis.axis(tensor) is not SHARED and facts_of(tensor.op).list != "made of sizes"
    return tensor.dtype != tf.resource and tensor.shape.rank != 0 and not is_constant(tensor.op)


def _looks_at_open_sizes(targets: Sequence[Tensor]) -> bool:
    """Whether an op that `targets` of a body are computed from does, or one in the functions that it runs."""
    return any(
        (shape_only(op) and not all(tensor.shape.is_fully_defined() for tensor in op.inputs))
        or any(_looks_at_open_sizes(body.outputs) for name in facts_of(op).functions for body in bodies_of(op, name))
        for op in ancestors(targets)
    )


def _check_loop(inside: Any) -> None:
    """Check that rows stay apart by value in the steps of a loop, whose end no row decides: see `axes_by_value`."""
    known = {**inside.invariant, **inside.state}
    rows = [k for k, axis in known.items() if isinstance(axis, ExampleAxis)]
    same = {k for k, output in enumerate(inside.body.outputs) if output is inside.body.inputs[k]}
    _check_body(inside.body, rows, inside.state, same)
    if _looks_at_open_sizes(inside.condition.outputs):
        raise NotSliced


def _check_body(body: Body, rows: Sequence[int], outputs: Mapping[int, Axis], same: set[int]) -> None:
    """Check that outputs are the rows that are asked for, by value, and that all others depend on no row.

    Args:
        body: the function.
        rows: indices of the inputs that carry the examples.
        outputs: for the index of each output that is asked for, its axis.
        same: indices of inputs that a step passes on as they are.
    """
    others = [
        output
        for k, output in enumerate(body.outputs)
        if k not in outputs and k not in same and output.dtype != tf.variant  # a list that a gradient of Keras keeps
    ]
    sources, targets = [body.inputs[k] for k in rows], [body.outputs[k] for k in outputs]
    if _reached(body, rows, others) or _looks_at_open_sizes([*targets, *others]):
        raise NotSliced
    found = analyse_examples(sources, targets, list(outputs.values()), by_value=True)
    nested = any(map(holds_bodies, found.path))
    shared = any(axis is SHARED for axis in found.axes.values())
    guessed = any(axis.inner is None for _, axis in found.assumed)
    if nested or shared or guessed:
        raise NotSliced


def _reached(body: Body, rows: Sequence[int], outputs: Sequence[Tensor]) -> bool:
    """Return whether one of the outputs depends, by value, on inputs that carry the examples."""
    dependence = Dependence([body.inputs[k] for k in rows], by_value=True)
    return any(map(dependence.reaches, outputs))
