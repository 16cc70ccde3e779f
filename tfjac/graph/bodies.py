"""The bodies of loops and branches: functions of their own, read and copied like any part of a graph."""

import dataclasses

from tfjac.graph import _private
from tfjac.graph.copying import inline_calls

READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "Assert", "Placeholder")
BODIES = {
    "While": ("cond", "body"),
    "If": ("then_branch", "else_branch"),
    "Case": ("branches",),
    "StatefulPartitionedCall": ("f",),
}


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
            outputs = inline_calls([without_identities(output) for output in graph.outputs])
            bodies.append(Body(list(graph.inputs), outputs))
    return bodies


def without_identities(tensor):
    """Return the tensor that `tensor` is passed on from unchanged."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def cannot_run_again(graph):
    """Return an op of a body's graph that gives other values, or acts twice, when it runs again; None where none is.

    Random numbers, assignments and Python calls are what is looked for, in the functions that it calls too.
    """
    for op in graph.get_operations():
        if op.type in BODIES:
            inside = (body for name in BODIES[op.type] for body in _private.function_bodies(op, name))
            found = next((culprit for culprit in map(cannot_run_again, inside) if culprit is not None), None)
        else:
            found = op if op.op_def.is_stateful and op.type not in READS else None
        if found is not None:
            return found
    return None
