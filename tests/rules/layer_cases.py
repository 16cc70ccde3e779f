"""Cases for ops of layers: images and volumes, reductions, scans, segments, normalisation, losses."""

import numpy as np
import tensorflow as tf

from tests.rules.case import Case, N, behind, last
from tests.rules.elementwise_cases import positive

IMAGE, VOLUME = (4, 4, 2), (2, 4, 4, 2)


def constant(*shape):
    """An array, the same for the same shape."""
    return np.random.default_rng(shape).normal(size=shape)


KERNEL, DEPTHWISE, KERNEL_3D = constant(2, 2, 2, 3), constant(2, 2, 2, 2), constant(2, 2, 2, 2, 3)
UP, UP_DEPTHWISE, UP_3D = constant(2, 2, 3, 2), constant(2, 2, 2, 1), constant(2, 2, 2, 3, 2)
WINDOW = {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}
WINDOW_3D = {"ksize": [1, 2, 2, 2, 1], "strides": [1] * 5, "padding": "SAME"}
SIZE = tf.constant([6, 5])


def rows(x):
    """Number of examples, wherever they are."""
    return tf.shape(x)[0]


def transposed(op, kernel, sizes, **options):
    strides = [1] * (len(sizes) + 2)
    shape = lambda x: tf.stack([rows(x), *sizes, kernel.shape[-2]])  # noqa: E731
    return lambda x: op(input_sizes=shape(x), filter=tf.constant(kernel), out_backprop=x, strides=strides, **options)


def resized_grad(op):
    """A gradient of resizing, met in the backward of a custom gradient: it has none of its own."""
    return tf.recompute_grad(lambda x: op(images=x, size=SIZE))


@tf.custom_gradient
def doubled_in_size(x):
    """Each pixel becomes four; the gradient adds them by a resize by areas, which has no gradient in TensorFlow."""
    _, height, width, _ = x.shape
    summed = lambda u: 4 * tf.raw_ops.ResizeArea(images=u, size=[height, width])  # noqa: E731
    return tf.repeat(tf.repeat(x, 2, 1), 2, 2), summed


def max_pool_grad(x):
    return tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=tf.nn.max_pool2d(x, 2, 1, "SAME"), grad=tf.sin(x), **WINDOW)


def max_pool_grad_3d(x):
    pooled = tf.nn.max_pool3d(x, 2, 1, "SAME")
    return tf.raw_ops.MaxPool3DGrad(orig_input=x, orig_output=pooled, grad=tf.sin(x), **WINDOW_3D)


def second_of(op, window):
    """The second derivative of pooling: linear in the tangent alone."""
    pooled = {4: tf.nn.max_pool2d, 5: tf.nn.max_pool3d}

    def apply(x):
        fixed = tf.stop_gradient(x)
        return op(orig_input=fixed, orig_output=pooled[x.shape.rank](fixed, 2, 1, "SAME"), grad=x, **window)

    return apply


def cropped(x):
    """Each image by a box of its own, which it decides."""
    edges = tf.sigmoid(x[:, 0, 0]) / 3
    return tf.image.crop_and_resize(x, tf.concat([edges, 1 - edges], 1), tf.range(tf.shape(x)[0]), SIZE)


IMAGES = {
    "AvgPool": lambda x: tf.nn.avg_pool2d(x, 2, 1, "SAME"),
    "AvgPoolGrad": lambda x: tf.raw_ops.AvgPoolGrad(orig_input_shape=tf.shape(x), grad=x, **WINDOW),
    "Conv2D": lambda x: tf.nn.conv2d(x, KERNEL, 1, "SAME"),
    "Conv2DBackpropInput": transposed(tf.raw_ops.Conv2DBackpropInput, UP, [5, 5], padding="VALID"),
    "DepthToSpace": lambda x: tf.nn.depth_to_space(tf.tile(x, [1, 1, 1, 2]), 2),
    "DepthwiseConv2dNative": lambda x: tf.nn.depthwise_conv2d(x, DEPTHWISE, [1, 1, 1, 1], "VALID"),
    "DepthwiseConv2dNativeBackpropInput": transposed(
        tf.raw_ops.DepthwiseConv2dNativeBackpropInput, UP_DEPTHWISE, [5, 5], padding="VALID"
    ),
    "Dilation2D": lambda x: tf.nn.dilation2d(x, KERNEL[..., 0], [1] * 4, "SAME", "NHWC", [1] * 4),
    "ExtractImagePatches": lambda x: tf.image.extract_patches(x, [1, 2, 2, 1], [1] * 4, [1] * 4, "VALID"),
    "MaxPool": lambda x: tf.nn.max_pool2d(x, 2, 1, "SAME"),
    "MaxPoolGrad": max_pool_grad,
    "MaxPoolGradGrad": second_of(tf.raw_ops.MaxPoolGradGrad, WINDOW),
    "MaxPoolWithArgmax": lambda x: tf.nn.max_pool_with_argmax(x, 2, 1, "SAME")[0],
    "ResizeBilinear": lambda x: tf.raw_ops.ResizeBilinear(images=tf.cast(x, tf.float32), size=SIZE),
    "ResizeNearestNeighbor": lambda x: tf.raw_ops.ResizeNearestNeighbor(images=x, size=SIZE),
    "SpaceToDepth": lambda x: tf.nn.space_to_depth(x, 2),
}
SINGLE_IMAGES = {
    "CropAndResize": cropped,
    "FractionalMaxPool": lambda x: tf.nn.fractional_max_pool(x, 1.5, True, True, seed=3)[0],
    "LRN": lambda x: tf.nn.local_response_normalization(x, 1),
    "LRNGrad": tf.recompute_grad(lambda x: tf.nn.local_response_normalization(x, 1)),
    "ResizeArea": doubled_in_size,
    "ResizeBicubic": lambda x: tf.raw_ops.ResizeBicubic(images=x, size=SIZE),
    "ResizeBicubicGrad": resized_grad(tf.raw_ops.ResizeBicubic),
    "ResizeBilinearGrad": resized_grad(tf.raw_ops.ResizeBilinear),
    "ResizeNearestNeighborGrad": resized_grad(tf.raw_ops.ResizeNearestNeighbor),
    "ScaleAndTranslate": lambda x: tf.raw_ops.ScaleAndTranslate(
        images=x, size=SIZE, scale=tf.constant([1.2, 0.9]), translation=tf.constant([0.1, 0.3])
    ),
}
VOLUMES = {
    "AvgPool3D": lambda x: tf.nn.avg_pool3d(x, 2, 1, "SAME"),
    "AvgPool3DGrad": lambda x: tf.raw_ops.AvgPool3DGrad(orig_input_shape=tf.shape(x), grad=x, **WINDOW_3D),
    "Conv3D": lambda x: tf.nn.conv3d(x, KERNEL_3D, [1] * 5, "SAME"),
    "Conv3DBackpropInputV2": transposed(tf.raw_ops.Conv3DBackpropInputV2, UP_3D, [3, 5, 5], padding="VALID"),
    "ExtractVolumePatches": lambda x: tf.extract_volume_patches(x, [1, 2, 2, 2, 1], [1] * 5, "VALID"),
    "MaxPool3D": lambda x: tf.nn.max_pool3d(x, 2, 1, "SAME"),
    "MaxPool3DGrad": max_pool_grad_3d,
    "MaxPool3DGradGrad": second_of(tf.raw_ops.MaxPool3DGradGrad, WINDOW_3D),
}
SPATIAL = [Case(name, function, IMAGE) for name, function in IMAGES.items()]
SPATIAL += [Case(name, function, IMAGE, single=True) for name, function in SINGLE_IMAGES.items()]
SPATIAL += [Case(name, function, VOLUME, single="Pool" in name) for name, function in VOLUMES.items()]


def normalised(op, training):
    vectors = {key: tf.constant(value) for key, value in (("scale", [0.5, 2.0]), ("offset", [0.1, -1.0]))}
    fixed = {"mean": tf.constant([0.3, 0.1]), "variance": tf.constant([1.5, 0.7])}
    fixed = dict.fromkeys(fixed, tf.zeros([0])) if training else fixed
    return lambda x: op(x=x, **vectors, **fixed, is_training=training)[0]


NORMALISATIONS = {
    name: getattr(tf.raw_ops, name) for name in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
}
LABELS = tf.nn.softmax(constant(3, 4))


def cross_entropy(x):
    return tf.nn.softmax_cross_entropy_with_logits(LABELS, x) + tf.nn.softmax_cross_entropy_with_logits(
        tf.nn.softmax(x), tf.sin(x)
    )


def sparse_cross_entropy(x):
    return tf.nn.sparse_softmax_cross_entropy_with_logits([1, 0, 3], x)


def reduced(op, axis, keep=False):
    return lambda x: op(input=positive(x), axis=axis, keep_dims=keep)


REDUCTIONS = {name: getattr(tf.raw_ops, name) for name in ("Sum", "Mean", "Max", "Min", "Prod", "EuclideanNorm")}
SCANS = {
    "Cumsum": lambda x, axis: tf.cumsum(x, axis),
    "Cumprod": lambda x, axis: tf.math.cumprod(positive(x), axis),
    "CumulativeLogsumexp": lambda x, axis: tf.math.cumulative_logsumexp(x, axis),
    "ReverseV2": lambda x, axis: tf.reverse(x, [axis]) * x,
    "Roll": lambda x, axis: tf.roll(x, 1, axis % x.shape.rank) * x,
}
IDS = tf.constant([0, 0, 1, 3])


def segmented(op, ids=IDS):
    return lambda x: tf.ensure_shape(op(data=positive(x), segment_ids=ids), [4, *x.shape[1:]])


def unsorted(op):
    return lambda x: op(data=positive(x), segment_ids=tf.constant([2, 0, 2, 1]), num_segments=4)


SEGMENTS = {"Segment" + name: segmented(getattr(tf.raw_ops, "Segment" + name)) for name in
            ("Sum", "Mean", "Prod", "Max", "Min")}  # fmt: skip
SEGMENTS |= {"UnsortedSegment" + name: unsorted(getattr(tf.raw_ops, "UnsortedSegment" + name)) for name in
             ("Sum", "Prod", "Max", "Min")}  # fmt: skip


def sparse_segments(name):
    """Rows 1, 2, 0, 1 of the data, the first two and the last two added up."""
    op, number = getattr(tf.raw_ops, "SparseSegment" + name), {}
    if name.endswith("NumSegments"):
        number = {"num_segments": 4}
    ids = {"indices": tf.constant([1, 2, 0, 1]), "segment_ids": tf.constant([0, 0, 1, 2])}
    return lambda x: tf.ensure_shape(op(data=x, **ids, **number), [4 if number else 3, *x.shape[1:]])


SPARSE = [kind + ending for kind in ("Sum", "Mean", "SqrtN") for ending in ("", "WithNumSegments")]


def of_table(name):
    """Segments of rows of a table, one segment for each example."""
    op = getattr(tf.raw_ops, "SparseSegment" + name)
    number = {"num_segments": 3} if name.endswith("NumSegments") else {}
    ids = {"indices": tf.constant([1, 2, 0, 1]), "segment_ids": tf.constant([0, 0, 1, 2])}
    return lambda x, table: x * tf.ensure_shape(op(data=tf.gather(table, [1, 0, 2, 4]), **ids, **number), [3, 4])


APART = [
    *SPATIAL,
    *(Case(name, normalised(op, False), IMAGE, single=True) for name, op in NORMALISATIONS.items()),
    Case("Softmax, LogSoftmax", lambda x: tf.nn.softmax(x) + tf.nn.log_softmax(x)),
    Case("Softmax, LogSoftmax behind", behind(lambda x: tf.nn.softmax(x) + tf.nn.log_softmax(x)), (2, 4)),
    Case("cross-entropy", cross_entropy),
    Case("sparse cross-entropy", sparse_cross_entropy),
    *(Case(name, reduced(op, [-1])) for name, op in REDUCTIONS.items()),
    *(Case(name + " kept", behind(reduced(op, [0, 2], True)), (2, 4)) for name, op in REDUCTIONS.items()),
    *(
        Case(name + " behind", behind(lambda x, op=op: reduced(op, [0])(x)[None]), (2, 4))
        for name, op in REDUCTIONS.items()
    ),
    *(Case(name, lambda x, f=function: f(x, -1)) for name, function in SCANS.items()),
    *(Case(name + " behind", behind(lambda x, f=function: f(x, 0)), (2, 4)) for name, function in SCANS.items()),
    *(Case(name + " behind", behind(function), (4, 2)) for name, function in SEGMENTS.items()),
    Case(
        "UnsortedSegmentSum by ids of rank 2, behind",
        behind(lambda x: tf.math.unsorted_segment_sum(tf.reshape(x, [2, 2, N, 2]), [[2, 0], [1, 2]], 4)),
        (4, 2),
    ),
    *(
        Case("SparseSegment" + name + " behind", behind(sparse_segments(name)), (4, 2)) for name in SPARSE
    ),  # TensorFlow's vectoriser gets that wrong
    *(Case("SparseSegment" + name + " of a table", of_table(name), (4,), ((5, 4),), refused=True) for name in SPARSE),
]

UP_ALONG = {
    "Conv2DBackpropInput": (transposed(tf.raw_ops.Conv2DBackpropInput, UP, [3, 4], padding="SAME"), (2, 4, 2)),
    "Conv3DBackpropInputV2": (
        transposed(tf.raw_ops.Conv3DBackpropInputV2, UP_3D, [3, 4, 4], padding="SAME"),
        (2, 4, 4, 2),
    ),
    "DepthwiseConv2dNativeBackpropInput": (
        transposed(tf.raw_ops.DepthwiseConv2dNativeBackpropInput, UP_DEPTHWISE, [3, 4], padding="SAME"),
        (2, 4, 2),
    ),
}
ELSEWHERE = {*UP_ALONG, "LRN", "LRNGrad", "SpaceToDepth"}

MIXING = [
    *(
        Case(case.name, behind(case.function), (2, *case.shape[1:]), single=case.single)
        for case in SPATIAL
        if case.name not in ELSEWHERE
    ),
    *(Case(name, last(SINGLE_IMAGES[name]), (2, 4, 4), single=True) for name in ("LRN", "LRNGrad")),
    *(Case(name, behind(function), shape) for name, (function, shape) in UP_ALONG.items()),
    *(Case(name, normalised(op, True), IMAGE, single=True) for name, op in NORMALISATIONS.items()),
    Case(
        "CropAndResize by index",
        lambda x: tf.image.crop_and_resize(x, [[0.0, 0.0, 0.9, 1.0]] * N, [0, 2, 1], SIZE),
        IMAGE,
        single=True,
    ),
    Case("Softmax", last(tf.nn.softmax)),
    Case("LogSoftmax", last(lambda x: tf.raw_ops.LogSoftmax(logits=x))),
    Case(
        "SoftmaxCrossEntropyWithLogits",
        lambda x: x * tf.nn.softmax_cross_entropy_with_logits(tf.transpose(tf.nn.softmax(LABELS)), tf.transpose(x))[:1],
    ),
    *(Case(name, lambda x, op=op: x - reduced(op, [0], True)(x)) for name, op in REDUCTIONS.items()),
    *(Case(name, lambda x, f=function: f(x, 0)) for name, function in SCANS.items()),
    *(
        Case(name, lambda x, f=op: f(data=x, segment_ids=tf.constant([0, 0, 2])))
        for name, op in ((name, getattr(tf.raw_ops, name)) for name in SEGMENTS if name.startswith("Segment"))
    ),
    *(
        Case(name, lambda x, f=op: f(data=x, segment_ids=tf.constant([1, 1, 0]), num_segments=3))
        for name, op in ((name, getattr(tf.raw_ops, name)) for name in SEGMENTS if name.startswith("Unsorted"))
    ),
    *(Case("SparseSegment" + name, lambda x, name=name: sparse_segments(name)(x)[:3] * x) for name in SPARSE),
]
