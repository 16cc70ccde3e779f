"""Values that are fixed while tracing, and ops run on such values."""

import inspect

import numpy as np
import tensorflow as tf

from tfjac.graph import ancestors


class FixedValues:
    """The values of those tensors of a graph that are the same in every run: constants, and what is made of them."""

    def __init__(self):
        self._known = {}

    def __call__(self, tensor):
        """Return the value of `tensor` as an array, or None where it is open."""
        if tensor.ref() not in self._known:
            for op in ancestors([tensor], stop=[key.deref() for key in self._known]):
                self._known.update(zip((output.ref() for output in op.outputs), self._values(op)))
        return self._known[tensor.ref()]

    def _values(self, op):
        if all(_holds_numbers(output.dtype) for output in op.outputs):
            static = [tf.get_static_value(output) for output in op.outputs]
            if all(value is not None for value in static):
                return [np.asarray(value) for value in static]
            if op.type == "Placeholder":
                return [_of_capture(op.outputs[0])]
            inputs = [self._known[tensor.ref()] for tensor in op.inputs]
            if inputs and not any(value is None for value in inputs) and can_run(op):
                return run(op, inputs)
        return [None] * len(op.outputs)


def _of_capture(placeholder):
    """The eager tensor that was captured by value when the function was traced, if that is what this stands for."""
    for outer, inner in getattr(placeholder.graph, "captures", ()):
        if inner is placeholder and not tf.is_symbolic_tensor(outer):
            return outer.numpy()
    return None


def _holds_numbers(dtype):
    return dtype not in (tf.resource, tf.variant, tf.string)


def can_run(op):
    """Return whether `run` can run `op`: it has no state, calls no function, and has an eager form."""
    calls = any(attribute.type in ("func", "list(func)") for attribute in op.op_def.attr)
    return not (calls or op.op_def.is_stateful or op.type == "Placeholder") and hasattr(tf.raw_ops, op.type)


def run(op, inputs):
    """Run an op like `op` on other inputs, outside the graph being traced.

    Args:
        op: the op, which gives the attributes.
        inputs: one array per input, all that belong to one type attribute of one dtype.

    Returns:
        A list of arrays, one per output.
    """
    with tf.init_scope(), tf.device("CPU:0"):
        values = _inputs_by_name(op, [tf.convert_to_tensor(value) for value in inputs])
        values |= {attribute.name: op.get_attr(attribute.name) for attribute in _chosen_attributes(op.op_def)}
        function = getattr(tf.raw_ops, op.type)
        names = [name for name in inspect.signature(function).parameters if name != "name"]
        outputs = function(**_renamed(values, names))
        return [output.numpy() for output in tf.nest.flatten(outputs)]


def _inputs_by_name(op, tensors):
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


def _chosen_attributes(op_def):
    """The attributes of an op that do not follow from its inputs."""
    implied = {
        name
        for argument in op_def.input_arg
        for name in (argument.type_attr, argument.number_attr, argument.type_list_attr)
    }
    return [attribute for attribute in op_def.attr if attribute.name not in implied]


def _renamed(values, names):
    """Give each value the name that Python has for it: a few arguments were renamed there, in the same order."""
    unmatched = [name for name in names if name not in values]
    return {name if name in names else unmatched.pop(0): value for name, value in values.items()}
