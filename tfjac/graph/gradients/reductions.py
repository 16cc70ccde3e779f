"""Norms, extremes of segments, products: gradients with divisions by zero, or logarithms, that none of them needs."""

import tensorflow as tf

from tfjac.graph.gradients.registry import differentiated_as, gradient


@gradient("EuclideanNorm")
def _euclidean_norm(op, cotangent):
    """u·x/‖x‖; TensorFlow divides by ‖x‖/u, which has no derivative at u = 0."""
    x, axes = op.inputs
    return x * _kept(cotangent / op.outputs[0], x, axes), None


def _kept(reduced, x, axes):
    """What a reduction of x over `axes` gave, with those axes of size one."""
    places = tf.math.floormod(tf.reshape(axes, [-1, 1]), tf.cast(tf.rank(x), axes.dtype))
    ones = tf.ones_like(places[:, 0], tf.int32)
    return tf.reshape(reduced, tf.tensor_scatter_nd_update(tf.shape(x), places, ones))


@gradient("SegmentMean")
def _segment_mean(op, cotangent):
    """TensorFlow divides by the size of a segment also where that is zero."""
    ids = op.inputs[1]
    counts = tf.math.segment_sum(tf.ones_like(ids, cotangent.dtype), ids)
    return tf.gather(_per_row(tf.math.divide_no_nan, cotangent, counts), ids), None


def _per_row(function, tensor, row):
    ones = tf.ones([tf.rank(tensor) - 1], tf.int32)
    return function(tensor, tf.reshape(row, tf.concat([tf.shape(row), ones], 0)))


@gradient("SegmentMax", "SegmentMin")
def _segment_extreme(op, cotangent):
    """Shared equally by all that are the extreme one; TensorFlow divides by their number, which may be zero."""
    x, ids = op.inputs
    chosen = tf.equal(x, tf.gather(op.outputs[0], ids))
    counts = tf.math.segment_sum(tf.cast(chosen, cotangent.dtype), ids)
    shares = tf.gather(tf.math.divide_no_nan(cotangent, counts), ids)
    return tf.where(chosen, shares, tf.zeros_like(shares)), None


@gradient("UnsortedSegmentMax", "UnsortedSegmentMin")
def _unsorted_segment_extreme(op, cotangent):
    """The same; elements with a negative id belong to no segment."""
    x, ids, num_segments = op.inputs
    belongs = ids >= 0
    places = tf.where(belongs, ids, tf.zeros_like(ids))
    trailing = tf.ones([tf.rank(x) - tf.rank(ids)], tf.int32)
    chosen = tf.equal(x, tf.gather(op.outputs[0], places)) & tf.reshape(
        belongs, tf.concat([tf.shape(ids), trailing], 0)
    )
    counts = tf.math.unsorted_segment_sum(tf.cast(chosen, cotangent.dtype), ids, num_segments)
    shares = tf.gather(tf.math.divide_no_nan(cotangent, counts), places)
    return tf.where(chosen, shares, tf.zeros_like(shares)), None, None


@differentiated_as("Cumprod")
def _cumprod(op, x, axis):
    """Exact at zeros, where TensorFlow divides by x."""
    return _accumulated(op, x, axis, tf.multiply)


@differentiated_as("CumulativeLogsumexp")
def _cumulative_logsumexp(op, x, axis):
    """Linear in what flows back, where TensorFlow takes its logarithm."""
    return _accumulated(op, x, axis, lambda x, y: y + tf.nn.softplus(x - y))


def _accumulated(op, x, axis, combine):
    """What an op accumulates along an axis, by doubling distances (Hillis & Steele 1986).

    Where `op` excludes the element itself the first result is a constant, here zero whichever it is.
    """
    axis = tf.math.floormod(axis, tf.cast(tf.rank(x), axis.dtype))
    whole = _first(x, axis)
    whole = tf.reverse(whole, [0]) if op.get_attr("reverse") else whole
    results = whole[:-1] if op.get_attr("exclusive") else whole
    known, length = results.shape[0], tf.shape(results)[0]
    for k in range(31 if known is None else max(known - 1, 0).bit_length()):
        by = tf.minimum(1 << k, length)
        combined = tf.concat([results[:by], combine(results[by:], results[: length - by])], 0)
        results = tf.ensure_shape(combined, results.shape)
    results = tf.concat([tf.zeros_like(whole[:1]), results], 0) if op.get_attr("exclusive") else results
    results = tf.reverse(results, [0]) if op.get_attr("reverse") else results
    return _first(results, axis, back=True)


def _first(x, axis, back=False):
    """Bring `axis` to the front, or back from there."""
    before, behind = tf.range(axis), tf.range(axis + 1, tf.rank(x))
    order = tf.concat([axis[None], before, behind], 0)
    return tf.transpose(x, tf.math.invert_permutation(order) if back else order)
