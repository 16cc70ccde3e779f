"""Loops and branches written again in another graph, with bodies that are copies.

TensorFlow's gradients of a loop or branch read the graphs of its bodies, and what these hold must belong to the graph
around: calls inlined and custom gradients closed as everywhere else in a copy.
"""

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.facts import is_branching, is_call, is_conditional, is_identity, is_loop
from tfjac.graph.gradients import custom_gradients
from tfjac.types import Copies, Tensor, TensorPairs


def is_rebuilt(op: tf.Operation) -> bool:
    """Return whether a copy of `op` in another graph is written again: branches, and loops with custom gradients."""
    if is_branching(op):
        return True
    return is_loop(op) and any(map(_has_custom_gradient, _private.function_bodies(op, "body")[0].get_operations()))


def _has_custom_gradient(op: tf.Operation) -> bool:
    if is_loop(op) or is_branching(op):
        return is_rebuilt(op)
    return custom_gradients.is_custom(op) or is_call(op)


def rebuilt(
    op: tf.Operation, inputs: Sequence[Tensor], copied: Callable[[Sequence[Tensor], TensorPairs], Copies]
) -> list[Tensor]:
    """Return the outputs of a loop or branch like `op` that reads `inputs`, in the current graph.

    Args:
        op: an op for which `is_rebuilt`.
        copied: function `(targets, pairs) -> dict` that copies part of a body, as `transplant` does.
    """
    return _rebuilt_loop(op, inputs, copied) if is_loop(op) else _rebuilt_branches(op, inputs, copied)


def _rebuilt_loop(
    op: tf.Operation, inputs: Sequence[Tensor], copied: Callable[[Sequence[Tensor], TensorPairs], Copies]
) -> list[Tensor]:
    """What a step passes on as it is is read from around the loop."""
    (body,), (condition,) = _private.function_bodies(op, "body"), _private.function_bodies(op, "cond")
    changing = [k for k, output in enumerate(body.outputs) if _behind_identities(output) is not body.inputs[k]]

    def values_in(function: tf.Graph, states: Mapping[int, Tensor]) -> list[tuple[Tensor, Tensor]]:
        return [(function.inputs[k], states.get(k, outer)) for k, outer in enumerate(inputs)]

    def again(*states: Tensor) -> Tensor:
        (decision,) = condition.outputs
        return copied([decision], values_in(condition, dict(zip(changing, states))))[decision.ref()]

    def step(*states: Tensor) -> list[Tensor]:
        mapping = copied([body.outputs[k] for k in changing], values_in(body, dict(zip(changing, states))))
        return [_of_shape(mapping[body.outputs[k].ref()], shape) for k, shape in zip(changing, shapes)]

    limit = tf.get_static_value(inputs[1]) if inputs[1].dtype == tf.int32 else -1
    shapes = [body.inputs[k].shape for k in changing]
    results = tf.while_loop(
        again, step, [inputs[k] for k in changing], shapes, maximum_iterations=None if limit == -1 else inputs[1]
    )
    found = dict(zip(changing, results))
    return [found.get(k, outer) for k, outer in enumerate(inputs)]


def _of_shape(tensor: Tensor, shape: tf.TensorShape) -> Tensor:
    """What a step ends with, in the shape in which it begins; steps that `tf.vectorized_map` made forget some of it."""
    return tensor if tensor.shape.is_subtype_of(shape) else tf.ensure_shape(tensor, shape)


def _rebuilt_branches(
    op: tf.Operation, inputs: Sequence[Tensor], copied: Callable[[Sequence[Tensor], TensorPairs], Copies]
) -> list[Tensor]:
    chosen, *rest = inputs
    if is_conditional(op):
        bodies = _private.function_bodies(op, "else_branch") + _private.function_bodies(op, "then_branch")
        chosen = tf.cast(tf.cast(chosen, tf.bool), tf.int32)
    else:
        bodies = _private.function_bodies(op, "branches")

    def run(body: tf.Graph) -> list[Tensor]:
        mapping = copied(body.outputs, list(zip(body.inputs, rest)))
        return [mapping[output.ref()] for output in body.outputs]

    return tf.switch_case(chosen, [lambda body=body: run(body) for body in bodies]) if op.outputs else []


def _behind_identities(tensor: Tensor) -> Tensor:
    """What `tensor` is passed on from unchanged; one that has a name, and may be edited, counts as a change."""
    while is_identity(tensor.op) and not _is_marked(tensor.op):
        tensor = tensor.op.inputs[0]
    return tensor


def _is_marked(op: tf.Operation) -> bool:
    """Return whether `op` has attributes of this package, such as the name of a tap."""
    return any(name.startswith("_tfjac") for name in op.node_def.attr)
