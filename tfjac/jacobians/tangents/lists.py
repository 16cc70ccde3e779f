"""Lists of tensors, as a `tf.TensorArray` is. The tangents of a list are a list: of the tangents of its elements.

Those of an element have the axis of the parameters in front, as elsewhere; those of all elements as one tensor, too.
"""

from collections.abc import Sequence

import tensorflow as tf

from tfjac.graph.facts import facts_of
from tfjac.jacobians.tangents.rules import NoTangents, Step, rule
from tfjac.types import Tensor


def zeros_like_list(handle: Tensor, count: int, shape: Sequence[int], dtype: tf.DType) -> Tensor:
    """Return the tangents of a list that no parameter has reached: what was not set reads as zeros.

    Args:
        handle: the list.
        count: p.
        shape, dtype: of its elements.
    """
    length = tf.raw_ops.TensorListLength(input_handle=handle)
    return tf.raw_ops.TensorListReserve(element_shape=[count, *shape], num_elements=length, element_dtype=dtype)


@rule("TensorListSetItem")
def _set(step: Step) -> list[Tensor]:
    step.only(0, 2)
    handle, index, item = step.op.inputs
    tangents = step.tangents[0]
    if tangents is None:
        tangents = zeros_like_list(handle, step.count, item.shape, item.dtype)
    resizes = step.op.get_attr("resize_if_index_out_of_bounds")
    return [
        tf.raw_ops.TensorListSetItem(
            input_handle=tangents, index=index, item=step.full(2), resize_if_index_out_of_bounds=resizes
        )
    ]


@rule("TensorListGetItem")
def _got(step: Step) -> list[Tensor]:
    step.only(0)
    (output,) = step.op.outputs
    shape = [step.count, *output.shape]
    tangents = tf.raw_ops.TensorListGetItem(
        input_handle=step.tangents[0], index=step.op.inputs[1], element_shape=shape, element_dtype=output.dtype
    )
    return [tf.ensure_shape(tangents, shape)]


@rule("TensorListStack")
def _stacked(step: Step) -> list[Tensor]:
    step.only(0)
    (output,) = step.op.outputs
    n, *shape = output.shape
    rows = tf.raw_ops.TensorListStack(
        input_handle=step.tangents[0], element_shape=[step.count, *shape], element_dtype=output.dtype, num_elements=n
    )
    return [_swapped(tf.ensure_shape(rows, [n, step.count, *shape]))]


@rule("TensorListFromTensor")
def _as_list(step: Step) -> list[Tensor]:
    step.only(0)
    rows = _swapped(step.full(0))
    return [tf.raw_ops.TensorListFromTensor(tensor=rows, element_shape=list(rows.shape[1:]))]


def _swapped(tensor: Tensor) -> Tensor:
    """Return a tensor with its first two axes in the other order."""
    return tf.transpose(tensor, [1, 0, *range(2, tensor.shape.rank)])


def element_of(handle: Tensor, wanted: Tensor) -> tuple[Sequence[int], tf.DType]:
    """Return the shape and the dtype of the elements of a list, as of the op in a body that sets one.

    Args:
        handle: the list where the body begins.
        wanted: the list where it ends.

    Raises:
        NoTangents: where another op than one that sets an element makes the one of the other, or none does.
    """
    shape = dtype = None
    while wanted is not handle:
        if wanted.op.type == "TensorListSetItem":
            item = wanted.op.inputs[2]
            if not item.shape.is_fully_defined():
                raise NoTangents
            shape, dtype = item.shape, item.dtype
        elif facts_of(wanted.op).kind != "identity":
            raise NoTangents
        wanted = wanted.op.inputs[0]
    if shape is None or dtype is None:
        raise NoTangents
    return shape, dtype
