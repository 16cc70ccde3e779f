"""What may stand for `ys`: a tensor of the surrounding `tf.function`, or a callable that returns one."""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tfjac.arguments import described_value
from tfjac.graph import _private
from tfjac.graph.copying.inlining import inline_calls
from tfjac.graph.nodes import is_selector, layers_tapped, with_tensors
from tfjac.graph.reading.python_values import refusing_values
from tfjac.graph.reading.variables import is_variable
from tfjac.graph.running.functions import call_converted, quiet_function
from tfjac.types import NestLike, Tensor, Tensors

_NONE = object()
"""In the place of xs where there are none; None is what may have been passed for them."""

_COMPOSITE = (
    (tf.RaggedTensor, ".flat_values"),
    (tf.SparseTensor, ".values"),
    (tf.IndexedSlices, ".values"),
)
"""What TensorFlow takes for tensors, made of several, and where their numbers are."""


def in_graph(
    compute: Callable[..., Any],
    ys: Tensors,
    may_be_complex: bool = False,
    xs: Any = _NONE,
    tapped: bool = False,
    is_one: bool = False,
) -> Any:
    """Return `compute(tensors)` with `ys` as tensors of the current graph.

    Args:
        compute: function of the (nest of) tensors; it may read their graph and add to it.
        ys: a tensor, or nest of tensors, of the `tf.function` being traced; or a callable without arguments that
            returns it. A callable is traced in place inside a `tf.function`, and in a new one where this is called
            eagerly: wrap repeated eager calls in a `tf.function` of your own, to trace once.
        may_be_complex: whether `ys` may be complex, too.
        xs: nest of what is differentiated with respect to, where it may hold selectors of nodes. `compute` is given it,
            too, with tensors in their place; what Keras layers return is tapped while a callable is traced for it.
        tapped: whether what Keras layers return is tapped then, anyhow.
        is_one: whether ys must be one tensor, and no nest.

    Raises:
        ValueError: for a tensor that is not of the graph being traced.
        TypeError: for what is neither callable nor a floating-point tensor.
    """
    traced = _tracing(compute, ys, may_be_complex, xs, tapped, is_one)
    return quiet_function(traced)() if callable(ys) and tf.executing_eagerly() else traced()


def read_graph(read: Callable[..., Any], ys: Tensors, xs: Any = _NONE) -> Any:
    """Return what `read(tensors)` says of `ys`, tensors of the current graph then; any value of Python's. Runs nothing.

    Args:
        read: function of the (nest of) tensors, and of xs where they are given.
        ys, xs: as in `in_graph`; they may be complex.

    Raises:
        As `in_graph` does.
    """
    traced = _tracing(read, ys, may_be_complex=True, xs=xs)
    if not callable(ys) or not tf.executing_eagerly():
        return traced()
    said = []
    tf.function(lambda: said.append(traced()), autograph=False).get_concrete_function()
    return said[-1]


def _tracing(
    compute: Callable[..., Any],
    ys: Tensors,
    may_be_complex: bool,
    xs: Any = _NONE,
    tapped: bool = False,
    is_one: bool = False,
) -> Callable[[], Any]:
    """The function without arguments that checks ys, or what they return, and hands them to `compute`."""

    def checked(tensors: NestLike) -> NestLike:
        if is_one and tf.nest.is_nested(tensors):
            raise TypeError(
                "ys must be one tensor here: call this for each, or join them by tf.concat along an axis of outputs. "
                f"Received: a {type(tensors).__name__} of {len(tf.nest.flatten(tensors))}"
            )
        return tf.nest.map_structure(lambda tensor: _checked(tensor, may_be_complex), tensors)

    selecting = xs is not _NONE and any(map(is_selector, tf.nest.flatten(xs)))

    def computed(tensors: NestLike) -> Any:
        with _refused_by_name():
            if xs is _NONE:
                return compute(tensors)
            sources, tensors = with_tensors(xs, tensors) if selecting else (xs, tensors)
            return compute(tensors, sources)

    def traced() -> Any:
        if not callable(ys):
            return computed(checked(ys))
        with layers_tapped() if selecting or tapped else contextlib.nullcontext(), _explained(ys):
            tensors = call_converted(ys)
        return computed(_unseen(checked(tensors)))

    return traced


@contextlib.contextmanager
def _explained(ys: Callable) -> Iterator[None]:
    """Say of a callable that asks for arguments, or for values, what to pass in its place."""
    try:
        with refusing_values("ys", "tfjac.explain_gradient, called eagerly, names the line"):
            yield
    except TypeError as error:
        if _takes_no_arguments(inspect.unwrap(ys)):
            raise
        raise TypeError(
            "ys must be a callable without arguments: pass lambda: model(x) in the place of a model, lambda: f(x) in "
            f"that of a function f. Received: {described_value(inspect.unwrap(ys))}"
        ) from error


@contextlib.contextmanager
def _refused_by_name() -> Iterator[None]:
    """Say of a gradient that TensorFlow has not, as that of `tf.recompute_grad` for the second time, what to do."""
    try:
        yield
    except NotImplementedError as refusal:
        if "recompute_grad" not in str(refusal):  # black boxes have words for it themselves
            raise
        raise LookupError(
            "A custom gradient on the way cannot be differentiated again, as that of tf.recompute_grad: compute ys "
            f"without it where second derivatives are taken. Received: {refusal}"
        ) from refusal


def _takes_no_arguments(function: Any) -> bool:
    try:
        signature = inspect.signature(function.call if isinstance(function, keras.Layer) else function)
    except (TypeError, ValueError):  # builtins tell nothing
        return True
    try:
        signature.bind()
    except TypeError:
        return False
    return True


def _unseen(tensors: NestLike) -> NestLike:
    """What a callable returned, calls inlined: it is seen here alone, so random numbers may be drawn again there."""
    return tf.nest.pack_sequence_as(tensors, inline_calls(tf.nest.flatten(tensors), draw_again=True))


def _checked(tensor: Any, may_be_complex: bool) -> Tensor:
    if not tf.is_tensor(tensor):
        raise TypeError(
            "ys must be a tensor of the tf.function being traced, or a callable without arguments that returns one. "
            f"Received: {described_value(tensor)}"
        )
    for kind, values in _COMPOSITE:
        if isinstance(tensor, kind):
            raise TypeError(
                f"ys must be a dense tensor, and {kind.__name__} is made of several tensors: return its {values}, "
                f"the numbers in it. Received: {kind.__name__} of dtype {tensor.dtype.name}"
            )
    if is_variable(tensor):
        raise TypeError(
            "ys must be computed from the variables, and come before them in the arguments. "
            f"Received: {described_value(tensor)} in the place of ys"
        )
    if not tf.is_symbolic_tensor(tensor):
        raise ValueError(
            "ys is an eager tensor: it remembers its value, not how it was computed. Call this inside a tf.function, "
            "on a tensor computed there, or pass a callable without arguments that computes it. "
            f"Received: an eager tensor of shape {tensor.shape} and dtype {tensor.dtype.name}"
        )
    graph = tf.compat.v1.get_default_graph()
    if not _private.is_function_graph(graph):
        raise ValueError(
            "ys must be computed inside a tf.function: a plain tf.Graph, as of TensorFlow 1, is not one. Put the code "
            f"that computes ys and this call into a tf.function. Received: {tensor.name} of {graph!r}"
        )
    if tensor.graph is not graph:
        raise ValueError(
            "ys must belong to the tf.function being traced: its graph is read and added to in place. "
            f"Received: {tensor.name} of graph {tensor.graph!r}, while {graph!r} is being traced"
        )
    if tensor.dtype.is_complex and not may_be_complex:
        raise TypeError(
            "ys must be real to have a Jacobian here: take that of tf.math.real(ys) and that of tf.math.imag(ys). "
            f"(vjp and jvp take complex ys as they are.) Received: {tensor.name} of dtype {tensor.dtype.name}"
        )
    if not tensor.dtype.is_floating and not tensor.dtype.is_complex:
        raise TypeError(
            "ys must be of a floating-point dtype to have a Jacobian. "
            f"Received: {tensor.name} of dtype {tensor.dtype.name}"
        )
    return tensor
