"""Convolutions of groups of channels, taken apart where TensorFlow cannot differentiate them as they are.

On CPU, TensorFlow has gradients of grouped convolutions under XLA alone (which is why Keras compiles these layers by
themselves), no grouped 3-D convolution at all, and `pfor` gives a wrong answer for the gradient of the kernel: it
merges the axis of the loop with the channels and forgets the groups. One convolution per group has none of this, and
where a group is a single channel one depthwise convolution of all.
"""

import tensorflow as tf

from tfjac.graph.facts import facts_of
from tfjac.graph.gradients.mending import mend
from tfjac.graph.reading.symbolic_sizes import axes
from tfjac.types import Tensor


def is_grouped(op: tf.Operation) -> bool:
    """Return whether `op` is a convolution in which each group of output channels sees a part of the input's."""
    if facts_of(op).grouped is None:
        return False
    channels, seen = op.inputs[0].shape[_channel_axis(op)], op.inputs[1].shape[-2]
    return None not in (channels, seen) and channels != seen


def runs_in_groups(op: tf.Operation) -> bool:
    """Return whether TensorFlow has groups for convolutions of the type of `op`, outside of XLA."""
    return facts_of(op).grouped == "run"


def convolved_alone(op: tf.Operation) -> list[Tensor]:
    """Return the outputs of a copied grouped 2-D convolution, to be differentiated by groups.

    Outside of XLA, TensorFlow's optimiser would fuse it with a bias behind it, into an op that on some processors has
    no groups: so an op stands between that no fusion looks through.
    """
    mend([op])
    return [tf.ensure_shape(output, output.shape) for output in op.outputs]


def convolve_by_groups(op: tf.Operation, x: Tensor, kernel: Tensor) -> Tensor:
    """Return what `op`, a grouped convolution, gives for `x` and `kernel`, by one convolution per group.

    Stacks and reshapes only: the gradient of a concatenation is none that XLA takes inside a loop over cotangents.

    Args:
        op: a grouped `Conv2D` or `Conv3D`.
        x: `[n, *spatial, g·i]`, or with the channels first, as `op` has them.
        kernel: `[*k, i, g·o]`, the group outermost.

    Returns:
        The output, `[n, *positions, g·o]`, laid out as `op` does.
    """
    axis = _channel_axis(op) % x.shape.rank
    groups = x.shape[axis] // kernel.shape[-2]
    if _is_depthwise(op):
        kernel = tf.reshape(kernel, [*kernel.shape[:2], groups, kernel.shape[3] // groups])
        return tf.nn.depthwise_conv2d(x, kernel, op.get_attr("strides"), op.get_attr("padding").decode())
    parts = [
        _convolve(op, part, weight)
        for part, weight in zip(_apart(x, axis, groups), _apart(kernel, kernel.shape.rank - 1, groups))
    ]
    stacked = tf.stack(parts, axis=axis)
    sizes = axes(stacked)
    return tf.reshape(stacked, [*sizes[:axis], sizes[axis] * sizes[axis + 1], *sizes[axis + 2 :]])


def _is_depthwise(op: tf.Operation) -> bool:
    """Whether each group is one channel, in a way that TensorFlow has an op for: one for hundreds of groups."""
    strides, plain = op.get_attr("strides"), max(op.get_attr("dilations")) == 1
    plain = plain and runs_in_groups(op) and _channel_axis(op) == -1 and strides[1] == strides[2]
    known = op.inputs[1].shape.is_fully_defined() and op.get_attr("padding") in (b"SAME", b"VALID")
    return plain and known and op.inputs[1].shape[-2] == 1


def _convolve(op: tf.Operation, x: Tensor, kernel: Tensor) -> Tensor:
    """The convolution of one group. Dilated ones have no gradient on CPU either, unless batches of phases stand in."""
    strides, dilations = op.get_attr("strides"), op.get_attr("dilations")
    padding = op.get_attr("padding")
    if max(dilations) > 1 and max(strides) == 1 and _channel_axis(op) == -1 and padding in (b"SAME", b"VALID"):
        return tf.nn.convolution(x, kernel, padding=padding.decode(), dilations=dilations[1:-1])
    attributes = {name: op.get_attr(name) for name in ("data_format", "explicit_paddings") if name in op.node_def.attr}
    convolution = getattr(tf.raw_ops, op.type)
    return convolution(input=x, filter=kernel, strides=strides, dilations=dilations, padding=padding, **attributes)


def gradient_by_groups(op: tf.Operation, cotangent: Tensor) -> list[Tensor]:
    """Group by group; the values stay what they are, and gradients but for rounding."""
    z = convolve_by_groups(op, *op.inputs)
    return tf.gradients(z, list(op.inputs), grad_ys=cotangent)


def _channel_axis(op: tf.Operation) -> int:
    return 1 if op.get_attr("data_format") in (b"NCHW", b"NCDHW") else -1


def _apart(tensor: Tensor, axis: int, groups: int) -> list[Tensor]:
    sizes = axes(tensor)
    split = [*sizes[:axis], groups, sizes[axis] // groups, *sizes[axis + 1 :]]
    return tf.unstack(tf.reshape(tensor, split), groups, axis=axis)
