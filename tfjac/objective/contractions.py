"""Products of a tensor with itself, summed: matrix products and einsums that are sums of squares.

eᵀe, `einsum("ij,ij->i", e, e)`, `tensordot(e, e, 2)`, the trace of eᵀe. Axes are named by letters as in an einsum; both
operands are followed back to what they are rearrangements of, and where they name the same axes of the same tensor, the
contraction is a sum of its squares.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from tfjac.graph import axis_labels
from tfjac.graph.op_types import CONTRACTIONS
from tfjac.types import Tensor


@dataclasses.dataclass
class _Product:
    """An einsum: out[labels] = Σ left·right; each operand is a pair of a tensor and the labels of its axes."""

    left: tuple
    right: tuple
    labels: list


def contraction_with_itself(op: tf.Operation) -> Tensor | None:
    """Return a tensor equal to the output of `op`, as a sum of squares; None where `op` is not such a product."""
    if op.type == "Reshape" and op.outputs[0].shape.num_elements() == 1:  # says of tensordot that nothing is left over
        product = _product(op.inputs[0].op)
        total = None if product is None else _as_squares(product, set(product.labels))
        return None if total is None else tf.reshape(total, op.outputs[0].shape)
    product = _product(op)
    return None if product is None else _as_squares(product, set())


def _as_squares(product: "_Product", ones: set) -> Tensor | None:
    """Return the sum of squares that `product` is, or None; `ones` are labels that are known to be of size one."""
    (left, labels), (right, other_labels) = _untransposed(*product.left), _untransposed(*product.right)
    ones = ones | _labels_of_size_one(left, labels) | _labels_of_size_one(right, other_labels)
    squared = labels == other_labels and same(left, right)
    strip = lambda given: [label for label in given if label not in ones]  # noqa: E731
    squared = squared or (strip(labels) == strip(other_labels) and same(_flat(left), _flat(right)))
    return _sum_of_squares(left, labels, product.labels) if squared else None


def _sum_of_squares(tensor: Tensor, labels: list, wanted: Any) -> Tensor:
    """Sum the squares over the labels that are not wanted, and order the others; a label it has not is of size one."""
    summed = tf.reduce_sum(tf.square(tensor), [axis for axis, label in enumerate(labels) if label not in wanted])
    left = [label for label in labels if label in wanted]
    order = [left.index(label) for label in wanted if label in left]
    summed = summed if order == sorted(order) else tf.transpose(summed, order)
    for axis, label in enumerate(wanted):
        summed = summed if label in left else tf.expand_dims(summed, axis)
    return summed


def _product(op: tf.Operation) -> "_Product | None":
    """Return the `_Product` that `op` computes, or None."""
    if op.type in _DIAGONALS:
        return _diagonal(op)
    ranks = [tensor.shape.rank for tensor in op.inputs]
    if op.type not in CONTRACTIONS or None in ranks or len(ranks) != 2 or not op.outputs[0].dtype.is_floating:
        return None
    operands, output = axis_labels(op)
    if any(len(set(labels)) < len(labels) for labels in (*operands, output)):
        return None
    left, right = zip(op.inputs, operands)
    return _Product(left, right, output)


_DIAGONALS = ("DiagPart", "MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")


def _diagonal(op: tf.Operation) -> "_Product | None":
    """The product whose diagonal `op` takes: the last two labels become one."""
    main = op.type in ("DiagPart", "MatrixDiagPart") or _is_zero(op.inputs[1])
    product = _product(op.inputs[0].op) if main else None
    if product is None or len(product.labels) < 2 or (op.type == "DiagPart" and len(product.labels) > 2):
        return None
    kept, dropped = product.labels[-2:]
    rename = lambda labels: [kept if label == dropped else label for label in labels]  # noqa: E731
    operands = [(tensor, rename(labels)) for tensor, labels in (product.left, product.right)]
    distinct = all(len(set(labels)) == len(labels) for _, labels in operands)
    return _Product(operands[0], operands[1], product.labels[:-1]) if distinct else None


def _is_zero(tensor: Tensor) -> bool:
    value = tf.get_static_value(tensor)
    return value is not None and not value.any()


def _untransposed(tensor: Tensor, labels: list) -> tuple[Tensor, list]:
    """Follow transpositions back, with the labels of the axes."""
    while tensor.op.type in ("Identity", "Transpose"):
        if tensor.op.type == "Transpose":
            order = tf.get_static_value(tensor.op.inputs[1])
            if order is None:
                break
            labels = [label for _, label in sorted(zip(order, labels))]
        tensor = tensor.op.inputs[0]
    return tensor, labels


def _flat(tensor: Tensor) -> Tensor:
    """Follow back the ops that leave the elements in their order."""
    keeping = ("EnsureShape", "ExpandDims", "Identity", "Reshape", "Squeeze")
    while tensor.op.type in keeping or _adds_axes(tensor.op) or _keeps_the_axes(tensor.op):
        tensor = tensor.op.inputs[0]
    return tensor


def _keeps_the_axes(op: tf.Operation) -> bool:
    """Return whether `op` is a transposition that does nothing, as there may be in `tf.tensordot`."""
    order = tf.get_static_value(op.inputs[1]) if op.type == "Transpose" else None
    return order is not None and (order == sorted(order)).all()


def _adds_axes(op: tf.Operation) -> bool:
    """Return whether `op` is a slice such as `x[:, None]`, which takes everything and adds axes of size one."""
    if op.type != "StridedSlice" or op.get_attr("shrink_axis_mask"):
        return False
    strides = tf.get_static_value(op.inputs[3])
    masks = [op.get_attr(name) for name in ("new_axis_mask", "ellipsis_mask")]
    whole = op.get_attr("begin_mask") & op.get_attr("end_mask") | masks[0] | masks[1]
    return strides is not None and (strides == 1).all() and whole == (1 << len(strides)) - 1


def _labels_of_size_one(tensor: Tensor, labels: list) -> set:
    return {label for label, size in zip(labels, tensor.shape) if size == 1}


def same(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors are one, or the same written twice, as the factors of (y − p) * (y − p) are."""
    pending, seen = [(one, other)], set()
    while pending:
        left, right = pending.pop()
        if left is right or (left.ref(), right.ref()) in seen:
            continue
        seen.add((left.ref(), right.ref()))
        if not _alike(left, right):
            return False
        pending += zip(left.op.inputs, right.op.inputs)
    return True


def _alike(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors are the same if the inputs of their ops are."""
    left, right = one.op, other.op
    if left.type != right.type or one.value_index != other.value_index or len(left.inputs) != len(right.inputs):
        return False
    repeatable = left.type == "Const" or (
        left.inputs and (left.type == "ReadVariableOp" or not left.op_def.is_stateful)
    )
    return repeatable and dict(left.node_def.attr) == dict(right.node_def.attr)
