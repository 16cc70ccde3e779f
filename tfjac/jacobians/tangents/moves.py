"""Ops that move elements, such as stacks, of which `linear` has no rule. The axis of the parameters comes first."""

import numpy as np
import tensorflow as tf

from tfjac.jacobians.tangents.rules import Step, rule
from tfjac.types import Array, Tensor


def _behind(axis: int | np.integer | Array, rank: int) -> int:
    """Return the axis of tangents that is `axis` of a tensor of so many axes."""
    return int(axis) + 1 if axis >= 0 else int(axis) + rank + 1


def _rank(step: Step, k: int = 0) -> int:
    return step.op.inputs[k].shape.rank


@rule("Reshape ExpandDims Squeeze")
def _reshaped(step: Step) -> list[Tensor]:
    step.only(0)
    return [tf.reshape(step.full(0), [step.count, *step.op.outputs[0].shape])]


@rule("Pack")
def _packed(step: Step) -> list[Tensor]:
    axis = _behind(step.op.get_attr("axis"), _rank(step) + 1)
    return [tf.stack([step.full(k) for k in range(len(step.op.inputs))], axis)]


@rule("Unpack")
def _unpacked(step: Step) -> list[Tensor]:
    axis = _behind(step.op.get_attr("axis"), _rank(step))
    return tf.unstack(step.full(0), axis=axis)


@rule("ConcatV2")
def _joined(step: Step) -> list[Tensor]:
    *parts, last = range(len(step.op.inputs))
    return [tf.concat([step.full(k) for k in parts], _behind(step.fixed(last), _rank(step)))]


@rule("Split")
def _split(step: Step) -> list[Tensor]:
    step.only(1)
    return tf.split(step.full(1), len(step.op.outputs), _behind(step.fixed(0), _rank(step, 1)))


@rule("SplitV")
def _split_unevenly(step: Step) -> list[Tensor]:
    step.only(0)
    return tf.split(step.full(0), step.fixed(1), _behind(step.fixed(2), _rank(step)))


@rule("StridedSlice")
def _sliced_by_strides(step: Step) -> list[Tensor]:
    """Each mask has a bit for each entry, to which one entry for the axis of the parameters is put in front."""
    step.only(0)
    begin, end, strides = ([first, *step.fixed(k)] for k, first in ((1, 0), (2, 0), (3, 1)))
    masks = {name: step.op.get_attr(name) << 1 for name in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")}
    open_ends = {name: step.op.get_attr(name) << 1 | 1 for name in ("begin_mask", "end_mask")}
    return [tf.strided_slice(step.full(0), begin, end, strides, **masks, **open_ends)]


@rule("GatherV2")
def _gathered(step: Step) -> list[Tensor]:
    step.only(0)
    indices, axis = step.op.inputs[1], _behind(step.fixed(2), _rank(step))
    behind = _behind(step.op.get_attr("batch_dims"), _rank(step, 1))  # a negative one counts axes of the indices
    if behind == 1:
        return [tf.gather(step.full(0), indices, axis=axis)]
    indices = tf.broadcast_to(indices, [step.count, *indices.shape])
    return [tf.gather(step.full(0), indices, axis=axis, batch_dims=behind)]


@rule("BroadcastTo")
def _spread(step: Step) -> list[Tensor]:
    step.only(0)
    return [step.aligned(0)]
