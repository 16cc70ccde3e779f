"""Gradients of ops, and how they are vectorised: TensorFlow's registries, and what stands in their place."""

import weakref
from collections.abc import Callable, Iterable
from typing import Any, cast

import tensorflow as tf
from tensorflow.python.framework import ops as _ops
from tensorflow.python.ops.parallel_for import pfor as _pfor

from tfjac.graph._private.attributes import gradient_name
from tfjac.graph.facts import facts_of
from tfjac.types import Tensor


def gradient_function(op: tf.Operation) -> Callable:
    """Return the Python function that takes gradients through `op`: from the op and cotangents to gradients.

    Raises:
        LookupError: where none is registered.
    """
    return _ops.get_gradient_function(op)


def gradient_of_type(op_type: str) -> Callable:
    """Return TensorFlow's own gradient of ops of a type, whatever has been set for a single op."""
    return _ops.gradient_registry.lookup(op_type)


def is_differentiable(op: tf.Operation) -> bool:
    """Return whether a gradient passes through `op`: False for Shape, StopGradient, comparisons, roundings, signs.

    An op without any registered gradient counts as differentiable, so that taking the gradient says what is missing.
    `ops.get_gradient_function` asks every op for a gradient of its own first, which costs ten times as much.
    """
    if not op.inputs:
        return False
    try:
        passes = _ops.gradient_registry.lookup(op.type) is not None and facts_of(op).steps is None
    except LookupError:
        return True
    return passes or gradient_name(op) is not None


def has_gradient(op: tf.Operation) -> bool:
    """Return whether something is registered as the gradient of `op`, be it that there is none."""
    return gradient_name(op) is not None or op.type in _ops.gradient_registry.list()


def input_gradients(op: tf.Operation, cotangents: Iterable[Tensor | None]) -> list[Tensor | None]:
    """Return the gradient with respect to each input of `op` by itself, None where there is none.

    `tf.gradients` adds up those of a tensor that is read by several inputs of one op.

    Args:
        op: an op with a registered gradient.
        cotangents: one per output, None for outputs that carry no gradient.
    """
    gradients = _ops.get_gradient_function(op)(op, *cotangents)
    return list(gradients) if isinstance(gradients, (list, tuple)) else [gradients]


def forget_with(gradient: Callable, name: str) -> None:
    """Have TensorFlow's registry forget the gradient registered as `name` with the last that refers to it elsewhere.

    It never forgets one by itself, and a gradient may hold tensors: their graphs would never be freed.
    """
    registered, function = _ops.gradient_registry._registry, cast(Callable[[], Callable], weakref.ref(gradient))
    registered[name] = {**registered[name], "type": lambda op, *cotangents: function()(op, *cotangents)}
    weakref.finalize(gradient, registered.pop, name, None)


def keep_with(graph: tf.Graph, function: Callable) -> None:
    """Have a Python function live as long as a graph whose ops call it, or have it as their gradient."""
    graph._tfjac_functions = [*getattr(graph, "_tfjac_functions", ()), function]


def set_conversion(op: tf.Operation, edit: Callable | None = None, shortcut: Callable | None = None) -> None:
    """Have `tf.vectorized_map` convert `op`, of the function that it maps, in another way than others of its type.

    A converter of the vectoriser turns an op of the function into ops that do the same for all slices at once. There is
    no public access to them, and `RegisterPFor` takes one converter per type, for the whole process.

    Args:
        op: an op made while the function that is mapped is traced.
        edit: function `(op, inputs, stacked)` of the converted inputs and of whether each has the axis of the slices in
            front, that returns what TensorFlow's converter is to be given in their place, or None where the op is to be
            run once for each slice.
        shortcut: function of the same that returns the converted outputs, each with that axis, or None where
            TensorFlow's converter is to be taken.
    """

    def convert(given: Any) -> Any:
        inputs, stacked = [part.t for part in given.inputs], [part.is_stacked for part in given.inputs]
        outputs = None if shortcut is None else shortcut(op, inputs, stacked)
        if outputs is not None:
            return [_pfor.wrap(output, True) for output in outputs]
        edited = inputs if edit is None else edit(op, inputs, stacked)
        if edited is None:
            return _pfor._fallback_converter(given)
        given.inputs[:] = [part._replace(t=tensor) for part, tensor in zip(given.inputs, edited)]
        return _pfor._pfor_converter_registry[op.type](given)

    op.pfor_converter = convert
