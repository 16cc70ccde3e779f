"""Sums and extremes over segments, and what is scattered."""

import numpy as np

from tfjac.jacobians.sparsity.index_sets import IndexSets, axis_names, collected, links, picked, union
from tfjac.jacobians.sparsity.rules.index_set_rules import Patterns, Step, rule
from tfjac.types import Array

SEGMENTS = """
    SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd
    UnsortedSegmentSum
"""
SPARSE_SEGMENTS = """
    SparseSegmentMean SparseSegmentMeanWithNumSegments SparseSegmentSqrtN SparseSegmentSqrtNWithNumSegments
    SparseSegmentSum SparseSegmentSumWithNumSegments
"""


@rule(*SEGMENTS.split())
def _segments(step: Step) -> Patterns:
    """Data [*ids, ...] to [segments, ...]; open ids may name any segment."""
    ids = step.fixed(1)
    rank = len(step.shape(1))
    labels = axis_names(len(step.shape(0)))
    if ids is None:
        return [step.linked(0, labels, ["segment", *labels[rank:]])]
    return [_added(step, step.patterns[0], ids)]


@rule(*SPARSE_SEGMENTS.split())
def _sparse_segments(step: Step) -> Patterns:
    """Data [rows, ...], the rows that are used, and the segment of each of these."""
    rows, ids = step.fixed(1), step.fixed(2)
    labels = axis_names(len(step.shape(0)))
    if rows is None or ids is None:
        return [step.linked(0, labels, ["segment", *labels[1:]])]
    inner = step.size(0) // step.shape(0)[0]
    used = picked(step.patterns[0], rows.reshape(-1, 1) * inner + np.arange(inner))
    return [_added(step, used, ids)]


@rule("ScatterNd")
def _scatter(step: Step) -> Patterns:
    """Inputs indices, updates, shape."""
    return [_scattered(step, 0, 1)]


@rule("TensorScatterAdd", "TensorScatterSub", "TensorScatterMax", "TensorScatterMin", "TensorScatterUpdate")
def _scatter_into(step: Step) -> Patterns:
    """Inputs tensor, indices, updates. Of several updates of one element, each may be the one that stays."""
    parts = []
    if step.patterns[0] is not None:
        parts.append(step.patterns[0])
        if step.op.type == "TensorScatterUpdate" and step.fixed(1) is not None:
            inner = _places(step, step.value(1), step.size(2))
            kept = np.setdiff1d(np.arange(step.size(0)), inner)
            parts = [links(kept, kept, (step.size(0), step.size(0))) @ step.patterns[0]]
    if step.patterns[2] is not None:
        parts.append(_scattered(step, 1, 2))
    return [union(parts)]


@rule("DynamicStitch", "ParallelDynamicStitch")
def _stitch(step: Step) -> Patterns:
    """Lists of indices and of data, one row for each index. Of several for one row, each may be the one that stays."""
    count = len(step.op.inputs) // 2
    return [union([_added(step, step.patterns[k], step.value(k - count)) for k in step.carriers])]


def _scattered(step: Step, indices: int, updates: int) -> IndexSets:
    """What the output owes to updates `[*indices but the last axis, ...]`."""
    places = step.fixed(indices)
    if places is None:
        labels, outer = axis_names(len(step.shape(updates))), len(step.shape(indices)) - 1
        front = [f"new{k}" for k in range(step.shape(indices)[-1])]
        return step.linked(updates, labels, front + labels[outer:])
    return collected(step.patterns[updates], _places(step, places, step.size(updates)), step.out_size())


def _places(step: Step, indices: Array, size: int) -> Array:
    """Turn indices `[..., k]` into the leading k axes of the output into the flat places of `size` updates there."""
    depth = indices.shape[-1]
    rows = np.ravel_multi_index(np.moveaxis(indices, -1, 0), step.out_shape()[:depth]) if depth else indices[..., 0]
    return _with_inner(rows, size)


def _with_inner(rows: Array, size: int) -> Array:
    """The flat places of rows, `size` elements in all; negative where the row is."""
    inner = size // max(rows.size, 1)
    return np.where(rows.reshape(-1, 1) < 0, -1, rows.reshape(-1, 1) * inner + np.arange(inner))


def _added(step: Step, pattern: IndexSets, rows: Array) -> IndexSets:
    """Row k of the data, `[*rows.shape, ...]`, is added to row `rows[k]` of the output."""
    return collected(pattern, _with_inner(rows, pattern.shape[0]), step.out_size())
