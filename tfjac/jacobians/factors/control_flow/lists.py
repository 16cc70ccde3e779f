"""Lists of tensors (TensorArrays): the cotangents of their elements, kept as plain tensors."""

import dataclasses
from typing import Any

import tensorflow as tf

from tfjac.graph import axes
from tfjac.jacobians.factors.control_flow.sweep import Sweep, handler
from tfjac.linear.shapes import Size
from tfjac.types import Tensor


@dataclasses.dataclass
class ListCotangent:
    """The cotangents of the elements of a list.

    Attributes:
        dense: `[m, length, ...]`, or None for zeros.
        overwritten: `[length]` booleans: elements written again later on, whose cotangent is therefore zero in place
            of what `dense` has; or None for none of them.
        reads: pairs `(indices [r], cotangents [m, r, ...])` to be added.
    """

    dense: tf.Tensor | None = None
    overwritten: tf.Tensor | None = None
    reads: list = dataclasses.field(default_factory=list)

    def tensors(self) -> list[Tensor]:
        """Return tensors whose axis 0 is m."""
        return [self.dense] * (self.dense is not None) + [cotangent for _, cotangent in self.reads]

    def whole(self, length: Size) -> Tensor:
        """Return the sum of all parts, `[m, length, ...]`."""
        parts = []
        if self.dense is not None:
            parts.append(self.dense if self.overwritten is None else self._masked())
        for indices, cotangents in self.reads:
            rank = cotangents.shape.rank
            first = tf.transpose(cotangents, [1, 0, *range(2, rank)])
            summed = tf.math.unsorted_segment_sum(first, indices, length)
            parts.append(tf.transpose(summed, [1, 0, *range(2, rank)]))
        return tf.add_n(parts) if len(parts) > 1 else parts[0]

    def _masked(self) -> Tensor:
        assert self.dense is not None
        mask = tf.reshape(self.overwritten, [1, -1] + [1] * (self.dense.shape.rank - 2))
        return tf.where(mask, tf.zeros([], self.dense.dtype), self.dense)

    def plus(self, other: "ListCotangent", tensor: Tensor) -> "ListCotangent":
        """Return the sum with another one of the same list, `tensor`."""
        if self.dense is None or other.dense is None:
            one = self if other.dense is None else other
            return ListCotangent(one.dense, one.overwritten, self.reads + other.reads)
        length = axes(self.dense)[1]
        return ListCotangent(self.whole(length) + other.whole(length))

    def settled(self, tensor: Tensor) -> "ListCotangent":
        """Return the same with its reads added in; `tensor` is the list."""
        if not self.reads:
            return self
        length = axes(self.dense)[1] if self.dense is not None else tf.raw_ops.TensorListLength(input_handle=tensor)
        return ListCotangent(self.whole(length))

    def at(self, index: Any) -> Tensor:
        """Return the cotangent of one element, `[m, ...]`, of a list that is not read."""
        element = tf.gather(self.dense, index, axis=1)
        if self.overwritten is None:
            return element
        return tf.where(self.overwritten[index], tf.zeros([], element.dtype), element)

    def before_write(self, index: Any) -> "ListCotangent":
        """Return the cotangent of the list before element `index` was written."""
        length = axes(self.dense)[1]
        written = tf.range(length) == index
        overwritten = written if self.overwritten is None else self.overwritten | written
        return ListCotangent(self.dense, overwritten)


@handler("TensorListFromTensor")
def _from_tensor(op: tf.Operation, sweep: Sweep) -> None:
    tensor = op.inputs[0]
    sweep.add(tensor, sweep.cotangent(op.outputs[0]).whole(axes(tensor)[0]))


@handler("TensorListStack")
def _stack(op: tf.Operation, sweep: Sweep) -> None:
    sweep.add(op.inputs[0], ListCotangent(sweep.cotangent(op.outputs[0])))


@handler("TensorListGetItem")
def _get_item(op: tf.Operation, sweep: Sweep) -> None:
    tensor, index, _ = op.inputs
    sweep.add(tensor, ListCotangent(reads=[(index[None], sweep.cotangent(op.outputs[0])[:, None])]))


@handler("TensorListSetItem")
def _set_item(op: tf.Operation, sweep: Sweep) -> None:
    tensor, index, element = op.inputs
    cotangent = sweep.cotangent(op.outputs[0]).settled(op.outputs[0])
    sweep.add(element, cotangent.at(index))
    sweep.add(tensor, cotangent.before_write(index))
