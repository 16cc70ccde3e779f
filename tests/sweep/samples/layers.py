"""What networks are made of: convolutions, pooling, normalisation, recurrence, losses over sequences."""

import tensorflow as tf

from tests.sweep.samples.table import SAMPLES, distinct, normal, sample, uniform

nn, raw = tf.nn, tf.raw_ops

for _padding in ("SAME", "VALID"):
    for _stride in (1, 2):
        _where = f"{_padding}, stride {_stride}"
        sample(
            f"conv1d, {_where}",
            lambda x, k, p=_padding, s=_stride: nn.conv1d(x, k, s, p),
            normal(2, 5, 2),
            normal(3, 2, 2),
        )
        sample(
            f"conv2d, {_where}",
            lambda x, k, p=_padding, s=_stride: nn.conv2d(x, k, s, p),
            normal(2, 4, 3, 2),
            normal(2, 2, 2, 2),
        )
        sample(
            f"conv3d, {_where}",
            lambda x, k, p=_padding, s=_stride: nn.conv3d(x, k, [1, s, s, s, 1], p),
            normal(2, 3, 2, 3, 2),
            normal(2, 1, 2, 2, 2),
        )
        sample(
            f"depthwise_conv2d, {_where}",
            lambda x, k, p=_padding, s=_stride: nn.depthwise_conv2d(x, k, [1, s, s, 1], p),
            normal(2, 4, 3, 2),
            normal(2, 2, 2, 2),
        )
        sample(f"avg_pool2d, {_where}", lambda x, p=_padding, s=_stride: nn.avg_pool2d(x, 2, s, p), normal(2, 4, 3, 2))
        sample(
            f"max_pool2d, {_where}", lambda x, p=_padding, s=_stride: nn.max_pool2d(x, 2, s, p), distinct(2, 4, 3, 2)
        )
        sample(
            f"avg_pool3d, {_where}", lambda x, p=_padding, s=_stride: nn.avg_pool3d(x, 2, s, p), normal(2, 3, 2, 3, 2)
        )
        sample(
            f"max_pool3d, {_where}", lambda x, p=_padding, s=_stride: nn.max_pool3d(x, 2, s, p), distinct(2, 3, 2, 3, 2)
        )
        sample(f"max_pool1d, {_where}", lambda x, p=_padding, s=_stride: nn.max_pool1d(x, 2, s, p), distinct(2, 5, 2))
        sample(
            f"dilation2d, {_where}",
            lambda x, k, p=_padding, s=_stride: nn.dilation2d(x, k, [1, s, s, 1], p, "NHWC", [1, 1, 1, 1]),
            distinct(1, 4, 3, 2),
            normal(2, 2, 2),
        )
sample(
    "conv2d with paddings",
    lambda x, k: nn.conv2d(x, k, 1, [[0, 0], [1, 0], [0, 2], [0, 0]]),
    normal(2, 4, 3, 2),
    normal(2, 2, 2, 2),
)
sample("conv2d, dilated", lambda x, k: nn.convolution(x, k, dilations=2), normal(2, 5, 4, 2), normal(2, 2, 2, 2))
sample(
    "conv2d, dilations of the op",
    lambda x, k: nn.conv2d(x, k, 1, "SAME", dilations=2),
    normal(2, 5, 4, 2),
    normal(2, 2, 2, 2),
)
sample("conv2d, grouped", lambda x, k: nn.conv2d(x, k, 1, "SAME"), normal(2, 3, 3, 4), normal(2, 2, 2, 4))
sample(
    "conv3d, dilated",
    lambda x, k: nn.convolution(x, k, dilations=[1, 2, 1]),
    normal(1, 2, 4, 2, 2),
    normal(1, 2, 2, 2, 2),
)
sample(
    "conv2d of one example and one channel",
    lambda x, k: nn.conv2d(x, k, 1, "SAME"),
    normal(1, 3, 3, 1),
    normal(2, 2, 1, 1),
)
sample(
    "conv1d_transpose", lambda x, k: nn.conv1d_transpose(x, k, [2, 5, 2], 2, "SAME"), normal(2, 3, 2), normal(3, 2, 2)
)
sample(
    "conv2d_transpose",
    lambda x, k: nn.conv2d_transpose(x, k, [2, 4, 4, 2], 2, "SAME"),
    normal(2, 2, 2, 3),
    normal(2, 2, 2, 3),
)
sample(
    "conv3d_transpose",
    lambda x, k: nn.conv3d_transpose(x, k, [2, 4, 2, 2, 2], [2, 1, 1], "SAME"),
    normal(2, 2, 2, 2, 2),
    normal(2, 1, 2, 2, 2),
)
sample(
    "separable_conv2d",
    lambda x, k, p: nn.separable_conv2d(x, k, p, [1, 1, 1, 1], "SAME"),
    normal(2, 3, 3, 2),
    normal(2, 2, 2, 2),
    normal(1, 1, 4, 2),
)
sample(
    "depthwise_conv2d, dilated",
    lambda x, k: nn.depthwise_conv2d(x, k, [1] * 4, "SAME", dilations=[2, 2]),
    normal(2, 4, 4, 2),
    normal(2, 2, 2, 2),
)
sample(
    "erosion2d",
    lambda x, k: nn.erosion2d(x, k, [1] * 4, "SAME", "NHWC", [1] * 4),
    distinct(1, 4, 3, 2),
    normal(2, 2, 2),
)
sample("pool, dilated", lambda x: nn.pool(x, [2, 2], "AVG", dilations=[2, 1], padding="VALID"), normal(1, 4, 3, 2))
sample("max_pool_with_argmax", lambda x: nn.max_pool_with_argmax(x, 2, 2, "SAME")[0], distinct(2, 4, 3, 2))
sample(
    "max_pool_with_argmax, batch in index",
    lambda x: nn.max_pool_with_argmax(x, 2, 2, "SAME", include_batch_in_index=True)[0],
    distinct(2, 4, 3, 2),
)
sample(
    "MaxPoolV2",
    lambda x: raw.MaxPoolV2(input=x, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="VALID"),
    distinct(2, 4, 3, 2),
)
sample(
    "max_pool2d with paddings", lambda x: nn.max_pool2d(x, 2, 2, [[0, 0], [1, 0], [0, 1], [0, 0]]), distinct(2, 4, 3, 2)
)
sample("fractional_max_pool", lambda x: nn.fractional_max_pool(x, [1, 1.4, 1.4, 1], seed=3)[0], distinct(2, 5, 5, 2))
sample("fractional_avg_pool", lambda x: nn.fractional_avg_pool(x, [1, 1.4, 1.4, 1], seed=3)[0], normal(2, 5, 5, 2))

sample("bias_add", lambda x, b: nn.bias_add(x, b), normal(2, 3), normal(3))
sample("bias_add of rank 4", lambda x, b: nn.bias_add(x, b), normal(2, 2, 2, 3), normal(3))
sample("bias_add, channels first", lambda x, b: nn.bias_add(x, b, "NCHW"), normal(2, 3, 2, 2), normal(3))
sample("bias_add, channels first, rank 3", lambda x, b: nn.bias_add(x, b, "NC..."), normal(2, 3, 2), normal(3))
sample("bias_add, channels first, rank 5", lambda x, b: nn.bias_add(x, b, "NC..."), normal(2, 3, 2, 1, 2), normal(3))
sample("BiasAddV1", lambda x, b: raw.BiasAddV1(value=x, bias=b), normal(2, 3), normal(3))
sample(
    "batch_normalization",
    lambda x, g, b: nn.batch_normalization(x, *nn.moments(x, [0]), b, g, 1e-2),
    normal(4, 2),
    normal(2),
    normal(2),
)
sample(
    "layer normalisation",
    lambda x: (x - tf.reduce_mean(x, -1, keepdims=True)) / tf.math.reduce_std(x, -1, keepdims=True),
    normal(2, 4),
)
for _training in (True, False):
    for _title, _format in (("", "NHWC"), (", channels first", "NCHW")):
        sample(
            f"fused batch norm{_title}, training={_training}",
            lambda x, s, o, t=_training, data_format=_format: _single(
                lambda x, s, o: tf.compat.v1.nn.fused_batch_norm(
                    x,
                    s,
                    o,
                    None if t else tf.constant([0.1, 0.2]),
                    None if t else tf.constant([1.5, 2.0]),
                    1e-2,
                    data_format,
                    is_training=t,
                )[0],
                x,
                s,
                o,
            ),
            normal(3, 2, 2, 2),
            normal(2),
            normal(2),
            single=True,
        )
sample("lrn", lambda x: _single(lambda x: nn.lrn(x, 1, 1.0, 0.5), x), normal(1, 2, 2, 4), single=True)
sample(
    "BatchNormWithGlobalNormalization",
    lambda x, m, v, b, g: _single(
        lambda *parts: raw.BatchNormWithGlobalNormalization(
            t=parts[0],
            m=parts[1],
            v=parts[2],
            beta=parts[3],
            gamma=parts[4],
            variance_epsilon=1e-2,
            scale_after_normalization=True,
        ),
        x,
        m,
        v,
        b,
        g,
    ),
    normal(2, 2, 2, 2),
    normal(2),
    uniform(1, 2, 2),
    normal(2),
    normal(2),
    single=True,
)
sample("stateless_dropout", lambda x: nn.experimental.stateless_dropout(x, 0.5, [1, 2]), normal(3, 4))
sample("crelu", nn.crelu, normal(2, 3))
sample(
    "attention",
    lambda q, k, v: tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), v),
    normal(2, 3, 2),
    normal(2, 4, 2),
    normal(2, 4, 2),
)


def _single(function, *tensors):
    return tf.cast(function(*(tf.cast(tensor, tf.float32) for tensor in tensors)), tf.float64)


def _labels():
    return tf.constant([[1, 2], [2, 0]]), tf.constant([2, 1]), tf.constant([4, 3])


sample(
    "ctc_loss, dense labels",
    lambda x: _single(lambda x: nn.ctc_loss(_labels()[0], x, _labels()[1], _labels()[2], blank_index=0), x),
    normal(4, 2, 3),
    single=True,
)
sample(
    "ctc_loss, sparse labels",
    lambda x: _single(lambda x: tf.compat.v1.nn.ctc_loss(tf.sparse.from_dense(_labels()[0] - 0), x, _labels()[2]), x),
    normal(4, 2, 4),
    single=True,
)
sample(
    "CTCLoss of doubles",
    lambda x: raw.CTCLoss(
        inputs=x, labels_indices=tf.constant([[0, 0], [1, 0]], tf.int64), labels_values=[1, 2], sequence_length=[4, 3]
    )[0],
    normal(4, 2, 4),
    single=True,
)
sample(
    "BlockLSTMV2",
    lambda x, w: _single(
        lambda x, w: raw.BlockLSTMV2(
            seq_len_max=3,
            x=x,
            cs_prev=tf.zeros([2, 2]),
            h_prev=tf.zeros([2, 2]),
            w=w,
            wci=tf.zeros([2]),
            wcf=tf.zeros([2]),
            wco=tf.zeros([2]),
            b=tf.zeros([8]),
        )[6],
        x,
        w,
    ),
    normal(3, 2, 2),
    normal(4, 8),
    single=True,
)
sample(
    "fake_quant_with_min_max_args",
    lambda x: _single(lambda x: tf.quantization.fake_quant_with_min_max_args(x, -3, 3, 8) + x * x, x),
    uniform(4, 5, 3),
    single=True,
)
sample(
    "fake_quant_with_min_max_vars, outside",
    lambda x, low, high: _single(
        lambda x, low, high: tf.quantization.fake_quant_with_min_max_vars(x, low, high, 16), x, low, high
    ),
    uniform(2, 3, 3),
    uniform(-1.0, -0.9),
    uniform(0.9, 1.0),
    single=True,
)
sample(
    "quantize_and_dequantize_v2, straight through",
    lambda x: x * x + 0 * tf.quantization.quantize_and_dequantize_v2(x, -9.0, 9.0, range_given=True),
    normal(3),
)
sample(
    "random_gamma, its parameter",
    lambda a: tf.random.stateless_gamma([3], [1, 2], a, dtype=tf.float64),
    uniform(1, 2, 3),
    random=True,
)
sample(
    "random_gamma, batched",
    lambda a: tf.random.stateless_gamma([3, 2], [1, 2], a, dtype=tf.float64),
    uniform(1, 2, 2),
    random=True,
)
sample(
    "stateless_parameterized_truncated_normal",
    lambda m, s: tf.random.stateless_parameterized_truncated_normal([3], [1, 2], m, s, m - 2 * s, m + 2 * s),
    normal(3),
    uniform(1, 2, 3),
    random=True,
)
# Many rows and few columns, and the sizes of one that some kernels take for other things.
sample(
    "avg_pool3d, float32",
    lambda x: _single(lambda x: nn.avg_pool3d(x, 2, 1, "SAME"), x),
    normal(1, 2, 2, 3, 2),
    single=True,
)
sample(
    "max_pool3d, one place, float32",
    lambda x: _single(lambda x: nn.max_pool3d(x, 2, 1, "SAME"), x),
    distinct(1, 2, 2, 3, 2),
    single=True,
)

# In single precision convolutions and pooling are other kernels, those of oneDNN on most processors.
for _name, _sample in list(SAMPLES.items()):
    if _sample.function.__module__ == __name__ and not (_sample.single or _sample.random):
        sample(
            f"{_name}, float32",
            lambda *xs, f=_sample.function: tf.nest.map_structure(
                lambda y: tf.cast(y, tf.float64), f(*(tf.cast(x, tf.float32) for x in xs))
            ),
            *_sample.draws,
            single=True,
        )
