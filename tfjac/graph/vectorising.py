"""TensorFlow's vectoriser, where it is right.

`tf.vectorized_map` replaces each op of a function by one that does all slices at once. For a few ops it does so
wrongly, or not at all though it could: these are converted in another way here. Which they are is found by
`tests.sweep`, which runs every op with a gradient through the vectoriser and without.
"""

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.op_types import CHOICES, LOOPS
from tfjac.graph.registration import registering
from tfjac.graph.static_values import static_value
from tfjac.graph.vectorising_shortcuts import SHORTCUTS

_CONVERSIONS = {}

conversion = registering(_CONVERSIONS)
"""Register a function `edit(op, inputs, stacked)` for ops that TensorFlow converts wrongly, as in `set_conversion`."""


def listed():
    """Return the types of op that are converted otherwise, a set."""
    return set(_CONVERSIONS)


def vectorises(ops):
    """Return whether to vectorise a function of these ops: not where it has loops or branches, or holds lists.

    Gradients of loops are slow to trace under the vectoriser, and often fail; lists of tensors, and sparse matrices,
    are converted wrongly, or fail when they run.
    """
    return not any(op.type in (*LOOPS, *CHOICES) or any(map(_is_variant, [*op.inputs, *op.outputs])) for op in ops)


def vectorised_map(function, stacks):
    """`tf.vectorized_map`, with right conversions, and shorter ones.

    Args:
        function: from tensors to a list of tensors.
        stacks: list of tensors `[c, ...]` with the same c.

    Returns:
        What the function gives for each slice of the stacks: a list of tensors `[c, ...]`.
    """

    def marked(slices):
        graph = tf.compat.v1.get_default_graph()
        before = len(graph.get_operations())
        results = function(*slices)
        for op in graph.get_operations()[before:]:
            if op.type in _CONVERSIONS or op.type in SHORTCUTS:
                _private.set_conversion(op, _CONVERSIONS.get(op.type), SHORTCUTS.get(op.type))
        return [_within(graph, result) for result in results]

    return tf.vectorized_map(marked, list(stacks))


def _within(graph, tensor):
    """Return a tensor as one of `graph`: TensorFlow fails on what is returned as it is from a graph around."""
    return tensor if tensor.graph is graph else tf.identity(tensor)


def _is_variant(tensor):
    return tensor.dtype == tf.variant


@conversion("Roll")
def _roll(op, inputs, stacked):
    """TensorFlow adds the axis of the slices to every axis, also to one that counts from the back."""
    tensor, shift, axis = inputs
    known = static_value(axis)
    if known is not None and (known >= 0).all():
        return inputs
    return [tensor, shift, tf.math.floormod(axis, tf.cast(tf.rank(tensor) - int(stacked[0]), axis.dtype))]


@conversion("SparseSegmentSumGrad", "SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad")
def _sparse_segment_grad(op, inputs, stacked):
    """TensorFlow takes the last id that there is for the number of segments; those behind it have no gradient."""
    cotangents, indices, ids, size = inputs
    if not stacked[0] or any(stacked[1:]):
        return None
    return [cotangents[:, : tf.reduce_max(ids) + 1], indices, ids, size]


@conversion("Einsum")
def _einsum(op, inputs, stacked):
    """TensorFlow takes no diagonals as a result, though the op gives them."""
    output = op.get_attr("equation").decode().split("->")[-1].replace(".", "")
    return inputs if len(set(output)) == len(output) else None


@conversion("BiasAddGrad")
def _bias_add_grad(op, inputs, stacked):
    """TensorFlow believes that images whose channels come first have two more axes."""
    return None if op.get_attr("data_format") == b"NCHW" and op.inputs[0].shape.rank != 4 else inputs


@conversion("Conv2DBackpropFilter")
def _filter_gradient(op, inputs, stacked):
    """TensorFlow loses explicit paddings, and makes one group of all channels."""
    channels = op.inputs[0].shape[1 if op.get_attr("data_format") == b"NCHW" else 3]
    sizes = static_value(op.inputs[1])
    one_group = sizes is not None and channels == sizes[2]
    return inputs if one_group and op.get_attr("padding") != b"EXPLICIT" else None
