"""Writes to the same place twice: the one that is overwritten has no gradient.

TensorFlow gives each of them the gradient of what stands there in the end. Which one stands there, the op itself is
asked: it writes their numbers in the same way.
"""

import tensorflow as tf

from tfjac.graph.gradients.registry import gradient
from tfjac.graph.static_values import static_value


def _may_repeat(indices):
    """Whether a row of `[k, depth]` indices may occur twice, as far as the graph tells."""
    known = static_value(indices)
    return known is None or len({tuple(row) for row in known.reshape(-1, known.shape[-1])}) < known[..., 0].size


@gradient("TensorScatterUpdate", when=lambda op, ops: _may_repeat(op.inputs[1]))
def _scatter_update(op, cotangent):
    tensor, indices, updates = op.inputs
    depth = tf.shape(indices)[-1]
    count = tf.reduce_prod(tf.shape(indices)[:-1])
    numbers = tf.reshape(tf.range(count), tf.shape(indices)[:-1])
    places = tf.zeros(tf.shape(tensor)[:depth], numbers.dtype)
    stands = tf.equal(tf.gather_nd(tf.tensor_scatter_nd_update(places, indices, numbers), indices), numbers)
    rest = tf.tensor_scatter_nd_update(cotangent, indices, tf.zeros_like(updates))
    return rest, None, _where_first_axes(stands, tf.gather_nd(cotangent, indices))


def _stitches_may_repeat(op, ops):
    known = [static_value(indices) for indices in op.inputs[: len(op.inputs) // 2]]
    if any(value is None for value in known):
        return True
    together = [index for value in known for index in value.reshape(-1).tolist()]
    return len(set(together)) < len(together)


@gradient("DynamicStitch", "ParallelDynamicStitch", when=_stitches_may_repeat)
def _stitch(op, cotangent):
    cotangent = tf.convert_to_tensor(cotangent)
    indices = op.inputs[: len(op.inputs) // 2]
    sizes = tf.stack([tf.size(each) for each in indices])
    firsts = tf.cumsum(sizes, exclusive=True)
    numbers = [tf.reshape(tf.range(tf.size(each)) + firsts[k], tf.shape(each)) for k, each in enumerate(indices)]
    write = getattr(tf.raw_ops, op.type)
    written = write(indices=indices, data=numbers)
    parts = [
        _where_first_axes(tf.equal(tf.gather(written, each), own), tf.gather(cotangent, each))
        for each, own in zip(indices, numbers)
    ]
    return [None] * len(indices) + parts


def _where_first_axes(mask, tensor):
    """Zeros where `mask`, of the first axes of `tensor`, is false."""
    trailing = tf.ones([tf.rank(tensor) - tf.rank(mask)], tf.int32)
    return tf.where(tf.reshape(mask, tf.concat([tf.shape(mask), trailing], 0)), tensor, tf.zeros_like(tensor))


@gradient("TensorListGather")
def _list_gather(op, cotangent):
    """An element that is read twice gets the sum: TensorFlow gives it the last."""
    handle, indices, element_shape = op.inputs
    length = tf.raw_ops.TensorListLength(input_handle=handle)
    dense = tf.math.unsorted_segment_sum(cotangent, indices, length)
    return tf.raw_ops.TensorListFromTensor(tensor=dense, element_shape=element_shape), None, None
