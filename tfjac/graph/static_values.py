"""Values that the graph fixes: constants and small arithmetic on them, such as the permutation in a softmax."""

import numpy as np
import tensorflow as tf

_ARITHMETIC = {
    "Add": np.add,
    "AddV2": np.add,
    "ConcatV2": lambda *parts: np.concatenate(parts[:-1], axis=parts[-1]),
    "Equal": np.equal,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Identity": np.asarray,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "LogicalAnd": np.logical_and,
    "Max": lambda value, axes: np.max(value, axis=tuple(np.reshape(axes, -1))),
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Mul": np.multiply,
    "Neg": np.negative,
    "NotEqual": np.not_equal,
    "Pack": lambda *parts: np.stack(parts),
    "Prod": lambda value, axes: np.prod(value, axis=tuple(np.reshape(axes, -1))),
    "Range": np.arange,
    "Select": np.where,
    "SelectV2": np.where,
    "Sub": np.subtract,
    "ZerosLike": np.zeros_like,
}

_LOOKED_THROUGH = {*_ARITHMETIC, "Cast", "ConcatOffset"}


def static_value(tensor, depth=10, given=None):
    """Return the value of `tensor` as an array where the graph fixes it, else None.

    Args:
        tensor: an integer tensor: axes, sizes, permutations.
        depth: how many ops to look through beyond what `tf.get_static_value` does.
        given: a dict from `ref()` to value of tensors that are taken to have it.
    """
    if given and tensor.ref() in given:
        return given[tensor.ref()]
    value = tf.get_static_value(tensor)
    if value is not None or depth == 0 or not (tensor.op.type in _LOOKED_THROUGH or _takes_one(tensor.op)):
        return value
    if tensor.op.type in ("Max", "Prod") and tensor.op.get_attr("keep_dims"):
        return None
    inputs = [static_value(part, depth - 1, given) for part in tensor.op.inputs]
    if any(part is None for part in inputs):
        return None
    if tensor.op.type == "StridedSlice":
        return inputs[0][inputs[1][0]]
    if tensor.op.type == "Cast":
        return np.asarray(inputs[0]).astype(tensor.dtype.as_numpy_dtype)
    if tensor.op.type == "ConcatOffset":
        return _offset(tensor.value_index, *inputs)
    return _ARITHMETIC[tensor.op.type](*inputs)


def _takes_one(op):
    """Whether `op` takes one element of a vector, as in `tf.shape(x)[0]`."""
    return op.type == "StridedSlice" and op.inputs[0].shape.rank == 1 and op.get_attr("shrink_axis_mask") == 1


def _offset(part, axis, *sizes):
    """Where a part of a concatenation begins."""
    offset = np.zeros_like(sizes[0])
    offset[axis] = sum(each[axis] for each in sizes[:part])
    return offset
