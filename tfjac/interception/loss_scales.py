"""Loss scales: what Keras multiplies a loss by before the backward pass, and divides the gradients of weights by after.

Keras does so under `mixed_float16`, and for `loss_scale_factor`. A handler that clips, adds or writes down must see the
gradient of the loss itself. So `scale_loss` of an optimizer marks the loss that it returns. The backward pass comes
to the mark first, and notes the factor; at an edited node the gradient is divided by it, and multiplied again below.
"""

import functools
import threading
import weakref
from typing import Any

import keras
import tensorflow as tf

from tfjac._warn import warn
from tfjac.graph import ancestors, custom_gradient, is_function_graph
from tfjac.types import Tensor


class _Noted(threading.local):
    """The factor of the backward pass that this thread traces or runs.

    Attributes:
        factor: scalar tensor; None for no scale.
        graph: weak reference to the graph of the pass; None in eager execution.
        mark: the op by which the pass begins; None in eager execution.
        inside: whether `scale_loss` of an optimizer is running, which may call that of another.
        early: for graphs with functions in them whose backward pass, with a handler in it, was traced before: that of
            the handler; the key is None for eager execution.
    """

    factor: Any = None
    graph: Any = None
    mark: Any = None
    inside = False

    def __init__(self) -> None:
        self.early: dict[Any, str] = {}


_noted = _Noted()


def see_loss_scales() -> None:
    """Have Keras' optimizers mark the losses that they scale, and forget an earlier eager pass."""
    for kind in keras.optimizers.Optimizer, keras.optimizers.LossScaleOptimizer:
        if not hasattr(kind.scale_loss, "marks"):
            kind.scale_loss = _marking(kind.scale_loss)
    if tf.executing_eagerly():
        _noted.factor = None


def loss_scale_of(gradient: Tensor, who: str) -> Tensor | None:
    """Return the factor of the loss that a gradient comes from; None if it is not scaled, or not yet known."""
    if tf.executing_eagerly():
        return _noted.factor if _noted.graph is None else None
    graph = tf.compat.v1.get_default_graph()
    outside = list(_graphs_around(graph))
    if _noted.factor is None or _noted.graph is None or _noted.graph() not in [graph, *outside]:
        if outside:
            _noted.early[_key(outside[0])] = who
        return None
    return _noted.factor if _noted.graph() is not graph or _noted.mark in ancestors([gradient]) else None


def _graphs_around(graph):
    """Yield the graphs around the body of a loop, a branch or a function, None at last if that is called eagerly."""
    while is_function_graph(graph):
        graph = graph.outer_graph
        yield graph if is_function_graph(graph) else None


def _key(graph):
    return None if graph is None else weakref.ref(graph)


def _marking(scale_loss):
    """Return a method like `scale_loss` whose result is marked."""

    @functools.wraps(scale_loss)
    def marking(optimizer, loss):
        if _noted.inside:
            return scale_loss(optimizer, loss)
        _noted.inside = True
        try:
            scaled = scale_loss(optimizer, loss)
            if scaled is loss:
                return loss
            return _marked(scaled, scale_loss(optimizer, tf.ones([])))
        finally:
            _noted.inside = False

    marking.marks = True  # type: ignore[attr-defined]
    return marking


def _marked(loss, factor):
    @custom_gradient
    def identity(x):
        def backward(gradient):
            gradient = tf.identity(gradient)
            symbolic = tf.is_symbolic_tensor(gradient)
            _noted.factor = factor
            _noted.graph = weakref.ref(gradient.graph) if symbolic else None
            _noted.mark = gradient.op if symbolic else None
            early = _noted.early.pop(_noted.graph, None)
            if early is not None:
                warn(_TOO_EARLY.format(early))
            return gradient

        return tf.identity(x), backward

    return identity(tf.convert_to_tensor(loss))


_TOO_EARLY = (
    "tfjac: {} is given the gradient times the loss scale. It is part of a tf.function that an eager tape "
    "differentiates, and was traced before the scale was known; tfjac.intercept makes one. Put a tfjac.hook "
    "on a layer, or train in mixed_bfloat16, which needs no scale. Received: a scaled loss"
)
