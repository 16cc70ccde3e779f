"""Ops that look at shapes, or make numbers that stand for sizes and places."""

import numpy as np
import tensorflow as tf

from tfjac.graph.examples.index_maps import ValueOf
from tfjac.graph.facts import declare, facts_of
from tfjac.graph.reading.static_values import of_inputs, static_value
from tfjac.graph.reading.symbolic_sizes import Given, Sizes, SymbolicSizes, product
from tfjac.types import Array, Tensor

SHAPE, SHAPES, RANGE, RESHAPE = "Shape", "ShapeN", "Range", "Reshape"
BROADCAST_AXES = "BroadcastGradientArgs"
"""Types of ops that rules of other families look for."""


def _shape(known: SymbolicSizes, output: Tensor, given: Given) -> Sizes:
    source = output.op.inputs[output.value_index]
    if facts_of(source.op).elements == "permuted" and static_value(source.op.inputs[1]) is None:
        return None  # it is swapped only behind the reshape
    return known.sizes(source)


def _number_of_elements(known: SymbolicSizes, output: Tensor, given: Given) -> Sizes:
    sizes = _shape(known, output, given)
    return [product(sizes)] if sizes else sizes


def _broadcast_axes(output: Tensor, value_of: ValueOf) -> Array | None:
    """The axes along which one of two shapes is broadcast to fit the other."""
    shapes = [value_of(shape) for shape in output.op.inputs]
    if any(shape is None for shape in shapes):
        return None
    own, rank = shapes[output.value_index], max(map(len, shapes))
    return np.flatnonzero(np.concatenate([np.ones(rank - len(own), int), own]) == 1).astype(np.int32)


def _counts_from_zero(op: tf.Operation) -> bool | None:
    start, _, step = map(static_value, op.inputs)
    return True if start == 0 and step == 1 else None


def _counted(known: SymbolicSizes, output: Tensor, given: Given) -> Sizes:
    return known.entries(output.op.inputs[1]) if _counts_from_zero(output.op) else None


declare(f"{SHAPE} {SHAPES}", looks_at="shapes", entries=_shape)
declare("Size", looks_at="shapes", entries=_number_of_elements)
declare("Rank VariableShape", looks_at="shapes")
declare("VariableShape", repeatable=True)
declare("Fill", sizes=lambda known, output, given: known.entries(output.op.inputs[0]))
declare("BroadcastArgs", value=of_inputs(lambda one, other: np.array(np.broadcast_shapes(one, other), one.dtype)))
declare(BROADCAST_AXES, value=_broadcast_axes)
declare(RANGE, value=of_inputs(np.arange), first_column=_counts_from_zero, sizes=_counted)
declare("Where", kind="places")
declare(f"Where {RANGE}", sized_by="all")
declare("Fill", sized_by=(0,), value=of_inputs(np.full))
declare(RESHAPE, sized_by=(1,))
