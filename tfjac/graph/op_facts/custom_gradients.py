"""Custom gradients: what their backward does to the cotangents of different examples."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.copying.inlining import inline_calls
from tfjac.graph.examples.example_rules import CUSTOM, SHARED, Axis, ExampleAxis, NoRule, Wanted, known_shape
from tfjac.graph.facts import declare
from tfjac.graph.gradients.custom_gradients import Backward, backward_of, reason_untraced
from tfjac.graph.paths.linearity import is_affine

_REASON = "_tfjac_mixes"
"""The attribute that says why the backward of an op combines examples, where whoever made it knows better."""


def explain_mixing(op: tf.Operation, reason: str) -> None:
    """Have the error of an op with a custom gradient that combines the cotangents of different examples say why."""
    _private.set_text_attribute(op, _REASON, reason)


def _custom(op: tf.Operation, outputs: Mapping[int, Axis], wanted: Wanted) -> list[Axis]:
    """An input is per example where slice n of its gradient comes from slices n of the cotangents alone.

    What else the backward reads, and how, is of no matter: a row of the Jacobian is linear in cotangents only. The
    gradient of a weight adds up what the examples give; their cotangents are told apart before it does.
    """
    if reason_untraced(op) is not None:
        raise NoRule(f"its custom gradient cannot be traced ({reason_untraced(op)})")
    if is_affine(op):
        raise NoRule(
            "its custom gradient adds something of its own to what flows back, which every row of the Jacobian would "
            "have for all examples"
        )
    backward = backward_of(op)
    axes = [
        outputs.get(k, SHARED) if gradient is None else _axis_of(op, k, backward, outputs, wanted)
        for k, gradient in enumerate(backward.gradients)
    ]
    wanted.meet(op, [pair for pair in zip(op.inputs, axes) if pair[1] is not SHARED])
    return axes


def _axis_of(op: tf.Operation, index: int, backward: Backward, outputs: Mapping[int, Axis], wanted: Wanted) -> Axis:
    """The example axis of an input, proved from its gradient."""
    tensor, gradient = op.inputs[index], backward.gradients[index]
    cotangents = [(backward.cotangents[k], axis) for k, axis in outputs.items() if backward.cotangents[k] is not None]
    assert gradient is not None
    with gradient.graph.as_default():
        (gradient,) = inline_calls([gradient], draw_again=True)
    for axis in dict.fromkeys(axis for axis in outputs.values() if axis is not SHARED):
        for candidate in _candidates(axis, known_shape(wanted, tensor), wanted.num_examples):
            if wanted.keeps_apart(cotangents, gradient, candidate):
                return candidate
    if tensor.shape.rank == 0 or wanted.depends_on_no_data(tensor):
        return SHARED
    known = _private.text_attribute(op, _REASON)
    raise NoRule(known or "its custom gradient combines the cotangents of different examples, or may")


def _candidates(axis: ExampleAxis, shape: Sequence[int | Any], num_examples: int | None) -> list[ExampleAxis]:
    """The axes along which a tensor of this shape may carry examples that an output carries along `axis`."""
    positions = sorted(range(len(shape)), key=lambda k: k != axis.axis)
    if num_examples is None or axis.inner is None:
        return [axis.moved(k) for k in positions]
    return [axis.moved(k) for k in positions if shape[k] in (None, axis.outer * num_examples * axis.inner)]


declare(CUSTOM, axes_of_body=_custom)
