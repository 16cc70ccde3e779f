"""Attributes that ops bear beside those of their definition."""

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf


def gradient_name(op: tf.Operation) -> str | None:
    """Return the name under which the gradient of `op` is registered, where that is not its type; else None."""
    return text_attribute(op, "_gradient_op_type")


def integers_attribute(op: tf.Operation, name: str) -> list[int] | Any:
    """Return an attribute that `set_integers_attribute` set, or None where there is none."""
    return _attribute(op, name, "list", lambda value: list(value.i))


def text_attribute(op: tf.Operation, name: str) -> str | None:
    """Return an attribute that `set_text_attribute` set, or None where there is none."""
    return _attribute(op, name, "s", bytes.decode)


def _attribute(op: tf.Operation, name: str, kind: str, read: Callable[[Any], Any]) -> Any:
    """Attributes of ops whose names begin with an underscore are not of the op's definition; `get_attr` raises."""
    attributes = op.node_def.attr
    return read(getattr(attributes[name], kind)) if name in attributes else None


def set_text_attribute(op: tf.Operation, name: str, text: str | bytes) -> None:
    """Set an attribute of `op` to a string, or to bytes."""
    op._set_attr(name, tf.compat.v1.AttrValue(s=text if isinstance(text, bytes) else text.encode()))


def set_integers_attribute(op: tf.Operation, name: str, integers: Iterable[int]) -> None:
    """Set an attribute of `op` to a list of integers."""
    op._set_attr(name, tf.compat.v1.AttrValue(list=tf.compat.v1.AttrValue.ListValue(i=integers)))


def set_function_attribute(op: tf.Operation, name: str, function: Any) -> None:
    """Set an attribute of `op` to a function, which its graph's library then holds."""
    op.graph._add_function_recursive(function)
    op._set_func_attr(name, function.name)


def set_gradient(op: tf.Operation, name: str) -> None:
    """Have gradients through `op` taken by the function registered as `name` with `tf.RegisterGradient`.

    `Graph.gradient_override_map` only reaches ops made inside its scope.
    """
    set_text_attribute(op, "_gradient_op_type", name)


def clear_gradient(op: tf.Operation) -> None:
    """Have gradients through `op` taken as those of its type."""
    op._clear_attr("_gradient_op_type")
