"""Sizes of tensors that may be open while tracing, and the example axis brought to the front."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from tfjac.graph import axes, compiled_by_xla
from tfjac.graph.examples.example_rules import ExampleAxis
from tfjac.types import Tensor

Size: TypeAlias = int | Tensor
"""A size: an integer, or a scalar tensor where it is open while tracing."""


def product(sizes: Iterable[Any]) -> Any:
    """Return the product of `sizes`, a Python integer where all are."""
    return math.prod(sizes, start=1)


def reshaped(tensor: Tensor, sizes: list) -> Tensor:
    """`tf.reshape`, without an op where the tensor has these sizes."""
    return tensor if tensor.shape.is_fully_defined() and tensor.shape == sizes else tf.reshape(tensor, sizes)


def reordered(tensor: Tensor, order: Sequence[int], sizes: list) -> Tensor:
    """Return a tensor with its axes in another order, then in other sizes; one op where only axes of size one move."""
    moved = [k for k in order if tensor.shape[k] != 1]
    return tf.reshape(tensor if moved == sorted(moved) else tf.transpose(tensor, order), sizes)


def widened(tensor: Tensor) -> Tensor:
    """Return `tensor` in at least single precision: squares and long sums of less overflow, or lose what is small."""
    return tf.cast(tensor, wide_dtype(tensor.dtype)) if tensor.dtype.is_floating else tensor


def wide_dtype(dtype: tf.DType) -> tf.DType:
    """Return the dtype that `widened` gives: float32 in place of half precision, every other dtype as it is."""
    return tf.float32 if dtype.is_floating and dtype.size < tf.float32.size else dtype


def split_examples(tensor: Tensor, axis: ExampleAxis, n: Size, lead: int = 0) -> Tensor:
    """Bring the examples to the front.

    Args:
        tensor: `[*lead axes, ...]` whose axis `lead + axis.axis` has size `outer · n · inner`.
        axis: its `ExampleAxis`, counted without the lead axes.
        n: number of examples.
        lead: number of axes in front that the example axis was not counted with.

    Returns:
        `[n, *lead axes, *axes before, outer, inner, *axes behind]`; `outer` and `inner` are left out where they are 1.
    """
    position = lead + axis.axis
    sizes = axes(tensor)
    if (axis.outer, axis.inner) != (1, 1):
        inner = inner_size(tensor, axis, n, lead)
        middle = [axis.outer] * (axis.outer != 1) + [n] + [inner] * (axis.inner != 1)
        tensor = tf.reshape(tensor, sizes[:position] + middle + sizes[position + 1 :])
        position += axis.outer != 1
    rank = tensor.shape.rank
    order = [position, *(k for k in range(rank) if k != position)]
    return tensor if position == 0 else tf.transpose(tensor, order)


def inner_size(tensor: Tensor, axis: ExampleAxis, n: Size, lead: int = 0) -> Size:
    """Return `axis.inner`, worked out from the size of the axis where the trace left it open."""
    if axis.inner is not None:
        return axis.inner
    return axes(tensor)[lead + axis.axis] // (axis.outer * tf.maximum(n, 1))


def split_labels(labels: Sequence[str], axis: ExampleAxis) -> list[str]:
    """Return the labels of `split_examples(tensor, axis)` for a tensor with these labels, the example's left out."""
    before, behind = labels[: axis.axis], labels[axis.axis + 1 :]
    return [*before, *(["outer"] if axis.outer != 1 else []), *(["inner"] if axis.inner != 1 else []), *behind]


def check_when_run(assumed: Iterable[tuple[Tensor, ExampleAxis]], n: Size) -> list[tf.Operation | Tensor]:
    """Check sizes that the trace left open: the examples' axis must hold a whole number of rows for each of them.

    Args:
        assumed: pairs of a tensor and its `ExampleAxis`.
        n: number of examples.

    Returns:
        A list of ops or tensors that fail where it does not, to be waited for (`after`).
    """
    return [_check(tensor, axis, n) for tensor, axis in assumed]


def has_whole_rows(tensor: Tensor, axis: ExampleAxis, n: Size) -> Tensor:
    """Return whether the axis of the examples holds a whole number of rows for each of them, a boolean scalar."""
    size, block = _size_and_block(tensor, axis, n)
    return size == block if axis.inner is not None else size % tf.maximum(block, 1) == 0


def _size_and_block(tensor: Tensor, axis: ExampleAxis, n: Size) -> tuple[Tensor, Size]:
    return tf.shape(tensor)[axis.axis], axis.outer * n * (1 if axis.inner is None else axis.inner)


def _check(tensor: Tensor, axis: ExampleAxis, n: Size) -> tf.Operation | Tensor:
    size, block = _size_and_block(tensor, axis, n)
    if compiled_by_xla(tf.compat.v1.get_default_graph()):  # XLA drops assertions, but compiles no such reshape
        rows = [block] if axis.inner is not None else [block, size // tf.maximum(block, 1)]
        return tf.reshape(tf.zeros([size]), rows, name="tfjac_expects_the_same_number_of_rows_for_each_example")
    return tf.debugging.Assert(
        has_whole_rows(tensor, axis, n),
        [
            f"tfjac: {tensor.name} was taken to hold the same number of rows for each example. Where one row is meant "
            "for all of them, give it a static size of 1, or spell it out with tf.broadcast_to before a variable comes "
            "in. Received (rows, examples):",
            size,
            n,
        ],
    )


def after(checks: Sequence[tf.Operation | Tensor], tensors: list[Tensor]) -> list[Tensor]:
    """Return `tensors`, to be had only where `checks` have passed."""
    if not checks:
        return tensors
    with tf.control_dependencies(checks):
        return [tf.identity(tensor) for tensor in tensors]
