"""Ops that turn numbers and words into categories, as preprocessing does: no gradient passes."""

import tensorflow as tf

from tfjac.graph.examples.example_rules import SHARED, Axis, ExampleAxis, NoRule, Wanted, known_shape
from tfjac.graph.facts import declare


def _one_hot(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """The classes take an axis that the indices do not have."""
    classes = op.get_attr("axis") % len(known_shape(wanted, op.outputs[0]))
    if axis.axis == classes:
        raise NoRule("it has the classes along the axis of the examples")
    return [axis.moved(axis.axis - (classes < axis.axis)), SHARED, SHARED, SHARED]


declare("OneHot", example_axis=_one_hot, sized_by=(1,))
declare(
    "AsString Bucketize StringToHashBucketFast StringToHashBucketStrong", example_axis=lambda op, axis, wanted: [axis]
)
declare("LookupTableFindV2", repeatable=True, example_axis=lambda op, axis, wanted: [SHARED, axis, SHARED])
