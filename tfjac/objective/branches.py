"""Branches of a loss, as of `tf.cond`: all of them computed in the open, for the one that is taken to be selected."""

import tensorflow as tf

from tfjac.graph import bodies_of, check_not_assigned_since, culprit_in, transplant
from tfjac.types import Tensor


def branches(tensor: Tensor) -> list[Tensor]:
    """Return what `tensor`, an output of an op of `CHOICES`, is in each branch, computed in the current graph.

    Returns:
        A list of tensors, that of the number 0, or of False, first; empty where a branch cannot be computed without
        being taken, as it assigns or draws random numbers, or where the shapes differ.
    """
    op = tensor.op
    bodies = (
        bodies_of(op, "branches") if "Case" in op.type else bodies_of(op, "else_branch") + bodies_of(op, "then_branch")
    )
    outputs = [body.outputs[tensor.value_index] for body in bodies]
    shapes = {tuple(output.shape) if output.shape.rank is not None else None for output in outputs}
    if None in shapes or len(shapes) > 1 or any(culprit_in(output.graph) is not None for output in outputs):
        return []
    check_not_assigned_since(op)
    copies = [transplant([output], zip(body.inputs, op.inputs[1:])) for output, body in zip(outputs, bodies)]
    return [mapping[output.ref()] for mapping, output in zip(copies, outputs)]


def chosen(op: tf.Operation, values: list[Tensor]) -> Tensor | None:
    """Return the one of `values`, one for each branch, that belongs to the branch that `op` takes; None of none."""
    if not values:
        return None
    number = op.inputs[0] if op.inputs[0].dtype == tf.int32 else tf.cast(op.inputs[0], tf.int32)
    result = values[-1]  # that of a number out of range, too
    for index, value in enumerate(values[:-1]):
        result = tf.where(tf.equal(number, index), value, result)
    return result
