"""What graphs of residuals say of fits: whether each depends on its own rows alone, and on nothing that is counted."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import ExampleAxis, ExamplesMix, Inherited, analyse_examples, ancestors, bodies_of
from tfjac.types import Array, Tensor

_SIZES = {"Shape", "ShapeN", "Size"}
_SHAPE_INPUTS = {"Reshape": (1,), "Fill": (0,), "BroadcastTo": (1,), "Tile": (1,), "Slice": (2,)}
"""Inputs that say what shape a result has, and no more."""


def has_open_rows(tensor: Tensor) -> bool:
    """Return whether the number of rows of a tensor is not known while tracing."""
    return tensor.shape.rank is None or (tensor.shape.rank > 0 and tensor.shape[0] is None)


def is_apart(sources: Sequence[Tensor], tensors: Sequence[Tensor]) -> bool:
    """Return whether each row of `tensors` depends on the same row of each source alone, by value."""
    try:
        analysis = analyse_examples(sources, tensors, by_value=True)
    except ExamplesMix:
        return False
    return all(is_by_row(analysis.axis(source)) for source in sources)


def is_by_row(axis: Any) -> bool:
    """Return whether the axis of a tensor, as `analyse_examples` found it, is that of the fits, or that of none."""
    return axis in (None, ExampleAxis(0), ExampleAxis(0, inner=None))


def go_alone(values: list[Tensor], tensors: Sequence[Tensor]) -> bool:
    """Return whether residuals of any number of fits depend on their own parameters, and not on the number."""
    is_size = Inherited(_made_of_sizes)
    return is_apart(values, tensors) and not any(map(is_size, tensors))


def _made_of_sizes(op: Any, inputs_are: list[bool]) -> list[bool]:
    """Whether the values of the outputs of `op` depend on sizes that are open, other than as their shapes."""
    as_shape = _SHAPE_INPUTS.get(op.type, ())
    passed = any(made for index, made in enumerate(inputs_are) if index not in as_shape)
    return [(passed and not _is_known_size(op)) or _reads_sizes(op)] * len(op.outputs)


def _reads_sizes(op: Any) -> bool:
    """Return whether an op, or one in a body that it calls, reads sizes that are open."""
    if op.type in _SIZES:
        return not all(tensor.shape.is_fully_defined() for tensor in op.inputs)
    called = [attribute.name for attribute in op.op_def.attr if attribute.type in ("func", "list(func)")]
    bodies = [body for name in called for body in bodies_of(op, name)]
    return any(_reads_sizes(inner) for body in bodies for inner in ancestors(body.outputs))


def _is_known_size(op: Any) -> bool:
    """Return whether an op takes a size that is known from a shape of which another is open."""
    if op.type != "StridedSlice" or op.inputs[0].op.type != "Shape" or op.get_attr("shrink_axis_mask") != 1:
        return False
    begin, shape = tf.get_static_value(op.inputs[1]), op.inputs[0].op.inputs[0].shape
    return begin is not None and shape.rank is not None and shape[int(begin[0])] is not None


def are_near(some: Array, other: Array) -> bool:
    """Return whether eager tensors `[n, ...]` are the same but for rounding, row by row."""
    some, other = (np.reshape(each, [len(each), -1]) for each in (some, other))
    largest = np.max(np.abs(other), axis=1, keepdims=True, initial=0, where=np.isfinite(other))
    with np.errstate(invalid="ignore"):  # the difference of infinities; np.isclose takes no row of atol before NumPy 2
        near = np.abs(some - other) <= np.sqrt(np.finfo(other.dtype).eps) * largest
    return (near | (some == other) | (np.isnan(some) & np.isnan(other))).all()
