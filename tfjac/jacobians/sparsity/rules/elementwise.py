"""Ops that act element by element, with broadcasting."""

import numpy as np

from tfjac.graph.example_rules.elementwise import GRADIENTS, SEVERAL_INPUTS, UNARY
from tfjac.jacobians.sparsity.index_sets import axis_names, links, union
from tfjac.jacobians.sparsity.rules.registry import rule


@rule(*UNARY.split(), *SEVERAL_INPUTS.split(), *GRADIENTS.split())
def _elementwise(step):
    return [union([broadcast(step, k) for k in step.carriers])]


def broadcast(step, k):
    """What the output depends on through input k, whose axes are aligned with the output's from the right."""
    shape, out_shape = step.shape(k), step.out_shape()
    labels, out_labels = axis_names(len(shape)), axis_names(len(out_shape))
    whole = out_shape[len(out_shape) - len(shape) :]
    labels = [label if size == full else None for label, size, full in zip(labels, shape, whole)]
    return step.linked(k, labels, out_labels)


@rule("Mul", "MulNoNan")
def _mul(step):
    """A fixed factor that is zero, as in a mask, cuts the dependence."""
    parts = []
    for k in step.carriers:
        part = broadcast(step, k)
        other = step.fixed(step.op.inputs[1 - k]) if step.patterns[1 - k] is None else None
        if other is not None and not np.all(other):
            kept = np.flatnonzero(np.broadcast_to(other, step.out_shape()))
            part = links(kept, kept, (part.shape[0], part.shape[0])) @ part
        parts.append(part)
    return [union(parts)]


@rule("ReadVariableOp", "Identity")
def _unchanged(step):
    return [step.patterns[0]]


@rule("BiasAdd")
def _bias_add(step):
    rank = len(step.out_shape())
    labels = axis_names(rank)
    channel = labels[1 if step.op.get_attr("data_format") == b"NCHW" else -1]
    return [union([step.linked(k, labels if k == 0 else [channel], labels) for k in step.carriers])]


@rule("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _batch_norm(step):
    """Inputs x, scale, offset, mean, variance; in training mode a channel depends on all of its elements."""
    labels = axis_names(len(step.out_shape()))
    channel = labels[1 if step.op.get_attr("data_format") in (b"NCHW", b"NCDHW") else -1]
    of_x = [label if label == channel else None for label in labels] if step.op.get_attr("is_training") else labels
    result = []
    for index, output in enumerate(step.op.outputs):
        out_labels = labels if index == 0 else [channel]
        known = output.shape.rank == len(out_labels)
        result.append(
            union([step.linked(k, of_x if k == 0 else [channel], out_labels, index) for k in step.carriers])
            if known
            else None
        )
    return result
