"""Ops that TensorFlow's vectoriser converts rightly, and at length: here they are converted in a few ops.

It works out sizes when the graph runs that are known while tracing, copies what is the same for all slices, and folds
slices into channels. A graph of hundreds of layers is traced, and run for the first time, in half the time without.

A shortcut is a function `convert(op, inputs, stacked)`, as `vectorising.conversion` takes edits, that returns the
outputs of `op` for all slices, `[c, ...]` each, or None where it does not apply and TensorFlow's way is taken.
"""

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.registration import registering
from tfjac.graph.sizes import axes
from tfjac.graph.static_values import static_value

SHORTCUTS = {}

shortcut = registering(SHORTCUTS)
"""Register a shortcut for `op_types`."""


@shortcut(
    *("AvgPoolGrad", "AvgPool3DGrad", "Conv2DBackpropInput", "Conv3DBackpropInputV2"),
    "DepthwiseConv2dNativeBackpropInput",
)
def _folded_into_the_batch(op, inputs, stacked):
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


@shortcut("MatMul")
def _as_one_product(op, inputs, stacked):
    """All slices below one another, or side by side. TensorFlow leaves a size open that no empty matrix tells."""
    a, b = inputs
    if all(stacked):
        return None
    if op.get_attr("transpose_a"):
        a = tf.linalg.matrix_transpose(a)
    if op.get_attr("transpose_b"):
        b = tf.linalg.matrix_transpose(b)
    if stacked[0]:
        c, rows, inner = axes(a)
        return [tf.reshape(tf.reshape(a, [c * rows, inner]) @ b, [c, rows, axes(b)[1]])]
    c, inner, columns = axes(b)
    side_by_side = tf.reshape(tf.transpose(b, [1, 0, 2]), [inner, c * columns])
    return [tf.transpose(tf.reshape(a @ side_by_side, [axes(a)[0], c, columns]), [1, 0, 2])]


_COTANGENT = {
    **dict.fromkeys(("EluGrad", "LeakyReluGrad", "Relu6Grad", "ReluGrad", "SeluGrad", "SoftplusGrad"), 0),
    **dict.fromkeys(("ReciprocalGrad", "RsqrtGrad", "SigmoidGrad", "SqrtGrad", "TanhGrad"), 1),
}
"""Ops that take two tensors of one shape and do not broadcast: which of these is the cotangent."""


@shortcut(*_COTANGENT)
def _by_slope(op, inputs, stacked):
    """A slope, the same for all slices, times the cotangents `[c, ...]`."""
    at = _COTANGENT[op.type]
    if stacked[1 - at] or op.inputs[1 - at].shape.rank is None:
        return None
    given = list(inputs)
    given[at] = tf.ones_like(inputs[1 - at])
    (slope,) = _private.op_like(op, given)
    return [slope * inputs[at]]


_LISTS = {
    **dict.fromkeys(("Max", "Mean", "Min", "Prod", "Sum"), lambda c, axes: [[k + (k >= 0) for k in axes]]),
    "Pad": lambda c, paddings: [[[0, 0], *paddings]],
    "Reshape": lambda c, sizes: [[c, *sizes]],
    "Slice": lambda c, begin, sizes: [[0, *begin], [c, *sizes]],
    "Tile": lambda c, repeats: [[1, *repeats]],
    "Transpose": lambda c, order: [[0, *(1 + k for k in order)]],
}
"""Ops that take a tensor and lists of integers, and what these become where the tensor has c slices."""


@shortcut(*_LISTS)
def _by_known_lists(op, inputs, stacked):
    """Sizes, axes and places of one axis more, worked out while tracing."""
    tensor, *given = inputs
    lists = [static_value(each) for each in given]
    if any(stacked[1:]) or tensor.shape[:1] == [None] or any(each is None for each in lists):
        return None
    lists = [each.reshape(-1).tolist() if each.ndim < 2 else each.tolist() for each in lists]
    lists = _LISTS[op.type](tensor.shape[0], *lists)
    return _private.op_like(op, [tensor, *(tf.constant(new, old.dtype) for new, old in zip(lists, op.inputs[1:]))])
