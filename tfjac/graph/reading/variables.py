"""Variables as a graph sees them: a captured handle, and the tensors read from it."""

import re
import threading
from typing import Any

import keras
import tensorflow as tf

from tfjac.arguments import described_value
from tfjac.graph import _private
from tfjac.types import Tensor


def as_tf_variable(variable: Any) -> tf.Variable:
    """Return the `tf.Variable` behind `variable` (itself, or the value of a `keras.Variable`).

    Raises:
        TypeError: for anything else, with what was received.
    """
    value = variable.value if isinstance(variable, keras.Variable) else variable
    if not isinstance(value, tf.Variable):
        if isinstance(variable, keras.Layer) or is_of_keras_2(variable):
            raise TypeError(
                "A model or layer is not a variable: pass its weights, model.trainable_variables. "
                f"Received: {variable!r} of type {type(variable).__name__}"
            )
        raise TypeError(
            "A variable must be a tf.Variable or a keras.Variable; pass the variable itself, not its value. "
            f"Received: {described_value(variable)}"
        )
    return value


def is_of_keras_2(x: Any) -> bool:
    """Return whether x is an object of tf_keras, which is Keras 2, such as a layer or model."""
    return any(kind.__module__.startswith("tf_keras.") for kind in type(x).__mro__) and not isinstance(x, tf.Variable)


def is_variable(x: Any) -> bool:
    """Return whether x is a variable; `tf.is_tensor` says yes to Keras' variables too."""
    return isinstance(x, (tf.Variable, keras.Variable))


def name_of_variable(variable: Any) -> str:
    """Return the path of a Keras variable, such as "net/dense/kernel", or the name of one of TensorFlow's."""
    return variable.path if isinstance(variable, keras.Variable) else re.sub(r"(/replica_\d+)?:0$", "", variable.name)


def handle_in(graph: Any, variable: Any) -> Tensor | None:
    """Return the tensor that is the handle of `variable` in `graph`, or None where the graph never uses it."""
    handle = as_tf_variable(variable).handle
    if getattr(handle, "graph", None) is graph:
        return handle
    placeholder = _private.captured_placeholder(graph, handle)
    outer = _private.outer_graph(graph)
    if placeholder is None and outer is not None and _private.is_function_graph(outer):
        placeholder = _private.captured_placeholder(graph, handle_in(outer, variable))
    return placeholder


def source_in(graph: Any, x: Any) -> Tensor | None:
    """Return what stands for x in `graph`: the handle of a variable, None where it is never used; a tensor itself."""
    return x if tf.is_symbolic_tensor(x) else handle_in(graph, x)


def handle_here(variable: Any) -> Tensor:
    """Return the handle of `variable` in the graph being traced, capturing it where need be.

    A loop body that took the handle from the graph around it instead would hold it twice, and automatic control
    dependencies would not see that a read through one follows an assignment through the other.
    """
    return tf.compat.v1.get_default_graph().capture(as_tf_variable(variable).handle)


def captured_tensor(graph: Any, eager: Tensor) -> Tensor | None:
    """Return the tensor that stands for an eager one in `graph`, or None where the graph never uses it."""
    return _private.captured_placeholder(graph, eager)


class KeptVariables(threading.local):
    """Variables of float64 that are the same in each call of a thread, so that graphs traced before are used again."""

    def __init__(self) -> None:
        self._by_size: dict[int, tf.Variable] = {}

    def of_size(self, count: int) -> tf.Variable:
        """Return the variable `[count]`. What it holds after a call is not read."""
        if count not in self._by_size:
            with tf.init_scope():
                self._by_size[count] = tf.Variable(tf.zeros([count], tf.float64), name="parameters")
        return self._by_size[count]
