"""Convolutions, their gradients, and what else has the examples along axis 0."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.examples.example_rules import SHARED, Axis, ExampleAxis, NoRule, Wanted
from tfjac.graph.facts import declare
from tfjac.graph.gradients import grouped_convolution
from tfjac.graph.gradients.mending import Gradient
from tfjac.graph.reading.static_values import static_value
from tfjac.graph.reading.symbolic_sizes import Given, Sizes, SymbolicSizes
from tfjac.types import Tensor


def first_axis(*carriers: int) -> Callable:
    """Return a rule for ops whose inputs at `carriers` have the examples first, and whose other inputs are shared."""

    def rule(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
        if axis.axis != 0:
            raise NoRule(f"it carries the examples along axis {axis.axis}, where it combines slices")
        return [axis if index in carriers else SHARED for index in range(len(op.inputs))]

    return rule


def same_rows(known: SymbolicSizes, output: Tensor, given: Given) -> Sizes:
    """The sizes of a result that has as many rows as the first input."""
    return [given[0][0]] + [None] * (len(given[0]) - 1)


def folded_into_the_batch(
    op: tf.Operation, inputs: Sequence[Tensor], stacked: Sequence[bool]
) -> Sequence[Tensor] | None:
    """The sizes of the result come first, the cotangents `[c, n, ...]` last: as good as those of c·n examples."""
    sizes, *shared, cotangents = inputs
    c, n, *rest = cotangents.shape
    result = op.outputs[0].shape[1:]
    if any(stacked[:-1]) or None in rest or not result.is_fully_defined() or (c is None and n is None):
        return None
    folded = tf.reshape(cotangents, [-1 if None in (c, n) else c * n, *rest])
    rows = tf.shape(folded, sizes.dtype)[0] if None in (c, n) else c * n
    sizes = tf.cast(tf.stack([rows, *result]), sizes.dtype)
    (output,) = _private.op_like(op, [sizes, *shared, folded])
    return [tf.reshape(output, [-1 if c is None else c, -1 if n is None else n, *result])]


def _filter_gradient(op: tf.Operation, inputs: Sequence[Tensor], stacked: Sequence[bool]) -> Sequence[Tensor] | None:
    """TensorFlow loses explicit paddings, and makes one group of all channels."""
    channels = op.inputs[0].shape[1 if op.get_attr("data_format") == b"NCHW" else 3]
    sizes = static_value(op.inputs[1])
    one_group = sizes is not None and channels == sizes[2]
    return inputs if one_group and op.get_attr("padding") != b"EXPLICIT" else None


declare("Conv2D Conv3D DepthwiseConv2dNative", meets_weights=True, example_axis=first_axis(0), sizes=same_rows)
declare("Conv3D", grouped="taken apart", multiplies=True)
declare(
    "Conv2D",
    grouped="run",
    multiplies=True,
    gradient=Gradient(
        grouped_convolution.gradient_by_groups,
        when=lambda op, ops: grouped_convolution.is_grouped(op),
        name="TfjacConvolutionByGroups",
    ),
)
declare(
    "Conv2DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropInput",
    example_axis=first_axis(2),
    shortcut=folded_into_the_batch,
)
declare("Conv2DBackpropFilter", conversion=_filter_gradient, sized_by=(1,))
declare("Conv2D Conv3D DepthwiseConv2dNative", affine=(0,), maps="made")
declare("Conv2DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropInput", affine=(2,), maps="made")
declare("Dilation2D", example_axis=first_axis(0))
declare("Conv2DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropInput", sized_by=(0,))
