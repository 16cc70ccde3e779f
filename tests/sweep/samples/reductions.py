"""Sums and their like, over some axes or all, sorted or accumulated."""

import tensorflow as tf

from tests.sweep.samples.table import constant, distinct, normal, sample, uniform

REDUCTIONS = {
    "reduce_sum": tf.reduce_sum,
    "reduce_mean": tf.reduce_mean,
    "reduce_prod": tf.reduce_prod,
    "reduce_max": tf.reduce_max,
    "reduce_min": tf.reduce_min,
    "reduce_logsumexp": tf.reduce_logsumexp,
    "reduce_euclidean_norm": tf.math.reduce_euclidean_norm,
    "reduce_variance": tf.math.reduce_variance,
    "reduce_std": tf.math.reduce_std,
    "norm": tf.norm,
}
for _name, _function in REDUCTIONS.items():
    sample(f"{_name}, all axes", _function, distinct(2, 3))
    for _axis in (0, -1, [0, 2], []):
        if _axis == [] and _name in ("norm", "reduce_std"):
            continue
        sample(f"{_name}, axis={_axis}", lambda x, f=_function, axis=_axis: f(x, axis=axis), distinct(2, 3, 2))
    sample(f"{_name}, keepdims", lambda x, f=_function: f(x, axis=-2, keepdims=True), distinct(2, 3, 2))

sample("reduce_prod with a zero", lambda x: tf.reduce_prod(x, 1), constant([[1.5, 0, 2], [0.5, 1, 3]]))
sample("reduce_max with ties", lambda x: tf.reduce_max(tf.stack([x, x + 0 * x[:1]]), 0), distinct(3))
sample("norm, order 1", lambda x: tf.norm(x, 1, axis=-1), normal(2, 3))
sample("norm, order inf", lambda x: tf.norm(x, float("inf"), axis=-1), distinct(2, 3))
sample("norm, order 3", lambda x: tf.norm(x, 3, axis=-1), normal(2, 3))
sample("norm, Frobenius", lambda x: tf.norm(x, "fro", axis=[-2, -1]), normal(2, 3, 2))
sample("l2_loss", tf.nn.l2_loss, normal(2, 3))
sample("l2_normalize", lambda x: tf.nn.l2_normalize(x, -1), normal(2, 3))
sample("moments", lambda x: tf.nn.moments(x, [0]), normal(3, 2))
sample("weighted_moments", lambda x, w: tf.nn.weighted_moments(x, [0], w * w), normal(3, 2), normal(3, 2))
sample("sufficient_statistics", lambda x: tf.nn.sufficient_statistics(x, [0])[1:3], normal(3, 2))
sample("normalize_moments", lambda x: tf.linalg.normalize(x, axis=1)[0], normal(3, 2))
sample(
    "zero_fraction apart",
    lambda x: tf.nn.zero_fraction(x) + tf.cast(tf.reduce_sum(x), tf.float32),
    normal(3, 2),
    single=True,
)

for _axis in (0, -1):
    for _options in ({}, {"exclusive": True}, {"reverse": True}, {"exclusive": True, "reverse": True}):
        _name = f"axis={_axis}" + "".join(f", {option}" for option in _options)
        for _kind in ("cumsum", "cumprod", "cumulative_logsumexp"):
            sample(
                f"{_kind}, {_name}",
                lambda x, f=getattr(tf.math, _kind), axis=_axis, o=_options: _where_finite(f(x, axis, **o)),
                normal(2, 3),
            )


def _where_finite(x):
    """The logarithm of an empty sum is none."""
    return tf.where(tf.math.is_finite(x), x, tf.zeros_like(x))


sample("cumprod with a zero", lambda x: tf.math.cumprod(x, 1), constant([[1.5, 0, 2], [0.5, 1, 3]]))

sample("sort", lambda x: tf.sort(x, -1), distinct(2, 4))
sample("sort along axis 0", lambda x: tf.sort(x, 0, direction="DESCENDING"), distinct(4, 2))
sample("top_k", lambda x: tf.math.top_k(x, 2)[0], distinct(2, 4))
sample("top_k of rank 1", lambda x: tf.math.top_k(x, 2)[0], distinct(4))
sample(
    "approx_max_k",
    lambda x: tf.cast(tf.math.approx_max_k(tf.cast(x, tf.float32), 2)[0], tf.float64),
    distinct(2, 4),
    single=True,
)
sample("NthElement", lambda x: tf.raw_ops.NthElement(input=x, n=1), distinct(2, 4))
sample("NthElement, reverse", lambda x: tf.raw_ops.NthElement(input=x, n=1, reverse=True), distinct(2, 4))
sample("reduce_max of a sort", lambda x: tf.reduce_max(tf.sort(x) * tf.range(4.0, dtype=x.dtype)), distinct(4))
sample(
    "softmax_cross_entropy",
    lambda x, p: tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(p), x),
    normal(2, 3),
    normal(2, 3),
)
sample(
    "softmax_cross_entropy, constant labels",
    lambda x: tf.nn.softmax_cross_entropy_with_logits(tf.constant([[0.2, 0.5, 0.3], [1, 0, 0]], x.dtype), x),
    normal(2, 3),
)
sample(
    "softmax_cross_entropy, broadcast labels",
    lambda x: tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=x, labels=tf.constant([[0.2, 0.5, 0.3]], x.dtype))[0],
    normal(2, 3),
)
sample(
    "sparse_softmax_cross_entropy",
    lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(tf.constant([0, 2]), x),
    normal(2, 3),
)
sample(
    "sigmoid_cross_entropy",
    lambda x, p: tf.nn.sigmoid_cross_entropy_with_logits(tf.sigmoid(p), x),
    normal(2, 3),
    normal(2, 3),
)
sample(
    "weighted_cross_entropy",
    lambda x, p: tf.nn.weighted_cross_entropy_with_logits(tf.sigmoid(p), x, tf.constant(2.0, x.dtype)),
    normal(2, 3),
    normal(2, 3),
)
sample(
    "log_poisson_loss",
    lambda x, y: tf.nn.log_poisson_loss(y * y, x, compute_full_loss=True),
    normal(2, 3),
    normal(2, 3),
)
sample("isotonic_regression", lambda x: tf.nn.isotonic_regression(x, axis=1)[0], distinct(2, 4))
sample(
    "confusion by histogram of weights",
    lambda x: tf.math.unsorted_segment_sum(x, tf.constant([0, 1, 1]), 2),
    uniform(1, 2, 3),
)
for _name in ("KLDivergence", "CosineSimilarity", "LogCosh", "Poisson", "BinaryCrossentropy"):
    sample(
        f"keras {_name}",
        lambda x, y, loss=tf.keras.losses.get(_name): loss(tf.sigmoid(y), tf.sigmoid(x)),
        normal(2, 3),
        normal(2, 3),
        single=True,
    )
sample("keras Huber", lambda x, y: tf.keras.losses.Huber(reduction=None)(y, x), normal(2, 3), normal(2, 3), single=True)
