"""The table of ops whose gradient in TensorFlow is wrong, or missing, and what takes its place.

What is in it is found by `tests.sweep`, which compares the gradient of every op that has one with finite differences.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from tfjac.graph import _private, custom_gradients
from tfjac.graph.op_types import BODIES
from tfjac.graph.traversal import references
from tfjac.ops._library import register_gradient


@dataclasses.dataclass(frozen=True)
class _Gradient:
    """What takes the place of TensorFlow's: the name it is registered by, and function `(op, ops)` for when it does."""

    name: str
    when: Callable


_GRADIENTS, _PARTLY_REFUSED = {}, {}


def gradient(*op_types, when=lambda op, ops: True, name=None):
    """Register a function `(op, *cotangents)` that gives the gradients of ops of these types, one per input.

    Args:
        op_types: names of types of op.
        when: function `(op, ops)` that returns whether it does so for `op`; `ops` are those that are differentiated.
        name: by which TensorFlow knows it; made of the type where left out.
    """

    def register(function):
        for op_type in op_types:
            known = name or f"Tfjac{op_type}"
            register_gradient(known)(function)
            custom_gradients.OWN.add(known)
            _GRADIENTS[op_type] = _Gradient(known, when)
        return function

    return register


def differentiated_as(*op_types, when=lambda op, ops: True):
    """Register an expression `(op, *inputs)` that equals the outputs of ops of these types, to be differentiated."""

    def register(expression):
        @gradient(*op_types, when=when)
        def of_expression(op, *cotangents):
            inputs = [tf.identity(tensor) for tensor in op.inputs]  # one may be read twice: each for itself
            outputs = tf.nest.flatten(expression(op, *inputs))
            pairs = [(y, u) for y, u in zip(outputs, cotangents) if u is not None]
            return tf.gradients([y for y, _ in pairs], inputs, grad_ys=[u for _, u in pairs])

        return expression

    return register


def refused(op_type, because, inputs=None):
    """Register ops of this type as differentiated wrongly, with nothing that takes its place.

    Args:
        op_type: the name of the type.
        because: what TensorFlow does.
        inputs: indices of the inputs for which this is so; all where left out.
    """
    if inputs is not None:
        _PARTLY_REFUSED[op_type] = (because, inputs)
        return

    @gradient(op_type)
    def refuse(op, *cotangents):
        raise _refusal(op, because)


def listed():
    """Return the types of all ops in the table, a set."""
    return {*_GRADIENTS, *_PARTLY_REFUSED}


def mend(ops, sources=None):
    """Have gradients through `ops` taken by what the table says, in loops and branches too; custom gradients stay.

    Args:
        ops: those between `sources` and what is differentiated.
        sources: the tensors that it is differentiated by; None where they are not known.

    Raises:
        LookupError: for an op that TensorFlow differentiates wrongly by an input that depends on the sources. Those
            that are refused whatever the input raise once a gradient passes.
    """
    for op in ops:
        found = _GRADIENTS.get(op.type)
        if found is not None and _private.gradient_name(op) is None and found.when(op, ops):
            _private.set_gradient(op, found.name)
        if op.type in _PARTLY_REFUSED and sources is not None:
            _check_not_refused(op, references(sources) | references(output for each in ops for output in each.outputs))
        for attribute in BODIES.get(op.type, ()):
            for body in _private.function_bodies(op, attribute):
                mend(body.get_operations(), body.inputs)


def _check_not_refused(op, moving):
    because, inputs = _PARTLY_REFUSED[op.type]
    if any(op.inputs[k].ref() in moving and op.inputs[k].op.type != "Const" for k in inputs):
        raise _refusal(op, because)


def _refusal(op, because):
    return LookupError(
        f"TensorFlow's gradient of this op is wrong: {because}. Write it in other ops, or give it a gradient by "
        "tf.custom_gradient; or take what it computes as fixed, by tf.stop_gradient. "
        f"Received: op {op.name!r} of type {op.type}"
    )
