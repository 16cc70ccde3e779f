"""Resizing and other ops on images: gradients of gradients that are linear in what flows back.

Without them there is no forward mode, and a second derivative through such an op counts as zero.
"""

import tensorflow as tf

from tfjac.graph.facts import declare
from tfjac.graph.gradients.mending import Gradient, refused
from tfjac.graph.op_facts.convolution import first_axis

_RESIZE = {
    "ResizeBilinearGrad": tf.raw_ops.ResizeBilinear,
    "ResizeBicubicGrad": tf.raw_ops.ResizeBicubic,
    "ResizeNearestNeighborGrad": tf.raw_ops.ResizeNearestNeighbor,
}


def _resize(op, cotangent):
    size = tf.shape(op.inputs[0])[1:3]
    options = {name: op.get_attr(name) for name in ("align_corners", "half_pixel_centers")}
    resized = _RESIZE[op.type](images=cotangent, size=size, **options)
    return tf.cast(resized, op.inputs[0].dtype), None


def _scale_and_translate(op, cotangent):
    grads, _, scale, translation = op.inputs
    options = {name: op.get_attr(name) for name in ("kernel_type", "antialias")}
    size = tf.shape(grads)[1:3]
    moved = tf.raw_ops.ScaleAndTranslate(images=cotangent, size=size, scale=scale, translation=translation, **options)
    return moved, None, None, None


def _crop_and_resize(op, cotangent):
    grads, boxes, indices, _ = op.inputs
    crops = tf.raw_ops.CropAndResize(
        image=cotangent, boxes=boxes, box_ind=indices, crop_size=tf.shape(grads)[1:3], method=op.get_attr("method")
    )
    return tf.cast(crops, grads.dtype), None, None, None


def _transform(op, axis, wanted):
    """One transform for all images, or one for each."""
    transforms = op.inputs[1]
    if transforms.shape.rank is not None and transforms.shape[0] == 1:
        return first_axis(0)(op, axis, wanted)
    wanted.assume(op, transforms, axis)
    return first_axis(0, 1)(op, axis, wanted)


declare("ResizeBicubic ResizeBilinear ResizeNearestNeighbor ScaleAndTranslate", example_axis=first_axis(0))
declare("ResizeBicubicGrad ResizeBilinearGrad", example_axis=first_axis(0, 1))
declare("ResizeNearestNeighborGrad", example_axis=first_axis(0))
declare(*_RESIZE, gradient=Gradient(_resize))
declare("ScaleAndTranslateGrad", gradient=Gradient(_scale_and_translate))
declare("CropAndResizeGradImage", gradient=Gradient(_crop_and_resize))
declare(
    "ImageProjectiveTransformV2 ImageProjectiveTransformV3",
    example_axis=_transform,
    refused_inputs=("it interpolates with the inverse transform, which is no transpose", [0]),
)
declare("HSVToRGB", gradient=refused("it is declared to have none, so that nothing depends on the image"))
