"""Python functions in a graph: nothing shows what they do with examples, so it is for whoever calls them to say."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.examples.example_rules import SHARED, Axis, ExampleAxis, NoRule, Wanted
from tfjac.graph.facts import declare
from tfjac.graph.gradients.mending import Gradient
from tfjac.types import Tensor

_DECLARED = "_tfjac_per_example"
"""The attribute of an op that was declared to keep examples apart."""


def declare_per_example(op: tf.Operation) -> None:
    """Say of an op that calls Python that row n of its outputs comes from rows n of its inputs alone."""
    _private.set_integers_attribute(op, _DECLARED, [1])


def _python(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """Examples run along axis 0 of every input, where this was declared."""
    if _private.integers_attribute(op, _DECLARED) is None:
        raise NoRule(
            "what a Python function does with examples cannot be seen; where it treats rows independently, call it by "
            "tfjac.external(..., per_example=True)"
        )
    if axis.axis != 0:
        raise NoRule(f"it carries the examples along axis {axis.axis}, and was declared for rows")
    return [SHARED if tensor.shape.rank == 0 else axis for tensor in op.inputs]


def _gradient_of_python(op: tf.Operation, *cotangents: Tensor | None) -> list[Tensor | None]:
    """The gradient by running the function once more under a tape.

    TensorFlow keeps the tape of the run forwards, for a single backward pass, and second derivatives see nothing of
    what the function was given. As wherever such an op is copied, its function is taken to be a pure one.
    """
    function, count = _function_of(op), len(op.inputs)
    given = [(k, cotangent) for k, cotangent in enumerate(cotangents) if cotangent is not None]

    def backward(*tensors: Tensor) -> list[Tensor]:
        inputs, arriving = tensors[:count], tensors[count:]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = tf.nest.flatten(function(*inputs))
        ends = [tf.convert_to_tensor(outputs[k]) for k, _ in given]
        return [
            tf.zeros_like(tensor) if found is None else tf.convert_to_tensor(found)
            for tensor, found in zip(inputs, tape.gradient(ends, inputs, output_gradients=list(arriving)))
        ]

    dtypes = [tensor.dtype for tensor in op.inputs]
    found = tf.py_function(backward, [*op.inputs, *(cotangent for _, cotangent in given)], dtypes)
    for gradient_of_input, tensor in zip(found, op.inputs):
        gradient_of_input.set_shape(tensor.shape)
    return [
        each if tensor.dtype.is_floating or tensor.dtype.is_complex else None for each, tensor in zip(found, op.inputs)
    ]


def _function_of(op: tf.Operation) -> Callable[..., Any]:
    """Return the function of a `tf.py_function`.

    Raises:
        ValueError: where this process has no such function, as for a graph that was loaded from a file.
    """
    function = _private.python_function(op)
    if function is None:
        raise ValueError(
            "A tf.py_function is a number in a graph, and its function is not in this process. The graph was loaded "
            "from a file, or the function was deleted. Make the graph again from the code of the function. "
            f"Received: {op.name!r} of type {op.type}, with the number {op.get_attr('token').decode()!r}"
        )
    return function


declare("EagerPyFunc PyFunc PyFuncStateless", kind="python", example_axis=_python, sized_by="all")
declare("EagerPyFunc", repeatable=True, gradient=Gradient(_gradient_of_python))
