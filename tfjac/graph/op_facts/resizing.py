"""Resizing and other ops on images: gradients of gradients that are linear in what flows back.

Without them there is no forward mode, and a second derivative through such an op counts as zero.
"""

from collections.abc import Iterable

import tensorflow as tf

from tfjac.graph.examples.example_rules import Axis, ExampleAxis, NoRule, Wanted
from tfjac.graph.facts import declare
from tfjac.graph.gradients.mending import Gradient, refused
from tfjac.graph.op_facts.convolution import first_axis
from tfjac.graph.op_facts.scattering import numbers_rows
from tfjac.types import Tensor

_RESIZE = {
    "ResizeBilinearGrad": tf.raw_ops.ResizeBilinear,
    "ResizeBicubicGrad": tf.raw_ops.ResizeBicubic,
    "ResizeNearestNeighborGrad": tf.raw_ops.ResizeNearestNeighbor,
}


def _resize(op: tf.Operation, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    size = tf.shape(op.inputs[0])[1:3]
    options = {name: op.get_attr(name) for name in ("align_corners", "half_pixel_centers")}
    resized = _RESIZE[op.type](images=cotangent, size=size, **options)
    return tf.cast(resized, op.inputs[0].dtype), None


def _scale_and_translate(op: tf.Operation, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    grads, _, scale, translation = op.inputs
    options = {name: op.get_attr(name) for name in ("kernel_type", "antialias")}
    size = tf.shape(grads)[1:3]
    moved = tf.raw_ops.ScaleAndTranslate(images=cotangent, size=size, scale=scale, translation=translation, **options)
    return moved, None, None, None


def _crop_and_resize(op: tf.Operation, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    grads, boxes, indices, _ = op.inputs
    crops = tf.raw_ops.CropAndResize(
        image=cotangent, boxes=boxes, box_ind=indices, crop_size=tf.shape(grads)[1:3], method=op.get_attr("method")
    )
    return tf.cast(crops, grads.dtype), None, None, None


def _is_not_single(op: tf.Operation, ops: Iterable[tf.Operation]) -> bool:
    return op.inputs[0].dtype != tf.float32


def _gradient_of_translated(op: tf.Operation, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    """TensorFlow's takes no image of another dtype than the result, which is float32."""
    images, _, scale, translation = op.inputs
    options = {name: op.get_attr(name) for name in ("kernel_type", "antialias")}
    image = tf.cast(images, tf.float32)
    found = tf.raw_ops.ScaleAndTranslateGrad(
        grads=cotangent, original_image=image, scale=scale, translation=translation, **options
    )
    return tf.cast(found, images.dtype), None, None, None


def _is_half(op: tf.Operation, ops: Iterable[tf.Operation]) -> bool:
    return op.inputs[0].dtype not in (tf.float32, tf.float64)


def _gradient_of_bicubic(op: tf.Operation, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    """TensorFlow's is None for images of half precision, so that nothing seems to depend on them."""
    images, options = op.inputs[0], {name: op.get_attr(name) for name in ("align_corners", "half_pixel_centers")}
    found = tf.raw_ops.ResizeBicubicGrad(grads=cotangent, original_image=tf.cast(images, tf.float32), **options)
    return tf.cast(found, images.dtype), None


def _gradient_of_area(op: tf.Operation, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    """The transpose of what resizes by areas, a matrix for the rows and one for the columns."""
    if op.get_attr("align_corners"):
        raise LookupError(
            "No gradient passes through a resize by areas with aligned corners: leave align_corners out. "
            f"Received: op {op.name!r} of type {op.type}"
        )
    images = op.inputs[0]
    rows, columns = (_shares(tf.shape(images)[k], op.inputs[1][k - 1]) for k in (1, 2))
    return tf.cast(tf.einsum("yi,xj,nyxc->nijc", rows, columns, cotangent), images.dtype), None


def _shares(size: Tensor, new_size: Tensor) -> Tensor:
    """The share `[new_size, size]` that each of the old pixels along an axis has of each new one."""
    width = tf.cast(size, tf.float32) / tf.cast(new_size, tf.float32)
    first = tf.cast(tf.range(new_size), tf.float32)[:, None] * width
    old = tf.cast(tf.range(size), tf.float32)
    common = tf.minimum(first + width, old + 1) - tf.maximum(first, old)
    return tf.maximum(common, 0) / width


def _transform(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """One transform for all images, or one for each."""
    transforms = op.inputs[1]
    if transforms.shape.rank is not None and transforms.shape[0] == 1:
        return first_axis(0)(op, axis, wanted)
    wanted.assume(op, transforms, axis)
    return first_axis(0, 1)(op, axis, wanted)


def _crop(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """One box for each image, in their order."""
    image, boxes, indices, _ = op.inputs
    found = first_axis(0, 1)(op, axis, wanted)
    if axis != ExampleAxis(0) or not numbers_rows(indices):
        raise NoRule("it picks images by index")
    wanted.meet(op, [(image, axis), (boxes, axis)])
    return found


declare("ResizeBicubic ResizeBilinear ResizeNearestNeighbor ScaleAndTranslate", example_axis=first_axis(0))
declare("CropAndResize", example_axis=_crop)
declare("ResizeArea ResizeBicubic ResizeBilinear ResizeNearestNeighbor", affine=(0,), maps="kept")
declare("ResizeBicubicGrad ResizeBilinearGrad", example_axis=first_axis(0, 1))
declare("ResizeNearestNeighborGrad", example_axis=first_axis(0))
declare("ResizeArea", example_axis=first_axis(0), gradient=Gradient(_gradient_of_area))
declare("ResizeBicubic", gradient=Gradient(_gradient_of_bicubic, when=_is_half))
declare("ScaleAndTranslate", gradient=Gradient(_gradient_of_translated, when=_is_not_single), sized_by=(1,))
declare("CropAndResize ResizeArea ResizeBicubic ResizeBilinear ScaleAndTranslate", single_precision=True)
declare(*_RESIZE, gradient=Gradient(_resize))
declare("ScaleAndTranslateGrad", gradient=Gradient(_scale_and_translate))
declare("CropAndResizeGradImage", gradient=Gradient(_crop_and_resize))
declare(
    "ImageProjectiveTransformV2 ImageProjectiveTransformV3",
    example_axis=_transform,
    refused_inputs=("it interpolates with the inverse transform, which is no transpose", [0]),
)
declare("HSVToRGB", gradient=refused("it is declared to have none, so that nothing depends on the image"))
declare("ResizeArea ResizeBicubic ResizeBilinear ResizeNearestNeighbor ResizeNearestNeighborGrad", sized_by=(1,))
declare("ImageProjectiveTransformV2 ImageProjectiveTransformV3", sized_by=(2,))
declare("CropAndResize CropAndResizeGradImage", sized_by=(3,))
