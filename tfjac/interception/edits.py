"""Edits: what a node's value and its gradient are turned into."""

import dataclasses
import inspect
from collections.abc import Callable

import tensorflow as tf

from tfjac.graph import Dependence, after_effects, call_converted, custom_gradient, mark_op
from tfjac.interception.loss_scales import loss_scale_of, see_loss_scales


@dataclasses.dataclass(frozen=True)
class Edit:
    """What is changed at a node.

    Attributes:
        forward: function `value -> value` whose result all that follows is computed with, of the same shape and dtype:
            patch an activation, ablate it. The gradient passes through it as through any function of TensorFlow.
        backward: handler `gradient -> gradient`, called with the gradient with respect to what `forward` returned. What
            it returns, of the same shape and dtype, is passed on. A handler with two positional parameters is given
            the value of the node, too, and one with three the `Node`. Where Keras scales the loss, as under
            `mixed_float16`, the gradient is that of the loss itself, and both are given in single precision at least.

    Raises:
        TypeError: where one of them is not callable.
        ValueError: where both are left out.
    """

    forward: Callable | None = None
    backward: Callable | None = None

    def __post_init__(self):
        """Check what was given."""
        for name, function in (("forward", self.forward), ("backward", self.backward)):
            if function is not None and not callable(function):
                raise TypeError(
                    f"{name} must be a function of a tensor. Received: {function!r} of type {type(function).__name__}"
                )
        if self.forward is None and self.backward is None:
            raise ValueError("An edit needs forward=, backward= or both. Received: neither")


def as_edit(edit):
    """Return an `Edit`: itself, or one of a handler alone."""
    return edit if isinstance(edit, Edit) else Edit(backward=edit)


def edited(value, edit, node, who=None):
    """Return what stands for `value`, a tensor of the graph being traced, under an `Edit` at `node`.

    Args:
        value: tensor.
        edit: `Edit`.
        node: `Node`.
        who: what to call the edit where the reason of a gradient is asked for; one of `intercept` if left out.
    """
    result = _edited(value, edit, node)
    if tf.is_symbolic_tensor(value) and tf.is_symbolic_tensor(result) and value is not result:
        for op in Dependence([value], by_value=True).path([result]):
            mark_op(op, who or f"an edit of tfjac.intercept at {node.name!r}")
    return result


def _edited(value, edit, node):
    if edit.forward is not None:
        value = _checked(call_converted(edit.forward, value), value, f"The forward edit of {node}")
    if edit.backward is None:
        return value
    if not (value.dtype.is_floating or value.dtype.is_complex):
        raise TypeError(
            "No gradient passes a node that is no floating-point tensor: edit one before or after it. "
            f"Received: a backward edit of {node}, of dtype {value.dtype.name}"
        )
    return with_backward(value, edit.backward, node)


def with_backward(value, handler, node):
    """Return an identity of `value` whose gradient the handler is given, to pass on what it returns."""
    see_loss_scales()

    @custom_gradient
    def passed_on(x):
        def backward(gradient):
            gradient, who = tf.convert_to_tensor(gradient), f"The handler of {node}"
            return after_effects(lambda: [_passed_on(handler, gradient, x, node, who)])

        return tf.identity(x), backward

    return passed_on(value)


def _passed_on(handler, gradient, value, node, who):
    """Return what a handler makes of a gradient; of the gradient of the loss itself, if that was scaled.

    A scale is there since the true gradient may be too small for half precision: then it is computed in single.
    """
    scale = loss_scale_of(gradient, who)
    if scale is None:
        return _checked(handled(handler, gradient, value, node), gradient, who)
    wide = tf.float32 if gradient.dtype.size < 4 else gradient.dtype
    true, scale = tf.cast(gradient, wide) / tf.cast(scale, wide), tf.cast(scale, wide)
    result = _checked(handled(handler, true, tf.cast(value, wide), node), true, who)
    return tf.cast(result * scale, gradient.dtype)


def handled(handler, gradient, value, node):
    """Call a handler with as many of these as it has positional parameters without a default."""
    return call_converted(handler, *(gradient, value, node)[: _number_of_parameters(handler)])


def _checked(result, like, who):
    """Convert what a user's function returned to a tensor that can stand where `like` stood."""
    if result is None:
        raise TypeError(f"{who} must return a tensor; tfjac.handlers.stop() passes zeros on. Received: None")
    given = result
    if not tf.is_tensor(result):
        result = tf.convert_to_tensor(result, like.dtype)
    if result.dtype != like.dtype or not result.shape.is_compatible_with(like.shape):
        raise ValueError(
            f"{who} must return a tensor of the shape and dtype that it was given: {like.shape}, {like.dtype.name}. "
            f"Received: {getattr(given, 'shape', given)}, {result.dtype.name}"
        )
    if tf.is_symbolic_tensor(like) and not tf.is_symbolic_tensor(result):
        result = tf.identity(result)  # TensorFlow asks its name, which a tensor from outside has not
    return result if result.shape.is_fully_defined() else tf.ensure_shape(result, like.shape)


def _number_of_parameters(handler):
    """How many positional arguments a handler takes, of the three that there are: gradient, value, node."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):  # builtins tell nothing
        return 1
    required = [each for each in parameters if each.kind in kinds and each.default is inspect.Parameter.empty]
    return min(max(len(required), 1), 3)
