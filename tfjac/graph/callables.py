"""Functions of the user's, traced in place."""

import functools

import tensorflow as tf


def call_converted(function):
    """Return `function()`, converted by AutoGraph, so that `if` and `for` on tensors work in it, traced in place.

    AutoGraph passes over what is called by functions that it leaves alone, as it does those of this package. In place,
    rather than as a `tf.function` of its own: the derivatives of control flow are then those of the graph being traced.
    """
    return _caller()(function)


@functools.cache
def _caller():
    return tf.autograph.to_graph(_call)


def _call(function):
    return function()
