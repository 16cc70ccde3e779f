"""The bodies of loops and branches: functions of their own, read and copied like any part of a graph."""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.copying.inlining import inline_calls
from tfjac.graph.copying.transplanting import place_all
from tfjac.graph.facts import facts_of, is_identity
from tfjac.types import Tensor


@dataclasses.dataclass
class Body:
    """A function that an op calls.

    Attributes:
        inputs: its parameters, one for each input of the op (but the predicate of a conditional).
        outputs: its results, with the functions that it calls in turn inlined.
    """

    inputs: list[Tensor]
    outputs: list[Tensor]

    def position(self, tensor: Tensor) -> int | None:
        """Return the index of `tensor` among the inputs, or None."""
        return next((index for index, given in enumerate(self.inputs) if given is tensor), None)


def bodies_of(op: tf.Operation, attribute: str) -> list[Body]:
    bodies = []
    for graph in _private.function_bodies(op, attribute):
        graph = _knowing_variables(graph, op.inputs[len(op.inputs) - len(graph.inputs) :])
        with graph.as_default():
            outputs = inline_calls([without_identities(output) for output in graph.outputs], draw_again=True)
            bodies.append(Body(list(graph.inputs), outputs))
    return bodies


def _knowing_variables(graph: tf.Graph, given: Sequence[Tensor]) -> tf.Graph:
    """Return a body whose variables have the shapes of those that it is given.

    A function that was loaded may be a definition alone, in which nothing that is read from variables has a shape.
    """
    specs = [None if outer.dtype != tf.resource else _private.handle_spec(outer) for outer in given]
    if all(spec is None or _private.handle_spec(own) is not None for spec, own in zip(specs, graph.inputs)):
        return graph

    def placeholder(own: Tensor, outer: Tensor) -> Tensor:
        shape = tf.TensorShape([None] * outer.shape.rank) if own.shape.rank is None and outer.shape.rank else own.shape
        made = tf.compat.v1.placeholder(own.dtype, shape)
        _private.copy_handle_data(outer if own.dtype == tf.resource else own, made)
        return made

    with _private.function_graph(graph.name).as_default() as known:
        known.inputs = [placeholder(*pair) for pair in zip(graph.inputs, given)]
        mapping = place_all(graph, list(graph.outputs), list(zip(graph.inputs, known.inputs)))
        known.outputs = [mapping[output.ref()] for output in graph.outputs]
    return known


def without_identities(tensor: Tensor) -> Tensor:
    """Return the tensor that `tensor` is passed on from unchanged."""
    while is_identity(tensor.op):
        tensor = tensor.op.inputs[0]
    return tensor


def ops_inside(op: tf.Operation) -> list[tf.Operation]:
    """Return all ops in the functions that `op` calls, and in those that they call."""
    graphs = [graph for attribute in facts_of(op).bodies for graph in _private.function_bodies(op, attribute)]
    inside = [each for graph in graphs for each in graph.get_operations()]
    return inside + [deeper for each in inside for deeper in ops_inside(each)]


def opened(tensor: Tensor, shape: tf.TensorShape) -> Tensor:
    """Return a tensor of which no more than `shape` is known while tracing, in TensorFlow's inference of shapes too.

    A branch that is not taken may be of another shape than what is known of the results of the one that is.
    """
    return tensor if tensor.shape == shape else tf.compat.v1.placeholder_with_default(tensor, shape)
