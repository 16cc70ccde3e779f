"""Reductions over some axes, and what accumulates or reverses along them."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from tfjac.graph.examples.example_rules import SHARED, Axis, ExampleAxis, NoRule, Wanted
from tfjac.graph.examples.index_maps import (
    AxisLabels,
    ShapeOf,
    ValueOf,
    by_labels,
    example_axes,
    in_order,
    labelled_sizes,
)
from tfjac.graph.facts import declare
from tfjac.graph.gradients.mending import Gradient, differentiated_as
from tfjac.graph.gradients.vectorising import by_known_lists
from tfjac.graph.op_facts.sizes import BROADCAST_AXES, RESHAPE, SHAPE
from tfjac.graph.reading.static_values import of_inputs, static_value
from tfjac.graph.reading.symbolic_sizes import Given, Sizes, SymbolicSizes, product
from tfjac.types import Tensor

MEAN = "Mean"
"""A type of ops that rules of other families look for."""


# --------------------------------------------------------------------------------------------- the axis of the examples


def undoes_broadcast(op: tf.Operation) -> bool:
    """Return whether `op` is the sum by which a gradient undoes a broadcast, in which axes of open size take part.

    Along the axis of the examples nothing is summed: what carries them has one row for each, as is checked where it
    meets others. A sum that drops axes counts only if all that is done with it is to give it the shape of the operand:
    then it is taken for one that keeps them.
    """
    if op.type != "Sum" or op.inputs[1].op.type != BROADCAST_AXES or op.inputs[0].shape.rank is None:
        return False
    users = op.outputs[0].consumers()
    return op.get_attr("keep_dims") or (bool(users) and all(_reshapes_to(user, _shape_summed_to(op)) for user in users))


def _shape_summed_to(op: tf.Operation) -> Tensor:
    """The shape of the operand that a sum along `BROADCAST_AXES` is for, a tensor."""
    return op.inputs[1].op.inputs[op.inputs[1].value_index]


def _reshapes_to(op: tf.Operation, shape: Tensor) -> bool:
    if op.type != RESHAPE:
        return False
    given = op.inputs[1]
    return given is shape or (given.op.type == shape.op.type == SHAPE and given.op.inputs[0] is shape.op.inputs[0])


def _reduced(op: tf.Operation, shape: ShapeOf, value_of: ValueOf) -> AxisLabels | None:
    axes, labels = value_of(op.inputs[1]), in_order(len(shape(0)))
    if axes is None:
        return None
    gone = {labels[int(axis) % len(labels)] for axis in np.reshape(axes, -1)} if labels else set()
    kept = [None if label in gone else label for label in labels]
    return [labels, None], kept if op.get_attr("keep_dims") else [label for label in kept if label]


def _reduce(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    if undoes_broadcast(op):
        _check_not_broadcast(op, axis, wanted)
        return [axis, SHARED]
    return example_axes(op, axis, wanted)


def _check_not_broadcast(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> None:
    """Have the run check that what was broadcast has the examples: else its gradient is a sum over them.

    Inside a custom gradient that is checked of what goes into it.
    """
    shape_of = _shape_summed_to(op).op
    if shape_of.type != SHAPE:
        raise NoRule("the axes it reduces over are unknown until it runs")
    operand = shape_of.inputs[0]
    if not wanted.by_value:
        wanted.assume(op, operand, axis.moved(axis.axis - op.inputs[0].shape.rank + operand.shape.rank))


def _along_constant_axes(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    along, rank = static_value(op.inputs[-1]), op.inputs[0].shape.rank
    if along is None or rank is None or axis.axis in {int(index) % rank for index in along.reshape(-1)}:
        raise NoRule("it runs along the axis of the examples")
    return [axis] + [SHARED] * (len(op.inputs) - 1)


# -------------------------------------------------------------------------------------------------------- sizes, values


def _one_for_all(known: SymbolicSizes, output: Tensor, given: Given) -> Sizes:
    return given[0][:1] if given[0] and len(set(given[0])) == 1 else None


def _reduced_by(function: Callable) -> Callable:
    """A rule for the value of a reduction that does not keep the axes that it reduces."""
    of_whole = of_inputs(lambda value, axes: function(value, axis=tuple(np.reshape(axes, -1))))
    return lambda output, value_of: None if output.op.get_attr("keep_dims") else of_whole(output, value_of)


# -------------------------------------------------------------------------------- gradients, conversions to many slices


def _euclidean_norm(op: tf.Operation, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    """u·x/‖x‖, zero where u or x is; TensorFlow divides by ‖x‖/u, which has no derivative at u = 0."""
    x, axes = op.inputs
    inverse = tf.math.multiply_no_nan(1 / op.outputs[0], cotangent)
    return tf.math.multiply_no_nan(_kept(inverse, x, axes), x), None


def _kept(reduced: Tensor, x: Tensor, axes: Tensor) -> Tensor:
    """What a reduction of x over `axes` gave, with those axes of size one."""
    places = tf.math.floormod(tf.reshape(axes, [-1, 1]), tf.cast(tf.rank(x), axes.dtype))
    ones = tf.ones_like(places[:, 0], tf.int32)
    return tf.reshape(reduced, tf.tensor_scatter_nd_update(tf.shape(x), places, ones))


def _cumprod(op: tf.Operation, x: Tensor, axis: Tensor) -> Tensor:
    """Exact at zeros, where TensorFlow divides by x."""
    return _accumulated(op, x, axis, tf.multiply)


def _cumulative_logsumexp(op: tf.Operation, x: Tensor, axis: Tensor) -> Tensor:
    """Linear in what flows back, where TensorFlow takes its logarithm."""
    return _accumulated(op, x, axis, lambda x, y: y + tf.nn.softplus(x - y))


def _accumulated(op: tf.Operation, x: Tensor, axis: Tensor, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """What an op accumulates along an axis, by doubling distances (Hillis & Steele 1986).

    Where `op` excludes the element itself the first result is a constant, here zero whichever it is.
    """
    axis = tf.math.floormod(axis, tf.cast(tf.rank(x), axis.dtype))
    whole = _first(x, axis)
    whole = tf.reverse(whole, [0]) if op.get_attr("reverse") else whole
    results = whole[:-1] if op.get_attr("exclusive") else whole
    known, length = results.shape[0], tf.shape(results)[0]
    for k in range(31 if known is None else max(known - 1, 0).bit_length()):
        by = tf.minimum(1 << k, length)
        combined = tf.concat([results[:by], combine(results[by:], results[: length - by])], 0)
        results = tf.ensure_shape(combined, results.shape)
    results = tf.concat([tf.zeros_like(whole[:1]), results], 0) if op.get_attr("exclusive") else results
    results = tf.reverse(results, [0]) if op.get_attr("reverse") else results
    return _first(results, axis, back=True)


def _first(x: Tensor, axis: Tensor, back: bool = False) -> Tensor:
    """Bring `axis` to the front, or back from there."""
    before, behind = tf.range(axis), tf.range(axis + 1, tf.rank(x))
    order = tf.concat([axis[None], before, behind], 0)
    return tf.transpose(x, tf.math.invert_permutation(order) if back else order)


def _roll(op: tf.Operation, inputs: Sequence[Tensor], stacked: Sequence[bool]) -> Sequence[Tensor]:
    """TensorFlow adds the axis of the slices to every axis, also to one that counts from the back."""
    tensor, shift, axis = inputs
    known = static_value(axis)
    if known is not None and (known >= 0).all():
        return inputs
    return [tensor, shift, tf.math.floormod(axis, tf.cast(tf.rank(tensor) - int(stacked[0]), axis.dtype))]


# ---------------------------------------------------------------------------------------------------------------- facts

declare(
    f"Sum {MEAN} Max Min Prod",
    labels=_reduced,
    example_axis=_reduce,
    sizes=labelled_sizes,
    shortcut=by_known_lists(lambda c, axes: [[k + (k >= 0) for k in axes]]),
)
declare(f"Sum {MEAN}", linear="in the first")
declare("All Any", **by_labels(_reduced))
declare("Max", entries=_one_for_all, value=_reduced_by(np.max))
declare("Prod", entries=lambda known, output, given: given[0] and [product(given[0])], value=_reduced_by(np.prod))
declare("EuclideanNorm", **by_labels(_reduced), gradient=Gradient(_euclidean_norm))
declare("Cumsum ReverseV2", linear="in the first", example_axis=_along_constant_axes)
declare("Cumprod", example_axis=_along_constant_axes, gradient=differentiated_as(_cumprod))
declare("CumulativeLogsumexp", example_axis=_along_constant_axes, gradient=differentiated_as(_cumulative_logsumexp))
declare("Roll", affine=(0,), example_axis=_along_constant_axes, conversion=_roll)
