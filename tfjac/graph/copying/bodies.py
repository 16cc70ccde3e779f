"""The bodies of loops and branches: functions of their own, read and copied like any part of a graph."""

import dataclasses

from tfjac.graph import _private
from tfjac.graph.copying.inlining import inline_calls
from tfjac.graph.facts import facts_of, is_identity


@dataclasses.dataclass
class Body:
    """A function that an op calls.

    Attributes:
        inputs: its parameters, one for each input of the op (but the predicate of a conditional).
        outputs: its results, with the functions that it calls in turn inlined.
    """

    inputs: list
    outputs: list

    def position(self, tensor):
        """Return the index of `tensor` among the inputs, or None."""
        return next((index for index, given in enumerate(self.inputs) if given is tensor), None)


def bodies_of(op, attribute):
    """Return the bodies that attribute `attribute` of `op` names, a list of `Body`."""
    bodies = []
    for graph in _private.function_bodies(op, attribute):
        with graph.as_default():
            outputs = inline_calls([without_identities(output) for output in graph.outputs], draw_again=True)
            bodies.append(Body(list(graph.inputs), outputs))
    return bodies


def calls_functions(op):
    """Return whether `op` calls functions, as loops and branches do."""
    return any(attribute.type in ("func", "list(func)") for attribute in op.op_def.attr)


def without_identities(tensor):
    """Return the tensor that `tensor` is passed on from unchanged."""
    while is_identity(tensor.op):
        tensor = tensor.op.inputs[0]
    return tensor


def op_types_inside(op):
    """Return the set of the types of all ops in the functions that `op` calls, and in those that they call."""
    graphs = [graph for attribute in facts_of(op).bodies for graph in _private.function_bodies(op, attribute)]
    inside = [each for graph in graphs for each in graph.get_operations()]
    return {each.type for each in inside}.union(*map(op_types_inside, inside))
