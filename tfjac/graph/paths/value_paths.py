"""How values depend on values, into the bodies of loops and branches: whether gradients follow them, or not."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.copying.bodies import bodies_of
from tfjac.graph.facts import facts_of, is_loop
from tfjac.graph.reading.traversal import between, references, shape_only
from tfjac.types import Tensor


def depend_by_value(targets: Sequence[Tensor], sources: Any) -> bool:
    """Return whether the value of one of `targets` depends on those of `sources`, not on their shapes alone."""
    reached, _ = _walk(sources, targets)
    return bool(references(targets) & reached)


def gradient_stops_at(sources: Any, targets: Sequence[Tensor]) -> tf.Operation | None:
    """Return an op between `sources` and `targets` that passes values on but no gradients, or None.

    TensorFlow says nothing where it meets one: the gradient behind it counts as zero. In a map that is linear in the
    sources that is always wrong. Ops whose gradient is not registered at all are not looked for: there it raises.

    Args:
        sources, targets: tensors of one graph.
    """
    _, stops = _walk(sources, targets)
    return next(iter(stops), None)


def _walk(sources: Any, targets: Sequence[Tensor]) -> tuple:
    """The `ref()` of all tensors that values of the sources reach, and the ops at which gradients stop."""
    reached, stops = references(sources), []
    for op in between(sources, targets, constant=shape_only):
        carriers = {k for k, tensor in enumerate(op.inputs) if tensor.ref() in reached}
        if facts_of(op).bodies:
            outputs, inside = _walk_inside(op, carriers)
            stops += inside
            reached |= references(op.outputs[k] for k in outputs)
        elif carriers:
            stops += [] if _private.is_differentiable(op) else [op]
            reached |= references(op.outputs)
    return reached, stops


def _walk_inside(op: tf.Operation, carriers: Any) -> tuple:
    """The positions of the outputs to which a loop, branch or call passes values on from the inputs `carriers`.

    And the ops at which gradients stop. What chooses a branch, or ends a loop, does not count.
    """
    outputs: set[int] = set()
    stops: list[tf.Operation] = []
    for body in (body for attribute in facts_of(op).bodies for body in bodies_of(op, attribute)):
        first = len(op.inputs) - len(body.inputs)
        begins: set[int] = set()
        ends = {k - first for k in carriers if k >= first}
        while not ends <= begins:
            begins |= ends
            reached, inside = _walk([body.inputs[k] for k in begins], body.outputs)
            found = {k for k, output in enumerate(body.outputs) if output.ref() in reached}
            ends = found if is_loop(op) else begins
            outputs |= found
        stops += inside if begins else []
    return outputs, stops
