"""Whether the backward of a custom gradient is linear in what flows back, as that of every Jacobian is.

One that is not, as one that clips, has rows all the same: a row is what flows back from one output alone. But rows do
not add up then, and where the backward adds something of its own, each row has it for every example.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.copying.bodies import bodies_of
from tfjac.graph.copying.inlining import inline_calls
from tfjac.graph.copying.transplanting import copy_ops
from tfjac.graph.facts import facts_of, is_constant, is_identities
from tfjac.graph.gradients import custom_gradients, mending
from tfjac.graph.paths.value_paths import depend_by_value, gradient_stops_at
from tfjac.graph.reading.static_values import static_value
from tfjac.graph.reading.traversal import Inherited, ancestors, between, references
from tfjac.types import Tensor


def custom_ops(ops: Iterable[tf.Operation]) -> list[tf.Operation]:
    """List the ops with a custom gradient that was traced, in the bodies of loops, branches and calls too."""
    return [op for op in _custom(ops) if custom_gradients.reason_untraced(op) is None]


def _custom(ops: Iterable[tf.Operation]) -> list[tf.Operation]:
    """All ops with a custom gradient, whether it can be traced or not."""
    return [op for op in ops if custom_gradients.is_custom(op)] + _custom_inside(ops)


def _custom_inside(ops: Iterable[tf.Operation]) -> list[tf.Operation]:
    bodies = [body for op in ops for attribute in facts_of(op).bodies for body in bodies_of(op, attribute)]
    return [op for body in bodies for op in _custom(ancestors(body.outputs))]


def as_computed(targets: Sequence[Tensor], sources: Any) -> Sequence[Tensor]:
    """Return tensors equal to `targets` whose derivative by `sources` is that of what is computed.

    A custom gradient states another one, which may be wrong: on the way from the sources ops have that of their type.

    Args:
        targets, sources: lists of tensors of the current graph.

    Raises:
        LookupError: for custom gradients in the bodies of loops and branches on the way.
        ValueError: as `inline_calls`, for calls on the way, where there are custom gradients.
    """
    if not _custom(between(sources, targets)):
        return targets
    targets = inline_calls(targets, depends_on=sources)
    copies: dict[Any, Tensor] = {}
    path = between(sources, targets)
    inside = _custom_inside(path)
    if inside:
        raise LookupError(
            "a custom gradient in a loop or branch of a backward may state another derivative than that of what is "
            f"computed, that of op {inside[0].name!r} of type {inside[0].type}"
        )
    copy_ops(path, copies, _without_custom_gradient)
    return [copies.get(target.ref(), target) for target in targets]


def _without_custom_gradient(op: tf.Operation, inputs: Any, copied: Callable) -> Any:
    if not custom_gradients.is_custom(op):
        return copied()
    if is_identities(op):
        return inputs
    copy = _private.copy_op(op, inputs)
    _private.clear_gradient(copy)
    mending.mend([copy])
    return copy.outputs


def adds_its_own(gradient: Any, cotangents: Any) -> bool:
    """Return whether a gradient may be other than zero where all cotangents are: it adds what does not flow back.

    Args:
        gradient: tensor of the graph of a backward, calls inlined.
        cotangents: list of tensors of that graph.
    """
    flowing = references(cotangents)

    def vanishing(op: tf.Operation, inputs_vanish: Sequence[bool]) -> list[bool]:
        zero_where = facts_of(op).vanishes
        if zero_where == "each for itself":
            return [zero or output.ref() in flowing for zero, output in zip(inputs_vanish, op.outputs)]
        vanishes = _vanishes(op, zero_where, inputs_vanish)
        return [vanishes or output.ref() in flowing for output in op.outputs]

    return not Inherited(vanishing)(gradient)


def _vanishes(op: tf.Operation, zero_where: Any, inputs_vanish: Sequence[bool]) -> Any:
    """Whether the outputs of `op` are zero where the inputs are of which that is said."""
    if zero_where in ("never", "always"):
        return zero_where == "always"
    if zero_where == "where all do":
        floating = [k for k, x in enumerate(op.inputs) if x.dtype.is_floating or x.dtype.is_complex]
        return all(inputs_vanish[k] for k in floating)
    if zero_where is not None:
        limits = [x for x, zero in zip(op.inputs, inputs_vanish) if not zero]
        return any(inputs_vanish) and all(zero_where(static_value(limit)) for limit in limits)
    return any(inputs_vanish) or _is_zero(op)


def _is_zero(op: tf.Operation) -> bool:
    if not is_constant(op) or not (op.outputs[0].dtype.is_floating or op.outputs[0].dtype.is_complex):
        return False
    value = static_value(op.outputs[0])
    return value is not None and not value.any()


def is_affine(op: tf.Operation) -> bool:
    """Return whether the backward of an op with a custom gradient adds something of its own to what flows back."""
    cotangents, targets = _readable(custom_gradients.backward_of(op))
    return any(adds_its_own(target, cotangents) for target in targets)


def first_not_linear(ops: Iterable[tf.Operation]) -> tf.Operation | None:
    """Return the first custom gradient among ops that is not proved to be linear in what flows back, or None."""
    return next((op for op in custom_ops(ops) if not is_linear(op)), None)


def is_linear(op: tf.Operation) -> bool:
    """Return whether the backward of an op with a custom gradient is proved to be linear in what flows back.

    It is where it has a derivative that does not depend on the cotangents, and is zero where they are. The derivative
    is that of what the backward computes, whatever custom gradients of its own state.
    """
    backward = custom_gradients.backward_of(op)
    cotangents, targets = _readable(backward)
    if any(adds_its_own(target, cotangents) for target in targets):
        return False
    with backward.graph.as_default():
        try:
            targets = as_computed(targets, cotangents)
            if gradient_stops_at(cotangents, targets):
                return False
            slopes = tf.gradients(targets, cotangents)
        except (LookupError, NotImplementedError):
            return False
    return not depend_by_value([slope for slope in slopes if slope is not None], cotangents)


def _readable(backward: Any) -> tuple:
    """The cotangents and the gradients that there are, calls inlined."""
    with backward.graph.as_default():
        targets = inline_calls(backward.targets, draw_again=True)
    return [cotangent for cotangent in backward.cotangents if cotangent is not None], targets
