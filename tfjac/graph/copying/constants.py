"""What a graph computes of constants alone: ops run once, eagerly, while tracing."""

import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tfjac.graph.facts import calls_functions, is_constant, is_parameter
from tfjac.graph.reading.traversal import Inherited, references
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
    """
    with tf.init_scope(), tf.device("CPU:0"):
        values = _inputs_by_name(op, [tf.convert_to_tensor(value) for value in inputs])
        values |= {attribute.name: op.get_attr(attribute.name) for attribute in _chosen_attributes(op.op_def)}
        values |= attributes or {}
        outputs = getattr(tf.raw_ops, op.type)(**_renamed(values, _argument_names(op.type)))
        return [output.numpy() for output in tf.nest.flatten(outputs)]


def outputs_of(op: tf.Operation, inputs: Sequence[Value | None]) -> list[Value] | None:
    """Return what `run` does; None where one of the inputs is None, or the op cannot run on these."""
    if any(value is None for value in inputs) or not can_run(op):
        return None
    try:
        return run(op, inputs)
    except tf.errors.OpError:  # what is wrong with these values shows when the graph runs
        return None


class Constants:
    """The tensors of one graph that are the same in every run: made of constants, and of eager tensors it captured.

    Args:
        graph: the graph.
        sources: tensors of it that are no constants, whatever they stand for.
    """

    def __init__(self, graph: Any, sources: Sequence[Tensor] = ()) -> None:
        self._sources = references(sources)
        self._captured = {
            inner.ref(): outer
            for outer, inner in getattr(graph, "captures", ())
            if not tf.is_symbolic_tensor(outer) and outer.dtype not in (tf.resource, tf.variant)
        }
        self._is_fixed, self._values = Inherited(self._fixed), Inherited(self._computed)

    def __call__(self, tensor: Tensor) -> Value | Any:
        """Return the value of a tensor, or None. Nothing is computed for one that is open."""
        return self._values(tensor) if self._is_fixed(tensor) else None

    def _fixed(self, op: tf.Operation, given: Sequence[bool]) -> list[bool]:
        given_by_graph = is_constant(op) or (is_parameter(op) and op.outputs[0].ref() in self._captured)
        fixed = given_by_graph or (len(op.inputs) > 0 and all(given) and can_run(op))
        return [fixed and output.ref() not in self._sources for output in op.outputs]

    def _computed(self, op: tf.Operation, given: Sequence[Value | None]) -> Sequence[Value | None]:
        if is_parameter(op):
            return [self._captured[op.outputs[0].ref()].numpy()]
        if is_constant(op):
            return [tf.get_static_value(op.outputs[0])]
        return outputs_of(op, given) or [None] * len(op.outputs)


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
