"""Where a weight meets the data: the ops at which a Jacobian is cut into factors."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import SHARED, ExampleAnalysis, ExampleAxis, differentiable_inputs, examples_mix_at
from tfjac.jacobians.shapes import split_examples
from tfjac.linear.shapes import Size
from tfjac.types import Tensor

READ = "ReadVariableOp"
"""The type of the op by which a variable is read."""

ROWS_OF_WEIGHT = "rows-of-a-weight"
"""Stands in the place of an op type where an op takes a row for each example of what another one takes whole."""


@dataclasses.dataclass
class Use:
    """An op with a shared input that the variables reach, and an output that carries the examples.

    Attributes:
        op: the op.
        weight_index: which of its inputs is the shared one.
        output_index: which of its outputs carries the examples.
        axis: the `ExampleAxis` of that output.
        input_axes: for each input its `ExampleAxis` or `SHARED`.
        n: number of examples, an integer or a scalar tensor.
        d: `[m, *output.shape]`, the cotangents of the output, one for each output of the result; set before its rule
            is asked.
    """

    op: tf.Operation
    weight_index: int
    output_index: int
    axis: ExampleAxis
    input_axes: list
    n: Size | Any
    d: Any = None

    @property
    def kind(self) -> str:
        """What its rule is found by: the type of the op, or that each example takes a row of the weight."""
        rows = self.input_axes[self.weight_index] == ExampleAxis(0)
        return ROWS_OF_WEIGHT if rows else self.op.type

    @property
    def weight(self) -> Tensor:
        """The shared input."""
        return self.op.inputs[self.weight_index]

    @property
    def output(self) -> Tensor:
        """The output that carries the examples."""
        return self.op.outputs[self.output_index]

    def split(self, tensor: Tensor, axis: ExampleAxis) -> Tensor:
        """Bring the examples of an input or output to the front."""
        return split_examples(tensor, axis, self.n)

    def split_cotangent(self, d: Tensor | None = None) -> Tensor:
        """The cotangents (or others in their place) with the examples first: `[n, m, ...]`."""
        return split_examples(self.d if d is None else d, self.axis, self.n, lead=1)


class OwnRows(Use):
    """The use of a source that has a row for each example, along axis 0: the source itself, as a variable is read."""

    kind = READ

    def __init__(self, source: Tensor, n: Size) -> None:
        super().__init__(source.op, -1, source.value_index, ExampleAxis(0), [], n)

    @property
    def weight(self) -> Tensor:
        return self.output


def find_uses(
    analysis: ExampleAnalysis, sources: Sequence[Tensor], n: Size | None, takes_own_rows: bool = False
) -> "list[Use]":
    """List the uses of `sources`, which cover every path from them to the results.

    Args:
        analysis: the `ExampleAnalysis` of the graph between them.
        sources: handles of variables, or tensors that all examples share.
        n: number of examples.
        takes_own_rows: whether tensors may have a row for each example.

    Raises:
        ExamplesMix: where a source belongs to single examples, or a use has several outputs that carry examples and
            the sources reach a result through more than one of them in a way that cannot be cut.
    """
    own = []
    for source in sources:
        if takes_own_rows and analysis.axis(source) == ExampleAxis(0):
            own.append(OwnRows(source, n))
        elif analysis.carries(source):
            consumer = next(op for op in analysis.path if any(tensor is source for tensor in op.inputs))
            raise examples_mix_at(
                consumer,
                f"{source.name!r} has a part of its own for each example, not one that all share: batch_jacobian and "
                "node_gradients are for such tensors",
            )
    return own + [use for op in analysis.path for use in _uses_of(op, analysis, n)]


def _uses_of(op: tf.Operation, analysis: ExampleAnalysis, n: Size | None) -> "list[Use]":
    outputs = [index for index, output in enumerate(op.outputs) if analysis.carries(output)]
    if not outputs:
        return []
    shared = [index for index in differentiable_inputs(op) if analysis.axis(op.inputs[index]) is SHARED]
    weights = [index for index in shared if analysis.dependence.reaches(op.inputs[index])]
    return [
        Use(op, weight, output, analysis.axis(op.outputs[output]), analysis.input_axes[op.name], n)
        for weight in weights
        for output in outputs
    ]
