"""Functions to be traced: those of the user, those of this package, and variables that are made meanwhile."""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph._private import eager_variable, shared_constants


def call_converted(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Return what a function of the user's returns, converted by AutoGraph: `if` and `for` on tensors work in it.

    Eagerly they work as they are. AutoGraph passes over the functions of this package, and over all that they call in
    any other way. Traced in place, rather than as a `tf.function` of its own: the derivatives of control flow are then
    those of the graph being traced.
    """
    return function(*args, **kwargs) if tf.executing_eagerly() else _caller()(function, args, kwargs)


@functools.cache
def _caller() -> Callable:
    return tf.autograph.to_graph(_call)


def _call(function: Callable, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return function(*args, **kwargs)


def quiet_function(function: Callable, **options: Any) -> Callable:
    """Return `tf.function(function)` of which TensorFlow does not say that it is traced too often.

    It counts the traces of a piece of code, whichever object it belongs to: of functions that are traced once for each
    object, as those of this package are, that is no sign of anything, and names what users know nothing of.
    """
    traced = tf.function(function, autograph=False, **options)
    traced._omit_frequent_tracing_warning = True
    return traced


def lean_function(function: Callable, **options: Any) -> Any:
    """Return `tf.function(function)` of a function of this package, traced in fewer ops: see `shared_constants`."""
    return tf.function(shared_constants()(function), autograph=False, **options)


@contextlib.contextmanager
def eager_creation() -> Iterator[None]:
    """Make variables as if no function were being traced.

    TensorFlow takes a variable that is made in a first trace, in a `tf.init_scope` too, for one of the function's own,
    and then traces the whole function again. Strategies that place variables make them as ever.
    """
    with tf.init_scope():
        if tf.distribute.has_strategy() or not tf.executing_eagerly():
            yield
            return
        with tf.variable_creator_scope(lambda next_creator, **options: eager_variable(**options)):
            yield


def unrecorded() -> contextlib.AbstractContextManager:
    """Return a context in which no gradient tape, nor forward accumulator, of this thread records what is computed.

    Neither does one that is begun inside: it is for what calls no Python of the user's.
    """
    return _private.stop_recording() if _private.is_taped() else contextlib.nullcontext()


def call_outside(function: Any, tensors: Sequence[Any]) -> Any:
    """Return what a `tf.function`, or a concrete one, returns of a list of eager tensors, outside of all graphs.

    It is traced before: `tf.init_scope` pauses all tapes, those of the user's functions in the trace, too, whose
    gradients would be zero, or None.
    """
    if not hasattr(function, "captured_inputs"):
        function = function.get_concrete_function(*tensors)
    with tf.init_scope():
        return _private.call_flat(function, tensors)


def run_side_by_side(calls: Iterable[tf.Operation]) -> None:
    """Let ops of the current graph run at once, in a `tf.function` as well.

    It has them run in the order in which they were made otherwise, if there is but one assertion in each.

    Args:
        calls: ops, such as calls of functions, of which none depends on what another does.
    """
    order: Any = getattr(tf.compat.v1.get_default_graph(), "experimental_acd_manager", None)
    for call in calls if order is not None else ():
        order.run_independently(call)
