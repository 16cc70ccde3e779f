"""Pooling, and patches of images."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfjac.graph.facts import declare
from tfjac.graph.gradients.mending import Gradient
from tfjac.graph.op_facts.convolution import first_axis, folded_into_the_batch, same_rows
from tfjac.graph.reading.static_values import static_value
from tfjac.types import Array, Tensor

_MAXIMA = {
    "MaxPoolGrad": tf.raw_ops.MaxPoolGradGrad,
    "MaxPoolGradV2": tf.raw_ops.MaxPoolGradGradV2,
    "MaxPool3DGrad": tf.raw_ops.MaxPool3DGradGrad,
}


def _max_pool(op: tf.Operation, cotangent: Tensor) -> list[Tensor | None]:
    """What flows back at the places of the maxima, of an image that is padded beforehand.

    TensorFlow's kernel on CPU writes the result over the cotangent, while it still reads it, where both have as many
    elements. With the padding made explicit they never do, but for windows of one place.
    """
    x, y, _, *windows = op.inputs
    sizes, strides = map(static_value, windows) if windows else (op.get_attr("ksize"), op.get_attr("strides"))
    paddings = _explicit_paddings(op, sizes, strides)
    x_padded, u_padded = tf.pad(x, paddings, constant_values=x.dtype.min), tf.pad(cotangent, paddings)
    if max(sizes) == 1:
        maxima = u_padded[tuple(slice(None, None, stride) for stride in strides)]
    else:
        options = {"ksize": sizes, "strides": strides, "data_format": op.get_attr("data_format").decode()}
        maxima = _MAXIMA[op.type](orig_input=x_padded, orig_output=y, grad=u_padded, padding="VALID", **options)
    return [tf.zeros_like(x), tf.zeros_like(y), tf.ensure_shape(maxima, y.shape)] + [None] * (len(op.inputs) - 3)


def _explicit_paddings(op: tf.Operation, sizes: Sequence[int], strides: Sequence[int]) -> Array | Tensor:
    """`[rank, 2]`: the places before and behind each axis that the windows of `op` look at beyond the image."""
    x, y = op.inputs[:2]
    padding = op.get_attr("padding")
    if padding == b"EXPLICIT":
        return np.reshape(op.get_attr("explicit_paddings"), [-1, 2])
    if padding == b"VALID":
        return np.zeros([len(sizes), 2], np.int32)
    totals = [
        0 if size == 1 else tf.maximum((tf.shape(y)[axis] - 1) * stride + size - tf.shape(x)[axis], 0)
        for axis, (size, stride) in enumerate(zip(sizes, strides))
    ]
    return tf.stack([[total // 2, total - total // 2] for total in totals])


declare("AvgPool AvgPool3D", linear="in the first", example_axis=first_axis(0))
declare("MaxPool MaxPool3D MaxPoolWithArgmax FractionalMaxPool", example_axis=first_axis(0))
declare("AvgPool MaxPool", sizes=same_rows, maps="kept")
declare("AvgPoolGrad AvgPool3DGrad", example_axis=first_axis(1), shortcut=folded_into_the_batch, sized_by=(0,))
declare("MaxPoolGrad MaxPool3DGrad MaxPoolGradGrad MaxPool3DGradGrad", example_axis=first_axis(0, 1, 2))
declare(*_MAXIMA, gradient=Gradient(_max_pool))
declare("ExtractImagePatches ExtractVolumePatches DepthToSpace SpaceToDepth", example_axis=first_axis(0))
declare("DepthToSpace SpaceToDepth", affine=(0,), maps="kept")
