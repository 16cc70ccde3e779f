"""Ops that act element by element, with broadcasting."""

from tfjac.graph.example_rules.registry import SHARED, aligned, body_rule, known_shape, rule
from tfjac.graph.op_types import DECISIONS, GRADIENTS, SEVERAL_INPUTS, UNARY


@rule(*UNARY, *SEVERAL_INPUTS, *DECISIONS, *GRADIENTS)
def _broadcast(op, axis, wanted):
    """Align shapes from the right; what has size 1 there, or no such axis, is shared."""
    out = known_shape(wanted, op.outputs[0])
    return aligned(op, axis, op.inputs, out, wanted)


@rule("Select")
def _select(op, axis, wanted):
    """No broadcasting: a condition of rank 1 chooses whole rows, along axis 0."""
    by_row = op.inputs[0].shape.rank == 1 != op.inputs[1].shape.rank
    condition = SHARED if op.inputs[0].shape.rank == 0 or (by_row and axis.axis != 0) else axis
    return [condition, axis, axis]


@rule("BroadcastTo")
def _broadcast_to(op, axis, wanted):
    given, result = op.inputs[0], op.outputs[0]
    return [aligned(op, axis, [given, result], known_shape(wanted, result), wanted)[0], SHARED]


@rule("Identity")
def _identity(op, axis, wanted):
    return [axis]


@body_rule("IdentityN")
def _identities(op, outputs, wanted):
    return [outputs.get(k) for k in range(len(op.inputs))]


@rule("BiasAdd")
def _bias_add(op, axis, wanted):
    return [axis, SHARED]
