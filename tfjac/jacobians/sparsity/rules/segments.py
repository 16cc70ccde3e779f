"""Sums and extremes over segments, and scattered sums."""

import numpy as np

from tfjac.jacobians.sparsity.index_sets import axis_names, collected, union
from tfjac.jacobians.sparsity.rules.registry import rule

SEGMENTS = """
    SegmentMaxV2 SegmentMinV2 SegmentProdV2 SegmentSumV2 UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd
    UnsortedSegmentSum
"""


@rule(*SEGMENTS.split())
def _segments(step):
    """Data [*ids, ...] to [segments, ...]; open ids may name any segment."""
    ids = step.fixed(step.op.inputs[1])
    rank = len(step.shape(1))
    labels = axis_names(len(step.shape(0)))
    if ids is None:
        return [step.linked(0, labels, ["segment", *labels[rank:]])]
    return [_added(step, 0, ids)]


@rule("ScatterNd")
def _scatter(step):
    return [_added(step, 1, _flat_places(step, step.value(0)))]


@rule("TensorScatterAdd", "TensorScatterSub", "TensorScatterMax", "TensorScatterMin")
def _scatter_into(step):
    places = _flat_places(step, step.value(1))
    parts = [step.patterns[0]] if step.patterns[0] is not None else []
    if step.patterns[2] is not None:
        parts.append(_added(step, 2, places))
    return [union(parts)]


def _flat_places(step, indices):
    """Turn indices `[..., k]` into the leading k axes of the output into flat numbers."""
    depth = indices.shape[-1]
    return np.ravel_multi_index(np.moveaxis(indices, -1, 0), step.out_shape()[:depth]) if depth else indices[..., 0]


def _added(step, k, places):
    """Element (e, inner) of input k is added to element (places[e], inner) of the output."""
    size = step.op.outputs[0].shape.num_elements()
    inner = step.op.inputs[k].shape.num_elements() // max(places.size, 1)
    groups = np.where(places.reshape(-1, 1) < 0, -1, places.reshape(-1, 1) * inner + np.arange(inner))
    return collected(step.patterns[k], groups, size)
