"""Handlers: what to do with the gradient at a node. Each function here returns one, for `intercept` and `hook`.

A handler is a function of the gradient, of gradient and value, or of gradient, value and `Node`, that returns what is
passed on. It is called when a backward pass is traced, and what it computes is part of that.
"""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.arguments import not_negative
from tfjac.graph import compiled_by_xla, custom_gradient
from tfjac.interception.edits import Edit, handled
from tfjac.interception.hooks import needs_python
from tfjac.types import Handler, Scalar, Tensor, TensorLike, Variable


def scale(factor: Scalar) -> Handler:
    """Return a handler that multiplies the gradient by a number, scalar tensor or variable."""
    return lambda gradient: _of_dtype(factor, gradient) * gradient


def reverse(factor: Scalar = 1.0) -> Handler:
    """Return a handler that multiplies the gradient by −`factor`, so that what is below it ascends.

    Reference: Y. Ganin, V. Lempitsky, "Unsupervised domain adaptation by backpropagation", 2015.
    """
    return lambda gradient: -_of_dtype(factor, gradient) * gradient


def stop() -> Handler:
    """Return a handler that passes zeros on."""
    return tf.zeros_like


def replace(gradient: TensorLike) -> Handler:
    """Return a handler that passes another gradient on: an array, tensor or variable, broadcast to the shape."""
    return lambda given: tf.broadcast_to(_of_dtype(gradient, given), tf.shape(given))


def clip_by_value(minimum: Scalar, maximum: Scalar) -> Handler:
    """Return a handler that clips each element of the gradient to [minimum, maximum].

    Raises:
        TypeError: where the gradient is complex; of two complex numbers none is the larger.
    """

    def clip(gradient, value, node):
        if gradient.dtype.is_complex:
            raise TypeError(
                "Complex numbers have no order by which to clip them: use clip_by_norm, or edit the real and the "
                f"imaginary part before they are put together. Received: {node} of dtype {gradient.dtype.name}"
            )
        return tf.clip_by_value(gradient, minimum, maximum)

    return clip


def clip_by_norm(clip_norm: Scalar, per_example: bool = True) -> Handler:
    """Return a handler that scales the gradient down to a Euclidean norm of at most `clip_norm`.

    Args:
        clip_norm: positive number or scalar tensor.
        per_example: whether each example, along axis 0, has a norm of its own.

    Raises:
        ValueError: for a negative number.
    """
    not_negative("clip_norm", clip_norm)

    def clip(gradient):
        axes = list(range(1, gradient.shape.rank)) if per_example else None
        return gradient if per_example and not axes and not gradient.shape.rank else _clipped(gradient, clip_norm, axes)

    return clip


def clip_by_global_norm(clip_norm: Scalar) -> Handler:
    """Return a handler that scales the gradient, of all examples together, to a norm of at most `clip_norm`.

    In functions of single examples, such as `per_example_gradients`, each example is alone in its backward pass, and is
    clipped alone.

    Raises:
        ValueError: for a negative number.
    """
    not_negative("clip_norm", clip_norm)
    return lambda gradient: _clipped(gradient, clip_norm, None)


def _clipped(gradient, clip_norm, axes):
    """Scale by min(1, c/‖g‖), in float32 at least: squares of half precision overflow."""
    wide = tf.cast(gradient, tf.float32) if gradient.dtype.size < 4 else gradient
    largest = tf.reduce_max(tf.abs(wide), axes, keepdims=True)
    unit = tf.where(largest > 0, largest, tf.ones_like(largest))
    norm = unit * tf.sqrt(tf.reduce_sum(tf.abs(wide / tf.cast(unit, wide.dtype)) ** 2, axes, keepdims=True))
    factor = tf.minimum(tf.ones_like(norm), _of_dtype(clip_norm, norm) / tf.where(norm > 0, norm, 1))
    return tf.cast(wide * tf.cast(factor, wide.dtype), gradient.dtype)


def add_noise(stddev: Scalar, seed: int | None = None) -> Handler:
    """Return a handler that adds Gaussian noise, drawn again at each run; to both parts of complex gradients."""

    def add(gradient):
        parts = _real_parts(gradient)
        seeds = [None if seed is None else seed + k for k in range(len(parts))]
        noise = [tf.random.normal(tf.shape(x), 0, stddev, x.dtype, each) for x, each in zip(parts, seeds)]
        return gradient + (noise[0] if len(noise) == 1 else tf.complex(*noise))

    return add


def straight_through(function: Callable[[Tensor], Any]) -> Edit:
    """Return an edit that computes `function` of the value forwards, and passes the gradient on as it is.

    Args:
        function: such as `tf.round`, or `lambda x: tf.one_hot(tf.argmax(x, -1), depth)`, from a tensor to one of the
            same shape; it need have no gradient.

    Reference: Y. Bengio, N. Léonard, A. Courville, "Estimating or propagating gradients through stochastic neurons for
    conditional computation", 2013.
    """

    @custom_gradient
    def through(x):
        return tf.cast(function(x), x.dtype), lambda gradient: gradient

    return Edit(forward=through)


class Record(NamedTuple):
    """What `record` writes down.

    Attributes:
        node: name of the node.
        step: number of the step.
        value: the gradient, or what `reduce` made of it, a NumPy array.
    """

    node: str
    step: int
    value: Any


def record(
    into: list[Record], every: int = 1, step: Variable | None = None, reduce: Callable[[Tensor], Any] | None = None
) -> Handler:
    """Return a handler that writes the gradient down, and passes it on.

    Args:
        into: list, to which a `Record` is appended.
        every: write down each step whose number is divisible by this.
        step: scalar integer variable with the number of the step, such as `optimizer.iterations`; where left out, the
            runs of this node are counted, from 0.
        reduce: function of the gradient that is computed in the graph, such as `tf.norm`, so that less is kept.

    It calls Python when it runs: `hook` turns XLA off in the models around while it is on.
    """
    counts: dict[str, int] = {}
    lock = threading.Lock()

    def write(node, value, number):
        with lock:
            if step is None:
                number = counts[node] = counts.get(node, -1) + 1
            if int(number) % every == 0:
                into.append(Record(node, int(number), value))

    def handle(gradient, value, node):
        given = gradient if reduce is None else reduce(gradient)
        _call_python(lambda given, number: write(node.name, given, number), given, 0 if step is None else step)
        return gradient

    return _python(handle)


def summary(writer: tf.summary.SummaryWriter, step: Variable, every: int = 1) -> Handler:
    """Return a handler that writes a histogram and the norm of the gradient for TensorBoard, and passes it on.

    Args:
        writer: a `tf.summary.SummaryWriter`.
        step: scalar integer variable with the number of the step, such as `optimizer.iterations`.
        every: write at each step whose number is divisible by this.

    It needs TensorBoard installed; `hook` turns XLA off in the models around while it is on.
    """

    def handle(gradient, value, node):
        _check_not_compiled()
        number = tf.cast(tf.convert_to_tensor(step), tf.int64)
        with writer.as_default(step=number), tf.summary.record_if(tf.equal(number % every, 0)):
            with tf.name_scope("gradients/"):  # with the slash, whatever the scope around
                tf.summary.histogram(node.name, tf.abs(gradient) if gradient.dtype.is_complex else gradient)
            with tf.name_scope("gradient_norms/"):
                tf.summary.scalar(node.name, tf.norm(tf.cast(tf.abs(gradient), tf.float32)))
        return gradient

    return _python(handle)


def check_finite(halt: bool = True, into: list[str] | None = None) -> Handler:
    """Return a handler that looks for NaN and Inf in the gradient.

    Put on several nodes, the first in the order of the backward pass is where they come from.

    Args:
        halt: whether to raise `tf.errors.InvalidArgumentError`, naming the node.
        into: list, to which the name of the node is appended.
    """

    def write(node, finite):
        if into is not None and not finite:
            into.append(node)

    def handle(gradient, value, node):
        if into is not None:
            finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(part)) for part in _real_parts(gradient)])
            _call_python(lambda finite: write(node.name, finite), finite)
        if not halt:
            return gradient
        checked = [
            tf.debugging.check_numerics(x, f"The gradient at {node} is not finite") for x in _real_parts(gradient)
        ]
        return checked[0] if len(checked) == 1 else tf.complex(*checked)

    return _python(handle) if into is not None or halt else handle


def _real_parts(gradient):
    return [tf.math.real(gradient), tf.math.imag(gradient)] if gradient.dtype.is_complex else [gradient]


def when(predicate: Callable[[Tensor], Any], handler: Handler, step: Variable | None = None) -> Handler:
    """Return a handler that is another's where a predicate of the step holds, and passes the gradient on elsewhere.

    Args:
        predicate: function of the number of the step, a scalar tensor, to a bool, such as `lambda s: s < 100`.
        handler: the other.
        step: scalar integer variable with the number of the step, such as `optimizer.iterations`; where left out, runs
            of this handler are counted, from 0.
    """
    counter: Any = None if step is not None else _counter()

    def handle(gradient, value, node):
        number = counter.assign_add(1) - 1 if step is None else tf.convert_to_tensor(step)
        chosen = tf.convert_to_tensor(predicate(number))
        return tf.cond(chosen, lambda: tf.identity(handled(handler, gradient, value, node)), lambda: gradient)

    return _python(handle) if needs_python(handler) else handle


def sequence(*handlers: Handler) -> Handler:
    """Return a handler that calls several, each with what the one before passed on."""

    def handle(gradient, value, node):
        for handler in handlers:
            gradient = handled(handler, gradient, value, node)
        return gradient

    return _python(handle) if any(map(needs_python, handlers)) else handle


def _of_dtype(given, like):
    """A number, array, tensor or variable in the dtype of a tensor; `tf.cast` would make float32 of a number first."""
    return tf.cast(given if tf.is_tensor(given) else np.asarray(given), like.dtype)


def _counter():
    with tf.init_scope():
        return tf.Variable(0, dtype=tf.int64, trainable=False)


def _python(handler):
    handler.needs_python = True
    return handler


def _call_python(function, *tensors):
    """Call a Python function with the values of tensors when the graph runs."""
    _check_not_compiled()
    tf.numpy_function(function, [tf.convert_to_tensor(tensor) for tensor in tensors], [])


def _check_not_compiled():
    if not tf.executing_eagerly() and compiled_by_xla(tf.compat.v1.get_default_graph()):
        raise ValueError(
            "This handler calls Python when it runs, which XLA cannot compile: use jit_compile=False, in compile() or "
            "tf.function. Received: a function traced for XLA"
        )
