"""Ops along some axes: running sums, windows of channels."""

import math

import numpy as np
import scipy.sparse

from tfjac.jacobians.sparsity.index_sets import IndexSets, axis_names, composed, union
from tfjac.jacobians.sparsity.rules.index_set_rules import Patterns, Step, rule
from tfjac.types import Array


@rule("L2Loss")
def _to_scalar(step: Step) -> Patterns:
    return [step.linked(0, axis_names(len(step.shape(0))), [])]


@rule("Cumsum", "Cumprod", "CumulativeLogsumexp")
def _cumulative(step: Step) -> Patterns:
    size = step.shape(0)[_axis(step)]
    running = np.tri(size, k=-1 if step.op.get_attr("exclusive") else 0, dtype=bool)
    return [_along(step, _axis(step), running.T if step.op.get_attr("reverse") else running)]


def _axis(step: Step) -> int:
    return int(step.value(1)) % len(step.shape(0))


@rule("LRN")
def _local_response(step: Step) -> Patterns:
    """Each channel is divided by what it and its neighbours amount to."""
    radius, channels = step.op.get_attr("depth_radius"), step.shape(0)[-1]
    distance = np.subtract.outer(np.arange(channels), np.arange(channels))
    return [_along(step, len(step.shape(0)) - 1, np.abs(distance) <= radius)]


@rule("Cross")
def _cross(step: Step) -> Patterns:
    """Of three numbers, each comes of the other two."""
    return [union([_along(step, len(step.shape(k)) - 1, ~np.eye(3, dtype=bool), k) for k in step.carriers])]


def _along(step: Step, axis: int, local: Array, k: int = 0) -> IndexSets:
    """Each place along an axis of input k depends on the places where the boolean matrix `local` has an entry."""
    shape = step.shape(k)
    before, after = (scipy.sparse.eye_array(math.prod(part), dtype=bool) for part in (shape[:axis], shape[axis + 1 :]))
    whole = scipy.sparse.kron(before, scipy.sparse.kron(local, after), format="csr")
    return composed(whole.astype(bool), step.patterns[k])
