"""Ops that act element by element, with broadcasting."""

import numpy as np

from tfjac.graph.op_types import GRADIENTS, SEVERAL_INPUTS, UNARY
from tfjac.jacobians.sparsity.index_sets import axis_names, links, union
from tfjac.jacobians.sparsity.rules.index_set_rules import list_rule, rule, value_rule

COMPARISONS = """
    ApproximateEqual Equal Greater GreaterEqual IsFinite IsInf IsNan Less LessEqual LogicalAnd LogicalNot LogicalOr
    NotEqual
"""


@value_rule(*UNARY, *SEVERAL_INPUTS, *GRADIENTS, *COMPARISONS.split())
def _elementwise(step):
    return [union([broadcast(step, k) for k in step.carriers])]


def broadcast(step, k):
    """What the output depends on through input k, whose axes are aligned with the output's from the right."""
    shape, out_shape = step.shape(k), step.out_shape()
    labels, out_labels = axis_names(len(shape)), axis_names(len(out_shape))
    return step.linked(k, unless_spread(labels, shape, dict(zip(out_labels, out_shape))), out_labels)


def unless_spread(labels, shape, sizes):
    """The labels of an operand, None for each axis of size 1 that is spread along an axis of another of `sizes`."""
    return [label if size == sizes.get(label, size) else None for label, size in zip(labels, shape)]


@value_rule("Mul", "MulNoNan")
def _mul(step):
    """A fixed factor that is zero, as in a mask, cuts the dependence."""
    parts = []
    for k in step.carriers:
        part = broadcast(step, k)
        other = step.fixed(1 - k) if step.patterns[1 - k] is None else None
        if other is not None and not np.all(other):
            kept = np.flatnonzero(np.broadcast_to(other, step.out_shape()))
            part = links(kept, kept, (part.shape[0], part.shape[0])) @ part
        parts.append(part)
    return [union(parts)]


@list_rule("ReadVariableOp", "Identity")
def _unchanged(step):
    return [step.patterns[0]]


@list_rule("IdentityN")
def _each_unchanged(step):
    return step.patterns


@list_rule("AddN")
def _add_n(step):
    return [union([step.patterns[k] for k in step.carriers])]


@rule("BiasAdd")
def _bias_add(step):
    rank = len(step.out_shape())
    labels = axis_names(rank)
    channel = labels[1 if step.op.get_attr("data_format") == b"NCHW" else -1]
    return [union([step.linked(k, labels if k == 0 else [channel], labels) for k in step.carriers])]


@rule("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _batch_norm(step):
    """Inputs x, scale, offset, mean, variance; in training mode a channel depends on all of its elements."""
    labels = axis_names(len(step.shape(0)))
    channel = labels[1 if step.op.get_attr("data_format") in (b"NCHW", b"NCDHW") else -1]
    of_x = [label if label == channel else None for label in labels] if step.op.get_attr("is_training") else labels
    result = [None] * len(step.op.outputs)
    for index in step.wanted:
        out_labels = labels if index == 0 else [channel]
        parts = [step.linked(k, of_x if k == 0 else [channel], out_labels, index) for k in step.carriers]
        result[index] = union(parts)
    return result
