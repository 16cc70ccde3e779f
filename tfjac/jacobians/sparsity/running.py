"""Ops of a graph run once, eagerly, on inputs that are known while tracing."""

import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tfjac.graph import calls_functions
from tfjac.graph.facts import is_parameter
from tfjac.types import Tensor

Value: TypeAlias = np.ndarray | np.generic
"""An array; one of rank 0 may be a scalar of NumPy's."""


def can_run(op: tf.Operation) -> bool:
    """Return whether `run` can run `op`: it has no state, calls no function, and has an eager form."""
    stateful = op.op_def.is_stateful or is_parameter(op)
    return not (stateful or calls_functions(op)) and hasattr(tf.raw_ops, op.type)


def run(op: tf.Operation, inputs: Sequence[Any], attributes: Mapping[str, Any] | None = None) -> list[Value]:
    """Run an op like `op` on other inputs, outside the graph being traced.

    Args:
        op: the op, which gives the attributes.
        inputs: one array per input, all that belong to one type attribute of one dtype.
        attributes: a dict of attributes that are to differ from those of `op`.

    Returns:
        A list of arrays, one per output.
    """
    with tf.init_scope(), tf.device("CPU:0"):
        values = _inputs_by_name(op, [tf.convert_to_tensor(value) for value in inputs])
        values |= {attribute.name: op.get_attr(attribute.name) for attribute in _chosen_attributes(op.op_def)}
        values |= attributes or {}
        outputs = getattr(tf.raw_ops, op.type)(**_renamed(values, _argument_names(op.type)))
        return [output.numpy() for output in tf.nest.flatten(outputs)]


def _inputs_by_name(op: tf.Operation, tensors: Sequence[Tensor]) -> dict[str, Any]:
    """Sort the flat inputs of an op by the names of its arguments."""
    values, position = {}, 0
    for argument in op.op_def.input_arg:
        if not argument.number_attr and not argument.type_list_attr:
            values[argument.name] = tensors[position]
            position += 1
            continue
        listed = op.get_attr(argument.number_attr or argument.type_list_attr)
        count = listed if argument.number_attr else len(listed)
        values[argument.name] = tensors[position : position + count]
        position += count
    return values


def _chosen_attributes(op_def: Any) -> list[Any]:
    """The attributes of an op that do not follow from its inputs."""
    implied = {
        name
        for argument in op_def.input_arg
        for name in (argument.type_attr, argument.number_attr, argument.type_list_attr)
    }
    return [attribute for attribute in op_def.attr if attribute.name not in implied]


@functools.cache
def _argument_names(op_type: str) -> list[str]:
    return [name for name in inspect.signature(getattr(tf.raw_ops, op_type)).parameters if name != "name"]


def _renamed(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Give each value the name that Python has for it: a few arguments were renamed there, in the same order."""
    unmatched = [name for name in names if name not in values]
    return {name if name in names else unmatched.pop(0): value for name, value in values.items()}
