"""Slices, rolls, gathers and paddings: where positions are open, any place along their axis may be meant."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.jacobians.sparsity.index_sets import axis_names, picked, smeared
from tfjac.jacobians.sparsity.rules.index_set_rules import NoIndexSets, Patterns, Step, rule
from tfjac.jacobians.sparsity.rules.moves import moved
from tfjac.types import Array, Tensor


@rule("Slice")
def _slice(step: Step) -> Patterns:
    """Inputs x, begin, size."""
    full, part = step.shape(0), step.out_shape()
    begin = [0 if whole == size else entry for whole, size, entry in zip(full, part, step.entries(1))]
    patterns = [smeared(step.patterns[0], full, _open(begin))]
    return moved(step, (0,), {1: _filled(step, 1, begin), 2: _filled(step, 2, part)}, patterns=patterns)


@rule("StridedSlice")
def _strided_slice(step: Step) -> Patterns:
    """Inputs x, begin, end, strides."""
    axes, given, attributes = _strides(step, step.shape(0), step.out_shape())
    return moved(step, (0,), given, attributes, [smeared(step.patterns[0], step.shape(0), axes)])


@rule("StridedSliceGrad")
def _strided_slice_grad(step: Step) -> Patterns:
    """Inputs shape of x, begin, end, strides, cotangent of the slice."""
    axes, given, attributes = _strides(step, step.out_shape(), step.shape(4))
    (result,) = moved(step, (4,), given | {0: _filled(step, 0, step.out_shape())}, attributes)
    return [smeared(result, step.out_shape(), axes)]


@rule("Roll")
def _roll(step: Step) -> Patterns:
    """Inputs x, shifts, their axes."""
    shifts, axes = step.entries(1), np.reshape(step.value(2), -1)
    patterns = [smeared(step.patterns[0], step.shape(0), [axes[k] % len(step.shape(0)) for k in _open(shifts)])]
    return moved(step, (0,), {1: _filled(step, 1, shifts)}, patterns=patterns)


@rule("ReverseSequence")
def _reverse_sequence(step: Step) -> Patterns:
    if step.fixed(1) is not None:
        return moved(step, (0,))
    return [smeared(step.patterns[0], step.shape(0), [step.op.get_attr("seq_dim")])]


@rule("Pad", "PadV2", "MirrorPad")
def _pad(step: Step) -> Patterns:
    """Inputs x, paddings, and perhaps what to pad with."""
    if step.fixed(1) is not None:
        return moved(step, (0, 2) if step.op.type == "PadV2" else (0,))
    if step.carriers != [0]:
        raise NoIndexSets("what it pads with, and how much, is open")
    labels = axis_names(len(step.shape(0)))
    ends = [label if old == new else None for label, old, new in zip(labels, step.shape(0), step.out_shape())]
    return [step.linked(0, ends, ends)]


@rule("GatherV2")
def _gather(step: Step) -> Patterns:
    """Inputs x, indices, axis."""
    if step.fixed(1) is not None:
        return moved(step, (0,))
    labels, width = axis_names(len(step.shape(0))), len(step.shape(1))
    along, batch = int(step.value(2)) % len(labels), step.op.get_attr("batch_dims") % max(width, 1)
    new = [f"new{k}" for k in range(width - batch)]
    return [step.linked(0, labels, labels[:along] + new + labels[along + 1 :])]


@rule("GatherNd")
def _gather_nd(step: Step) -> Patterns:
    return moved(step, (0,)) if step.fixed(1) is not None else _anywhere_in_front(step)


@rule("ResourceGather")
def _resource_gather(step: Step) -> Patterns:
    batch = step.op.get_attr("batch_dims")
    return _of_variable(step, lambda table, indices: tf.gather(table, indices, batch_dims=batch), batch, batch + 1)


@rule("ResourceGatherNd")
def _resource_gather_nd(step: Step) -> Patterns:
    return _of_variable(step, tf.gather_nd, 0, step.shape(1)[-1])


def _of_variable(step: Step, gather: Callable[[Tensor, Tensor], Tensor], begin: int, end: int) -> Patterns:
    """Gather from a variable: it has numbers, but its handle cannot be run on them."""
    shape, indices = step.shape(0), step.fixed(1)
    if indices is None:
        labels, width = axis_names(len(shape)), len(step.out_shape()) - (len(shape) - end)
        new = [*labels[:begin], *(f"new{k}" for k in range(begin, width))]
        return [step.linked(0, labels, new + labels[end:])]
    with tf.init_scope(), tf.device("CPU:0"):
        numbers = gather(tf.reshape(tf.range(np.prod(shape, dtype=np.int64)), shape), indices)
    return [picked(step.patterns[0], numbers.numpy())]


def _anywhere_in_front(step: Step) -> Patterns:
    """Open indices into the leading axes, as many as the last axis of input 1 is long."""
    labels, depth = axis_names(len(step.shape(0))), step.shape(1)[-1]
    new = [f"new{k}" for k in range(len(step.shape(1)) - 1)]
    return [step.linked(0, labels, new + labels[depth:])]


def _open(entries: Sequence[Any]) -> list[int]:
    return [k for k, entry in enumerate(entries) if entry is None]


def _filled(step: Step, k: int, entries: Sequence[Any], default: int = 0) -> Array:
    """The value of input k, with `default` for what is open."""
    tensor = step.op.inputs[k]
    values = [default if entry is None else entry for entry in entries]
    return np.reshape(values, step.shape(k)).astype(tensor.dtype.as_numpy_dtype)


def _strides(
    step: Step, full: Sequence[int], part: Sequence[int]
) -> tuple[list[int], dict[int, Array], dict[str, int]]:
    """Find the axes along which a strided slice is open, and put one that takes the first elements in its place.

    Args:
        step: the step, with begin, end and strides as inputs 1 to 3.
        full, part: shapes of the whole and of the slice.

    Returns:
        The axes of the whole, a dict of values for inputs 1 to 3, and a dict of attributes.
    """
    begin, end, strides = (step.entries(k) for k in (1, 2, 3))
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    masks = {name: step.op.get_attr(name) for name in names}
    axes, axis, place = [], 0, 0  # axes of the whole and of the slice
    for k in range(len(begin)):
        bit = 1 << k
        shrinks = bool(masks["shrink_axis_mask"] & bit)
        if masks["ellipsis_mask"] & bit:
            behind = sum(not masks["new_axis_mask"] >> j & 1 for j in range(k + 1, len(begin)))
            axis, place = len(full) - behind, place + len(full) - behind - axis
        elif masks["new_axis_mask"] & bit:
            place += 1
        else:
            starts, ends = not masks["begin_mask"] & bit, not masks["end_mask"] & bit and not shrinks
            if strides[k] is None or (starts and begin[k] is None) or (ends and end[k] is None):
                axes.append(axis)
                begin[k], end[k], strides[k] = 0, 1 if shrinks else part[place], 1
                masks["begin_mask"] &= ~bit
                masks["end_mask"] &= ~bit
            elif shrinks:
                end[k] = begin[k] + 1
            axis, place = axis + 1, place + (not shrinks)
    given = {k: _filled(step, k, entries, 1) for k, entries in ((1, begin), (2, end), (3, strides))}
    return axes, given, masks
