"""Lists of tensors (TensorArrays), that loops read and write. The example axis of a list is that of its elements."""

import tensorflow as tf

from tfjac.graph.examples.example_rules import SHARED, Axis, ExampleAxis, NoRule, Wanted
from tfjac.graph.facts import declare
from tfjac.graph.gradients.mending import Gradient
from tfjac.types import Tensor


def _list_from_tensor(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    return [axis.moved(axis.axis + 1), SHARED]


def _list_stack(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    if axis.axis == 0:
        raise NoRule("the examples are the elements of a list: a loop over examples")
    return [axis.moved(axis.axis - 1), SHARED]


def _list_gather(op: tf.Operation, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    """An element that is read twice gets the sum: TensorFlow gives it the last."""
    handle, indices, element_shape = op.inputs
    length = tf.raw_ops.TensorListLength(input_handle=handle)
    dense = tf.math.unsorted_segment_sum(cotangent, indices, length)
    return tf.raw_ops.TensorListFromTensor(tensor=dense, element_shape=element_shape), None, None


declare("TensorListFromTensor", list="made of a tensor", example_axis=_list_from_tensor)
declare("TensorListStack", list="items read", example_axis=_list_stack, sized_by=(1,))
declare("TensorListGetItem", list="item read", example_axis=lambda op, axis, wanted: [axis, SHARED, SHARED])
declare("TensorListSetItem", list="item written", example_axis=lambda op, axis, wanted: [axis, SHARED, axis])
declare("TensorListGather", list="items read", gradient=Gradient(_list_gather))
declare("TensorListElementShape TensorListLength", looks_at="shapes")
declare("TensorListReserve EmptyTensorList", sized_by=(0, 1))
declare("TensorListPushBack TensorListPopBack OptionalFromValue OptionalGetValue", sized_by=())
