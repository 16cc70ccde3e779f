"""Convolutions as products of patches: a = patches of the input, d = cotangents at the output positions."""

import contextlib
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import axes, compiled_by_xla, static_value
from tfjac.graph.facts import is_identity
from tfjac.jacobians.factors.rules.factor_rules import NoFactor, rule
from tfjac.jacobians.factors.uses import Use
from tfjac.linear.factors.forms import Factor, OuterFactor
from tfjac.linear.shapes import product, reshaped
from tfjac.types import Tensor


@rule("Conv2D", "Conv3D")
def _convolution(use: Use) -> Factor:
    """Kernel [*k, c_in/g, c_out]: i = (k, c_in/g), o = c_out/g."""
    x, kernel = use.op.inputs
    if x.shape[-1] is None:
        raise NoFactor("the number of channels is open")
    groups = x.shape[-1] // kernel.shape[-2]
    a = _patches_by_position(use)
    n, t, k, c_in = axes(a)
    if groups > 1:
        a = tf.transpose(tf.reshape(a, [n, t, k, groups, c_in // groups]), [0, 1, 3, 2, 4])
    a = reshaped(a, [n, t, groups, k * (c_in // groups)])
    return OuterFactor(*_where_images_are(use, a, _by_position(use, groups)), "igo")


@rule("DepthwiseConv2dNative")
def _depthwise(use: Use) -> Factor:
    """Kernel [*k, c, multiplier]: each channel is a group of its own."""
    a = tf.transpose(_patches_by_position(use), [0, 1, 3, 2])
    return OuterFactor(*_where_images_are(use, a, _by_position(use, use.op.inputs[0].shape[-1])), "igo")


def _patches_by_position(use: Use) -> Tensor:
    """What the window sees at each position of each example: `[n, t, k, c]`."""
    x, kernel = use.op.inputs
    if use.weight_index != 1:
        raise NoFactor("the weight is not the kernel")
    if use.axis.axis == use.output.shape.rank - 1:
        raise NoFactor("the examples are channels")
    window = _Window(use, kernel.shape, x)
    patches = window.patches(x)
    if use.axis.axis != 0:  # the examples are places of one image
        batch, _, k, c = axes(patches)
        patches = tf.reshape(patches, [batch, *window.positions, k, c])
    patches = use.split(patches, use.axis)
    n, *positions, k, c = axes(patches)
    return patches if len(positions) == 1 else tf.reshape(patches, [n, product(positions), k, c])


@rule("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def _transposed(use: Use) -> Factor:
    """Kernel [*k, c_out, c_in]: the roles swap, patches of the cotangent meet the plain input."""
    _, kernel, x = use.op.inputs
    if use.weight_index != 1:
        raise NoFactor("the weight is not the kernel")
    if use.axis.axis != 0:
        raise NoFactor("the examples are places of one image, or channels")
    m, rows, *spatial = axes(use.d)
    patches = _Window(use, kernel.shape, use.output, x).patches(tf.reshape(use.d, [m * rows, *spatial]))
    _, t, k, c_out = axes(patches)
    c_in = x.shape[-1]
    d = use.split_cotangent(tf.reshape(patches, [m, rows, t, k * c_out]))
    a = use.split(tf.reshape(x, [rows, t, c_in]), use.input_axes[2])
    t = product(axes(a)[1:-1])
    n = axes(a)[0]
    a, d = tf.reshape(a, [n, t, 1, c_in]), tf.reshape(d, [n, m, t, 1, k * c_out])
    return OuterFactor(*_where_images_are(use, a, d, of_input=True), "goi")


def _where_images_are(use: Use, a: Tensor, d: Tensor, of_input: bool = False) -> tuple[Tensor, Tensor]:
    """Return a and d without the positions that a dilation by way of space-to-batch fills up: they are no uses.

    Args:
        use: the use of the kernel.
        a, d: `[n,t,...]` and `[n,m,t,...]`.
        of_input: whether the positions are those of the input, and not those of the output.
    """
    moved = _moved_positions(use.op.inputs[2] if of_input else use.output, of_input)
    axis = use.input_axes[2] if of_input else use.axis
    if moved is None or axis.axis != 0 or axis.inner is None:
        return a, d
    block = static_value(moved.inputs[1])
    sizes = axes((moved.inputs if of_input else moved.outputs)[0])[1:-1]
    edges = static_value(moved.inputs[2])
    is_known = edges is not None and all(isinstance(size, int) for size in sizes)
    if not is_known and compiled_by_xla(a.graph):  # where the number of places would have to be known
        return a, d
    with tf.init_scope() if is_known else contextlib.nullcontext():
        image = tf.ones([axis.outer // int(np.prod(block)) * axis.inner, *sizes, 1])
        filled = tf.space_to_batch(image, block, moved.inputs[2] if edges is None else edges)
        places = tf.where(tf.reshape(filled, [-1]) > 0)[:, 0]
    if is_known and len(places) == a.shape[1]:
        return a, d
    places = tf.constant(places.numpy()) if is_known else places
    return tf.gather(a, places, axis=1), tf.gather(d, places, axis=2)


def _moved_positions(tensor: Tensor, back: bool) -> tf.Operation | None:
    """Return the op next to `tensor` that moves positions into the batch, or out of it, None where there is none."""
    while True:
        ops = [tensor.op] if back else [op for op in tensor.consumers() if op.type != "Shape"]
        if len(ops) != 1 or ops[0].type == ("SpaceToBatchND" if back else "BatchToSpaceND"):
            return ops[0] if len(ops) == 1 else None
        if not (is_identity(ops[0]) or ops[0].type in ("Squeeze", "ExpandDims", "EnsureShape")):
            return None
        tensor = ops[0].inputs[0] if back else ops[0].outputs[0]


def _by_position(use: Use, groups: Any) -> Tensor:
    """Cotangents [n,m,t,g,o] of an output [n, *positions, c] whose channels are grouped, the group outermost."""
    d = use.split_cotangent()
    n, m, *positions, c = axes(d)
    return tf.reshape(d, [n, m, product(positions), groups, c // groups])


class _Window:
    """The sliding window of a convolution: sizes, strides, dilation and padding of its spatial axes.

    Args:
        use: the use of the kernel.
        kernel: shape of the kernel, spatial axes first.
        large: tensor that the window slides over.
        small: tensor with one position for each place of the window; by default the output of the use.
    """

    def __init__(self, use: Use, kernel: Any, large: Tensor, small: Tensor | None = None) -> None:
        op = use.op
        if op.get_attr("data_format") not in (b"NHWC", b"NDHWC"):
            raise NoFactor("only channels-last convolutions are covered")
        spatial = slice(1, -1)
        self.size = kernel[: large.shape.rank - 2].as_list()
        self.strides = op.get_attr("strides")[spatial]
        self.dilation = op.get_attr("dilations")[spatial]
        self.positions = axes(use.output if small is None else small)[spatial]
        self.padding = self._paddings(op, axes(large)[spatial])

    def _paddings(self, op: tf.Operation, sizes: list) -> list:
        padding = op.get_attr("padding")
        if padding == b"VALID":
            return [(0, 0)] * len(sizes)
        if padding == b"EXPLICIT":
            explicit = op.get_attr("explicit_paddings")[2:-2]
            return list(zip(explicit[::2], explicit[1::2]))
        return [self._same(*each) for each in zip(sizes, self.positions, self.size, self.strides, self.dilation)]

    @staticmethod
    def _same(size: Any, positions: Any, window: Any, stride: Any, dilation: Any) -> tuple:
        """TensorFlow's "same" padding: what the last window needs, the smaller half in front."""
        total = (positions - 1) * stride + (window - 1) * dilation + 1 - size
        total = max(total, 0) if isinstance(total, int) else tf.maximum(total, 0)
        return total // 2, total - total // 2

    def patches(self, x: Tensor) -> Tensor:
        """Return `[n, t, k, c]`: for each position and each place k of the window, the channels there."""
        if any(isinstance(pad, tf.Tensor) or pad for pair in self.padding for pad in pair):
            x = tf.pad(x, [(0, 0), *self.padding, (0, 0)])
        n, *sizes, c = axes(x)
        places = product(self.size)
        if places == 1 and max(self.strides) == 1:
            return tf.reshape(x, [n, product(sizes), 1, c])
        seen = tf.gather(tf.reshape(x, [n, product(sizes), c]), self._seen(sizes), axis=1)
        return tf.reshape(seen, [n, product(self.positions), places, c])

    def _seen(self, sizes: list) -> Any:
        """For each position and place `[t·k]`, row-major, which element of the padded spatial axes is there."""
        static = all(isinstance(size, int) for size in [*self.positions, *sizes])
        counted, reshape = (np.arange, np.reshape) if static else (tf.range, tf.reshape)
        index, places = np.zeros([1, 1], np.int32), 1
        for size, count, window, stride, dilation in zip(sizes, self.positions, self.size, self.strides, self.dilation):
            along = counted(count, dtype=np.int32)[:, None] * stride + np.arange(window, dtype=np.int32) * dilation
            places *= window
            index = reshape(index[:, None, :, None] * size + along[None, :, None, :], [-1, places])
        return reshape(index, [-1])
