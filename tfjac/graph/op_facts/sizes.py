"""Ops that look at shapes, or make numbers that stand for sizes and places."""

import numpy as np

from tfjac.graph.facts import declare, facts_of
from tfjac.graph.static_values import of_inputs, static_value
from tfjac.graph.symbolic_sizes import product

SHAPE, SHAPES, RANGE = "Shape", "ShapeN", "Range"
BROADCAST_AXES = "BroadcastGradientArgs"
"""Types of ops that rules of other families look for."""


def _shape(known, output, given):
    source = output.op.inputs[output.value_index]
    if facts_of(source.op).elements == "permuted" and static_value(source.op.inputs[1]) is None:
        return None  # it is swapped only behind the reshape
    return known.sizes(source)


def _number_of_elements(known, output, given):
    sizes = _shape(known, output, given)
    return [product(sizes)] if sizes else sizes


declare(f"{SHAPE} {SHAPES}", looks_at="shapes", entries=_shape)
declare("Size", looks_at="shapes", entries=_number_of_elements)
declare("Rank VariableShape", looks_at="shapes")
declare("VariableShape", repeatable=True)
declare("Fill", sizes=lambda known, output, given: known.entries(output.op.inputs[0]))
declare(RANGE, value=of_inputs(np.arange))
declare("Where", kind="places")
