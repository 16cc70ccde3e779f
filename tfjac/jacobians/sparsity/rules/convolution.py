"""Windows that slide over space: convolutions, their transposes, and pooling."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import scipy.sparse
import tensorflow as tf

from tfjac.jacobians.sparsity.index_sets import IndexSets, composed, linked, links, union
from tfjac.jacobians.sparsity.rules.index_set_rules import NoIndexSets, Patterns, Step, rule


@rule("Conv2D", "Conv3D", "DepthwiseConv2dNative")
def _convolution(step: Step) -> Patterns:
    """Inputs x [n, *large, c_in] and kernel [*k, c_in/g, c_out]."""
    parts = []
    if step.patterns[0] is not None:
        window = _Window(step, step.shape(0), step.out_shape(), step.shape(1))
        parts.append(window.slide(step.patterns[0], *_channels(step, step.shape(0)[-1], step.out_shape()[-1])))
    if step.patterns[1] is not None:
        parts.append(_of_kernel(step, "o"))
    return [union(parts)]


@rule("Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput")
def _transposed(step: Step) -> Patterns:
    """Inputs sizes, kernel and y [n, *small, c_out]; the transpose of `_convolution`."""
    parts = []
    if step.patterns[2] is not None:
        window = _Window(step, step.out_shape(), step.shape(2), step.shape(1))
        channels = _channels(step, step.out_shape()[-1], step.shape(2)[-1])
        parts.append(window.slide_back(step.patterns[2], *channels))
    if step.patterns[1] is not None:
        parts.append(_of_kernel(step, "i"))
    return [union(parts)]


@rule("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D", "MaxPoolWithArgmax")
def _pool(step: Step) -> Patterns:
    window, own = _pooling(step, step.shape(0), step.out_shape())
    return [window.slide(step.patterns[0], own, itertools.repeat(own)), *[None] * (len(step.op.outputs) - 1)]


@rule("AvgPoolGrad", "AvgPool3DGrad", "MaxPoolGrad", "MaxPool3DGrad")
def _pool_gradient(step: Step) -> Patterns:
    """The last input is the cotangent of the result. Where the largest elements are is taken as given."""
    last = len(step.op.inputs) - 1
    if step.patterns[last] is None or (step.walk.by_value and step.carriers != [last]):
        raise NoIndexSets("where the largest elements are depends on x")
    window, own = _pooling(step, step.out_shape(), step.shape(last))
    return [window.slide_back(step.patterns[last], own, itertools.repeat(own))]


def _pooling(step: Step, large: Sequence[int], small: Sequence[int]) -> tuple["_Window", scipy.sparse.csr_array]:
    own = scipy.sparse.eye_array(large[-1], dtype=bool, format="csr")
    return _Window(step, large, small, step.op.get_attr("ksize")[1:-1]), own


def _channels(step: Step, c_in: int, c_out: int) -> tuple[scipy.sparse.csr_array, Iterable[scipy.sparse.csr_array]]:
    """Which channels meet, as `left [c_out, c] @ right[place] [c, c_in]` for each place of the window.

    A fixed kernel says so itself, its zeros included; else all channels of a group meet, through c = groups.
    """
    depthwise = step.op.type.startswith("Depthwise")
    *places, of_group, width = step.shape(1)
    groups = c_in if depthwise else c_in // of_group
    block = np.ones([1, 1 if depthwise else of_group], bool)
    fixed = step.fixed(1) if step.patterns[1] is None else None
    diagonal = scipy.sparse.eye_array(groups, dtype=bool)
    if fixed is None:
        left = scipy.sparse.kron(diagonal, np.ones([c_out // groups, 1], bool), format="csr")
        return left, itertools.repeat(scipy.sparse.kron(diagonal, block, format="csr"))
    kernel = (fixed != 0).reshape(math.prod(places), *((of_group, width) if not depthwise else (of_group * width,)))
    right = []
    for place in kernel:
        per_group = (
            place.reshape(groups, -1, 1) if depthwise else np.moveaxis(place.reshape(of_group, groups, -1), 0, 2)
        )
        right.append(scipy.sparse.block_diag([scipy.sparse.csr_array(each) for each in per_group], format="csr"))
    return scipy.sparse.eye_array(c_out, dtype=bool, format="csr"), right


def _of_kernel(step: Step, side: str) -> IndexSets:
    """Every position depends on all of the kernel that belongs to its channel."""
    if step.op.type == "DepthwiseConv2dNativeBackpropInput":
        raise NoIndexSets("the kernel of a transposed depthwise convolution is not covered")
    *places, of_group, width = step.shape(1)
    positions = [f"at{k}" for k in range(len(places) + 1)]
    if step.op.type == "DepthwiseConv2dNative":
        shape = [*places, of_group * width]
        return linked(step.patterns[1], [None] * len(places) + ["o"], shape, [*positions, "o"], step.out_shape())
    if side == "i" and step.out_shape()[-1] != of_group:
        raise NoIndexSets("the kernel of a transposed convolution with groups is not covered")
    return step.linked(1, [None] * len(places) + ["i", "o"], [*positions, side])


class _Window:
    """The places that a sliding window sees from each position.

    Args:
        step: the step, whose op says strides, dilation and padding.
        large, small: shapes `[n, *space, c]` of what the window slides over, and of its positions.
        size: sizes of the window, perhaps with more behind.
    """

    def __init__(self, step: Step, large: Sequence[int], small: Sequence[int], size: Sequence[int]) -> None:
        op = step.op
        names = {attribute.name for attribute in op.op_def.attr}
        if "data_format" in names and op.get_attr("data_format") not in (b"NHWC", b"NDHWC"):
            raise NoIndexSets("only channels-last windows are covered")
        self.n, self.large, self.small = large[0], large[1:-1], small[1:-1]
        self.size = list(size)[: len(self.large)]
        self.strides = op.get_attr("strides")[1:-1]
        self.dilation = op.get_attr("dilations")[1:-1] if "dilations" in names else [1] * len(self.large)
        self.before = self._padding(op)

    def slide(
        self, pattern: IndexSets, left: scipy.sparse.csr_array, right: Iterable[scipy.sparse.csr_array]
    ) -> IndexSets:
        """Index sets of the output at the positions, from those of the input."""
        passed = [composed(self._local(place, channels), pattern) for place, channels in zip(self._places(), right)]
        return composed(self._per_position(left), union(passed))

    def slide_back(
        self, pattern: IndexSets, left: scipy.sparse.csr_array, right: Iterable[scipy.sparse.csr_array]
    ) -> IndexSets:
        """Index sets of what the window slides over, from those at the positions."""
        pattern = composed(self._per_position(left).T.tocsr(), pattern)
        return union(
            [
                composed(self._local(place, channels).T.tocsr(), pattern)
                for place, channels in zip(self._places(), right)
            ]
        )

    def _per_position(self, left: scipy.sparse.csr_array) -> IndexSets:
        count = self.n * math.prod(self.small)
        return scipy.sparse.kron(scipy.sparse.eye_array(count, dtype=bool), left, format="csr").astype(bool)

    def _local(self, place: scipy.sparse.csr_array, channels: scipy.sparse.csr_array) -> IndexSets:
        examples = scipy.sparse.eye_array(self.n, dtype=bool)
        return scipy.sparse.kron(scipy.sparse.kron(examples, place), channels, format="csr").astype(bool)

    def _places(self) -> Iterator[scipy.sparse.csr_array]:
        """For each place of the window, the boolean matrix [positions, space] of what it sees."""
        for offset in itertools.product(*map(range, self.size)):
            axes = [
                np.arange(count) * stride + k * dilation - before
                for count, stride, k, dilation, before in zip(
                    self.small, self.strides, offset, self.dilation, self.before
                )
            ]
            grid = np.stack(np.meshgrid(*axes, indexing="ij"))
            sizes = np.reshape(self.large, [-1] + [1] * len(self.large))
            inside = np.all((grid >= 0) & (grid < sizes), axis=0)
            positions = np.flatnonzero(inside)
            seen = np.ravel_multi_index(grid[:, inside], self.large)
            yield links(positions, seen, (math.prod(self.small), math.prod(self.large)))

    def _padding(self, op: tf.Operation) -> Sequence[int]:
        padding = op.get_attr("padding")
        if padding == b"VALID":
            return [0] * len(self.large)
        if padding == b"EXPLICIT":
            return op.get_attr("explicit_paddings")[2:-2:2]
        sizes = zip(self.large, self.small, self.size, self.strides, self.dilation)
        return [max((p - 1) * s + (w - 1) * d + 1 - size, 0) // 2 for size, p, w, s, d in sizes]
