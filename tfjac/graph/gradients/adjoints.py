"""Gradients of gradients that are linear in what flows back, where TensorFlow has none, or a wrong one.

Without them there is no forward mode, and a second derivative through such an op counts as zero.
"""

import numpy as np
import tensorflow as tf

from tfjac.graph.gradients.registry import gradient
from tfjac.graph.static_values import static_value

_RESIZE = {
    "ResizeBilinearGrad": tf.raw_ops.ResizeBilinear,
    "ResizeBicubicGrad": tf.raw_ops.ResizeBicubic,
    "ResizeNearestNeighborGrad": tf.raw_ops.ResizeNearestNeighbor,
}


@gradient(*_RESIZE)
def _resize(op, cotangent):
    size = tf.shape(op.inputs[0])[1:3]
    options = {name: op.get_attr(name) for name in ("align_corners", "half_pixel_centers")}
    resized = _RESIZE[op.type](images=cotangent, size=size, **options)
    return tf.cast(resized, op.inputs[0].dtype), None


@gradient("ScaleAndTranslateGrad")
def _scale_and_translate(op, cotangent):
    grads, _, scale, translation = op.inputs
    options = {name: op.get_attr(name) for name in ("kernel_type", "antialias")}
    size = tf.shape(grads)[1:3]
    moved = tf.raw_ops.ScaleAndTranslate(images=cotangent, size=size, scale=scale, translation=translation, **options)
    return moved, None, None, None


@gradient("CropAndResizeGradImage")
def _crop_and_resize(op, cotangent):
    grads, boxes, indices, _ = op.inputs
    crops = tf.raw_ops.CropAndResize(
        image=cotangent, boxes=boxes, box_ind=indices, crop_size=tf.shape(grads)[1:3], method=op.get_attr("method")
    )
    return tf.cast(crops, grads.dtype), None, None, None


_SEGMENTS = {
    "SparseSegmentSumGrad": tf.raw_ops.SparseSegmentSumWithNumSegments,
    "SparseSegmentMeanGrad": tf.raw_ops.SparseSegmentMeanWithNumSegments,
    "SparseSegmentSqrtNGrad": tf.raw_ops.SparseSegmentSqrtNWithNumSegments,
}


@gradient(*_SEGMENTS)
def _sparse_segment(op, cotangent):
    grads, indices, ids, _ = op.inputs
    summed = _SEGMENTS[op.type](data=cotangent, indices=indices, segment_ids=ids, num_segments=tf.shape(grads)[0])
    return summed, None, None, None


_MAXIMA = {
    "MaxPoolGrad": tf.raw_ops.MaxPoolGradGrad,
    "MaxPoolGradV2": tf.raw_ops.MaxPoolGradGradV2,
    "MaxPool3DGrad": tf.raw_ops.MaxPool3DGradGrad,
}


@gradient(*_MAXIMA)
def _max_pool(op, cotangent):
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


def _explicit_paddings(op, sizes, strides):
    """`[rank, 2]`: the places before and behind each axis that the windows of `op` look at beyond the image."""
    x, y, padding = *op.inputs[:2], op.get_attr("padding")
    if padding == b"EXPLICIT":
        return np.reshape(op.get_attr("explicit_paddings"), [-1, 2])
    if padding == b"VALID":
        return np.zeros([len(sizes), 2], np.int32)
    totals = [
        0 if size == 1 else tf.maximum((tf.shape(y)[axis] - 1) * stride + size - tf.shape(x)[axis], 0)
        for axis, (size, stride) in enumerate(zip(sizes, strides))
    ]
    return tf.stack([[total // 2, total - total // 2] for total in totals])


def _refuse(op, *cotangents):
    raise LookupError(
        "No gradient passes through this op, which TensorFlow has as a constant: take first derivatives, in reverse "
        f"mode. Received: op {op.name!r} of type {op.type}"
    )


gradient(
    "FakeQuantWithMinMaxVarsGradient",
    "FakeQuantWithMinMaxVarsPerChannelGradient",
    "FakeQuantWithMinMaxArgsGradient",
    "SparseAddGrad",
)(_refuse)
