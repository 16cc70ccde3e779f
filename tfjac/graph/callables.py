"""Functions of the user's, traced in place."""

import functools

import tensorflow as tf


def call_converted(function, *args, **kwargs):
    """Return what a function of the user's returns, converted by AutoGraph: `if` and `for` on tensors work in it.

    Eagerly they work as they are. AutoGraph passes over the functions of this package, and over all that they call in
    any other way. Traced in place, rather than as a `tf.function` of its own: the derivatives of control flow are then
    those of the graph being traced.
    """
    return function(*args, **kwargs) if tf.executing_eagerly() else _caller()(function, args, kwargs)


@functools.cache
def _caller():
    return tf.autograph.to_graph(_call)


def _call(function, args, kwargs):
    return function(*args, **kwargs)
