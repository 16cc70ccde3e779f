"""Convolutions as products of patches: a = patches of the input, d = cotangents at the output positions."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import axes
from tfjac.jacobians.factors.forms import Factor, OuterFactor
from tfjac.jacobians.factors.rules.factor_rules import NoFactor, rule
from tfjac.jacobians.factors.uses import Use
from tfjac.jacobians.shapes import product, reshaped
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
    return OuterFactor(a, _by_position(use, groups), "igo")


@rule("DepthwiseConv2dNative")
def _depthwise(use: Use) -> Factor:
    """Kernel [*k, c, multiplier]: each channel is a group of its own."""
    patches = _patches_by_position(use)
    return OuterFactor(tf.transpose(patches, [0, 1, 3, 2]), _by_position(use, use.op.inputs[0].shape[-1]), "igo")


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
    return OuterFactor(tf.reshape(a, [n, t, 1, c_in]), tf.reshape(d, [n, m, t, 1, k * c_out]), "goi")


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
