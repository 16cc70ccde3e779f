"""Ops that act element by element, with broadcasting.

Sums and products have rules of their own. The slopes of all others are what the gradient of the op says of ones, so
that they are TensorFlow's, and mended where those are wrong.
"""

from functools import reduce
from operator import add

import tensorflow as tf

from tfjac.graph import slopes_of, times
from tfjac.graph.op_types import SEVERAL_INPUTS, UNARY
from tfjac.jacobians.tangents.rules import NoTangents, Step, rule
from tfjac.types import Tensor


@rule(*UNARY, *SEVERAL_INPUTS)
def _by_slopes(step: Step) -> list[Tensor]:
    shape = step.op.outputs[0].shape
    if any(step.op.inputs[k].shape != shape for k in step.carriers):
        raise NoTangents  # the gradient would add up what was spread
    slopes = slopes_of(step.op, step.ones())
    if any(slopes[k] is None for k in step.carriers):
        raise NoTangents
    return [reduce(add, [times(step.tangents[k], slopes[k]) for k in step.carriers])]


@rule("Add AddV2")
def _sum(step: Step) -> list[Tensor]:
    return [reduce(add, [step.aligned(k) for k in step.carriers])]


@rule("Sub")
def _difference(step: Step) -> list[Tensor]:
    if 1 not in step.carriers:
        return [step.aligned(0)]
    return [-step.aligned(1) if step.carriers == [1] else step.aligned(0) - step.aligned(1)]


@rule("Neg")
def _negative(step: Step) -> list[Tensor]:
    return [-step.tangents[0]]


@rule("Mul")
def _product(step: Step) -> list[Tensor]:
    x, y = step.op.inputs
    if x is y:
        return [tf.math.multiply_no_nan(step.tangents[0], x + x)]
    return [reduce(add, [tf.math.multiply_no_nan(step.aligned(k), (y, x)[k]) for k in step.carriers])]


@rule("RealDiv Div")
def _quotient(step: Step) -> list[Tensor]:
    y, quotient = step.op.inputs[1], step.op.outputs[0]
    return [reduce(add, [times(step.aligned(k), -quotient / y if k else 1 / y) for k in step.carriers])]


@rule("AddN")
def _sum_of_many(step: Step) -> list[Tensor]:
    return [reduce(add, [step.tangents[k] for k in step.carriers])]


@rule("SelectV2")
def _chosen(step: Step) -> list[Tensor]:
    x, y = (tf.zeros([], step.op.outputs[0].dtype) if step.tangents[k] is None else step.aligned(k) for k in (1, 2))
    return [tf.where(step.op.inputs[0], x, y)]


@rule("Cast")
def _cast(step: Step) -> list[Tensor]:
    return [tf.cast(step.tangents[0], step.op.outputs[0].dtype)]


@rule("Identity ReadVariableOp EnsureShape Snapshot")
def _unchanged(step: Step) -> list[Tensor]:
    return [step.tangents[0]]
