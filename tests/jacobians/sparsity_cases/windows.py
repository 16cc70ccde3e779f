"""Cases of convolutions, pooling, and resized images."""

import tensorflow as tf

from tests.jacobians.sparsity_cases.building import (
    EDGES,
    LARGEST,
    RAW,
    Case,
    backwards,
    constant,
    gradient_of,
    image,
    row_by_row,
    single,
    together,
    volume,
)


def picture(x):
    return tf.reshape(x, [1, 4, 6, 1])


def by_size(op, size, **attributes):
    return lambda x: op(images=picture(x), size=size, **attributes)


def scaled(op, **inputs):
    return op(scale=[2.0, 1.5], translation=[0.5, -1.0], kernel_type="triangle", antialias=False, **inputs)


def resized(op, **attributes):
    """Up and down."""
    return together(*(by_size(op, size, **attributes) for size in ([5, 6], [3, 4])))


WINDOWS = {
    "conv1d": Case(
        lambda x: tf.nn.conv1d(tf.reshape(x, [2, 6, 2]), tf.ones([3, 2, 1], x.dtype) + x[0, 0], 2, "SAME"),
    ),
    "conv2d": Case(
        together(
            lambda x: tf.nn.conv2d(
                tf.reshape(tf.tile(x, [1, 3]), [1, 6, 6, 2]), constant(2, 2, 2, 3), 1, "VALID", dilations=2
            ),
            lambda x: tf.nn.conv2d(
                tf.reshape(x, [1, 2, 3, 4]), tf.ones([2, 2, 2, 4], x.dtype), 1, [[0, 0], [1, 0], [0, 1], [0, 0]]
            ),
        )
    ),
    "conv2d, kernel": Case(
        lambda x: tf.nn.conv2d(tf.ones([1, 4, 4, 2], x.dtype), tf.reshape(x, [2, 2, 2, 3]) ** 2, 1, "SAME"),
        larger=EDGES,
    ),
    "conv2d_transpose": Case(
        together(
            lambda x: tf.nn.conv2d_transpose(image(x), constant(2, 2, 3, 2), [1, 8, 6, 3], 2),
            lambda x: tf.nn.conv2d_transpose(
                tf.ones([1, 4, 3, 2], x.dtype), tf.reshape(x, [2, 2, 3, 2]), [1, 8, 6, 3], 2
            ),
        ),
        larger=EDGES,
    ),
    "depthwise": Case(
        together(
            lambda x: tf.nn.depthwise_conv2d(image(x), constant(2, 2, 2, 2), [1, 1, 1, 1], "SAME"),
            lambda x: tf.nn.depthwise_conv2d_backprop_input(
                [1, 4, 3, 2], constant(2, 2, 2, 1), image(x), [1, 1, 1, 1], "SAME"
            ),
            lambda x: tf.nn.depthwise_conv2d(
                tf.ones([1, 2, 2, 3], x.dtype), tf.reshape(x, [2, 2, 3, 2]), [1, 1, 1, 1], "VALID"
            ),
        )
    ),
    "conv3d": Case(
        together(
            lambda x: tf.nn.conv3d(volume(x), constant(2, 2, 1, 2, 3), [1] * 5, "SAME"),
            lambda x: tf.nn.conv3d_transpose(volume(x), constant(1, 2, 2, 3, 2), [1, 2, 3, 2, 3], [1] * 5, "SAME"),
        )
    ),
    "avg_pool": Case(
        together(
            lambda x: tf.nn.avg_pool2d(image(x), 2, 2, "SAME"),
            single(lambda x: tf.nn.avg_pool3d(volume(x), 2, 1, "SAME")),
            gradient_of(lambda x: tf.nn.avg_pool2d(image(x), 2, 2, "SAME")),
            gradient_of(single(lambda x: tf.nn.avg_pool3d(volume(x), 2, 1, "SAME"))),
        ),
        by_rows=True,
    ),
    "max_pool": Case(
        together(
            lambda x: tf.nn.max_pool2d(image(x), 2, 2, "SAME"),
            single(lambda x: tf.nn.max_pool3d(volume(x), 2, 1, "SAME")),
            lambda x: tf.nn.max_pool_with_argmax(image(x), 2, 2, "SAME")[0],
            gradient_of(lambda x: tf.nn.max_pool2d(image(x), 2, 2, "SAME")),
            gradient_of(single(lambda x: tf.nn.max_pool3d(volume(x), 2, 1, "SAME"))),
        ),
        by_rows=True,
        larger=LARGEST,
    ),
    "bilinear": Case(
        single(together(resized(RAW.ResizeBilinear), resized(RAW.ResizeBilinear, half_pixel_centers=True))),
        by_rows=True,
    ),
    "bicubic": Case(
        single(together(resized(RAW.ResizeBicubic), resized(RAW.ResizeBicubic, align_corners=True))), by_rows=True
    ),
    "nearest": Case(single(resized(RAW.ResizeNearestNeighbor)), by_rows=True),
    "scaled": Case(single(lambda x: scaled(RAW.ScaleAndTranslate, images=picture(x), size=[5, 7])), by_rows=True),
    "scaled with antialias": Case(
        single(lambda x: tf.image.resize(picture(x), [2, 3], "lanczos3", antialias=True)), by_rows=True
    ),
    "resized, backwards": Case(
        backwards(
            row_by_row(
                *(
                    lambda dy, op=op: tf.reshape(
                        single(lambda each: op(picture(each), tf.zeros([1, 3, 8, 1])))(dy), [4, 6]
                    )
                    for op in (
                        lambda grads, like: RAW.ResizeBilinearGrad(grads=grads, original_image=like),
                        lambda grads, like: RAW.ResizeBicubicGrad(grads=grads, original_image=like),
                        lambda grads, like: RAW.ResizeNearestNeighborGrad(grads=grads, size=[3, 8]),
                        lambda grads, like: RAW.ResizeArea(images=grads, size=[3, 8]),
                        lambda grads, like: scaled(RAW.ScaleAndTranslateGrad, grads=grads, original_image=like),
                    )
                )
            )
        ),
        shape=(5, 4, 6),
        by_rows=True,
    ),
}
