"""Blocks of results that are elementwise in their outputs, as the points of a curve are: one backward pass for all.

Where each output m of an example n is computed apart from the others, `y[n, m]` depends on elements of x only where
these are broadcast along m. There a gradient would be summed over m, and what it sums is the Jacobian. So all columns
take one backward pass over tensors `[n, m]`, where a pass forward for each takes as many over `[columns, n, m]`.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfjac.graph import (
    SHARED,
    ExampleAnalysis,
    ExampleAxis,
    ExamplesMix,
    analyse_examples,
    ancestors,
    has_custom_gradient,
    quiet_function,
    transplant,
)
from tfjac.jacobians.passes.linearise import gradients_or_zeros
from tfjac.types import Tensor

_DERIVATIVES = {
    "AddV2": (lambda op, c: c, lambda op, c: c),
    "Mul": (lambda op, c: c * op.inputs[1], lambda op, c: c * op.inputs[0]),
    "RealDiv": (lambda op, c: c / op.inputs[1], lambda op, c: -c * op.outputs[0] / op.inputs[1]),
    "Sub": (lambda op, c: c, lambda op, c: -c),
}
"""For each type of op and each of its inputs, from the cotangents `[n, m]` of the output to those of the input."""

_SELECTS = {
    "Const", "ExpandDims", "GatherV2", "Identity", "Pack", "Reshape", "Shape", "Slice", "Split", "SplitV", "Squeeze",
    "StridedSlice", "Unpack",
}  # fmt: skip
"""Types of ops that take elements as they are, or say where."""

_LARGEST = 256
"""Columns that are told apart by their numbers, in any dtype."""


def separate_outputs(y: Tensor, source: Tensor, analysis: ExampleAnalysis) -> Tensor | None:
    """Return ∂y[n, m]/∂s[n] `[n, m, p]`, or None where outputs are not known to be computed apart in this way.

    Args:
        y: tensor `[n, m]`.
        source: tensor `[n, p]` that y depends on.
        analysis: the `ExampleAnalysis` of y by the source.
    """
    if y.shape.rank != 2 or source.shape.rank != 2 or not y.dtype.is_floating or (y.shape[1] or 0) < 2:
        return None
    uses = _uses(y, source, analysis) or []
    columns = _columns([op.inputs[index] for op, index in uses], source) if uses else None
    if not columns:
        return None
    outputs = [op.outputs[0] for op, _ in uses]
    cotangents = gradients_or_zeros(y, outputs, tf.ones_like(y))
    found: list[list[Tensor]] = [[] for _ in range(source.shape[1])]
    for (op, index), cotangent, column in zip(uses, cotangents, columns):
        found[column].append(_DERIVATIVES[op.type][index](op, cotangent))
    zeros = tf.zeros_like(y)
    stack = tf.stack([sum(parts[1:], parts[0]) if parts else zeros for parts in found])
    return tf.transpose(stack, [1, 2, 0])  # several times faster than to stack single numbers


def _uses(y: Tensor, source: Tensor, analysis: ExampleAnalysis) -> list[tuple[tf.Operation, int]] | None:
    """List the pairs of an op and the index of an input that it broadcasts along m; None where there are others."""
    try:
        along = analyse_examples([source], [y], axes=[ExampleAxis(1)], num_examples=y.shape[1])
    except ExamplesMix:
        return None
    if along.assumed or along.insides or analysis.insides or along.axis(source) is not SHARED:
        return None
    uses = []
    for op in along.path:
        if not any(map(along.carries, op.outputs)):
            continue
        if has_custom_gradient(op):  # it may state anything, also for what no gradient flows back to
            return None
        shared = [index for index, tensor in enumerate(op.inputs) if along.axis(tensor) is SHARED]
        if shared and not _is_plain(op, y, analysis, along):
            return None
        uses += [(op, index) for index in shared]
    return uses


_PLACES = [(ExampleAxis(0), ExampleAxis(1)), (ExampleAxis(0, inner=None), ExampleAxis(1))]
"""Where examples and outputs run in `[n, m]`."""


def _is_plain(op: tf.Operation, y: Tensor, analysis: ExampleAnalysis, along: ExampleAnalysis) -> bool:
    """Return whether an op is one of `_DERIVATIVES`, and its output `[n, m]`."""
    out = op.outputs[0]
    places = analysis.axis(out), along.axis(out)
    same = out.shape.rank == 2 and out.shape[1] == y.shape[1] and out.dtype == y.dtype
    return op.type in _DERIVATIVES and same and places in _PLACES


def _columns(tensors: Sequence[Tensor], source: Tensor) -> list[int] | None:
    """Return which column of `source` each tensor `[n, 1]` is, a list; None where one is not a column as it is."""
    selecting = [op for op in ancestors(tensors, [source]) if op is not source.op]
    of_one = all(tensor.shape.rank == 2 and tensor.shape[1] == 1 for tensor in tensors)
    if (
        not of_one
        or source.shape[1] is None
        or source.shape[1] > _LARGEST
        or any(op.type not in _SELECTS for op in selecting)
    ):
        return None
    rows, columns = source.shape
    numbers = np.tile(np.arange(columns), [2 if rows is None else rows, 1])

    def selected(numbers: Tensor) -> Tensor:
        copies = transplant(tensors, [(source, numbers)])
        return tf.concat([copies[tensor.ref()] for tensor in tensors], axis=1)

    with tf.init_scope():
        if not tf.executing_eagerly():
            return None
        try:
            found = quiet_function(selected)(tf.constant(numbers, source.dtype)).numpy()
        except (ValueError, tf.errors.InvalidArgumentError):  # of a number of rows that is fixed in the graph
            return None
    return found[0].astype(int).tolist() if (found == found[:1]).all() else None
