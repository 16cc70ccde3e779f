"""Ops that move elements: run once, on the numbers of the elements, they tell where each one comes from."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import scipy.sparse

from tfjac.graph.copying.constants import run
from tfjac.jacobians.sparsity.index_sets import IndexSets, axis_names, empty, picked, union
from tfjac.jacobians.sparsity.rules.index_set_rules import NoIndexSets, Patterns, Step, rule, value_rule
from tfjac.jacobians.sparsity.rules.labelled import broadcast
from tfjac.types import Array

FIRST_INPUT = """
    BatchToSpaceND DepthToSpace Diag DiagPart DynamicPartition MatrixBandPart ReverseV2
    SpaceToBatchND SpaceToDepth Split SplitV Unpack
"""
# Which inputs hold the elements that are moved; all others say how.
MOVED = {
    **dict.fromkeys(FIRST_INPUT.split(), (0,)),
    "MatrixDiagPartV3": (0, 2),
    "MatrixDiagV3": (0, 4),
    "MatrixSetDiagV3": (0, 1),
    "Split": (1,),
}


@rule(*MOVED)
def _moved(step: Step) -> Patterns:
    return moved(step, MOVED[step.op.type])


@rule("Pack")
def _all_inputs(step: Step) -> Patterns:
    return moved(step, range(len(step.op.inputs)))


@rule("ConcatV2")
def _concat(step: Step) -> Patterns:
    return moved(step, range(len(step.op.inputs) - 1))


@rule("Reshape")
def _same_order(step: Step) -> Patterns:
    return [step.patterns[0]]


@rule("Fill")
def _fill(step: Step) -> Patterns:
    return [step.linked(1, [], axis_names(len(step.out_shape())))]


@rule("Tile")
def _tile(step: Step) -> Patterns:
    return moved(step, (0,), {1: np.divide(step.out_shape(), step.shape(0)).astype(int)})


@value_rule("Select", "SelectV2")
def _select(step: Step) -> Patterns:
    """A fixed condition, as on the boundary of a domain, chooses now; an open one may choose either."""
    if step.patterns[0] is None and step.fixed(0) is not None:
        return moved(step, (1, 2))
    parts = [broadcast(step, k) for k in step.carriers if k > 0]
    if step.patterns[0] is not None:
        by_row = step.op.type == "Select" and len(step.shape(0)) == 1  # a vector chooses rows, it is not broadcast
        labels = axis_names(len(step.out_shape()))
        parts.append(step.linked(0, labels[:1], labels) if by_row else broadcast(step, 0))
    return [union(parts)]


def moved(
    step: Step,
    data: Collection[int],
    given: Mapping[int, Array] | None = None,
    attributes: Mapping[str, Any] | None = None,
    patterns: Patterns | None = None,
) -> Patterns:
    """Return the index sets of all outputs of an op that only moves the elements of its inputs `data`.

    The elements are numbered from 1 on through all of these inputs; what the op itself fills in is 0.

    Args:
        data: positions of the inputs whose elements are moved.
        given: a dict from positions of other inputs to values that stand for theirs.
        attributes: a dict of attributes of the op that are to differ.
        patterns: index sets of the inputs, where these are not to be the step's.
    """
    if not set(step.carriers) <= set(data):
        raise NoIndexSets("where it moves elements to depends on x")
    inputs, count = [], 0
    for k in range(len(step.op.inputs)):
        if k not in data:
            inputs.append(given[k] if given and k in given else step.value(k))
            continue
        size = step.size(k)
        inputs.append(np.arange(count + 1, count + size + 1, dtype=np.float64).reshape(step.shape(k)))
        count += size
    together = _stacked(step, data, patterns or step.patterns)
    return [picked(together, np.asarray(numbers, np.int64) - 1) for numbers in run(step.op, inputs, attributes)]


def _stacked(step: Step, data: Iterable[int], patterns: Patterns) -> IndexSets:
    """The index sets of several inputs one below the other."""
    columns = next(pattern.shape[1] for pattern in patterns if pattern is not None)
    parts = [empty(step.size(k), columns) if patterns[k] is None else patterns[k] for k in data]
    return parts[0] if len(parts) == 1 else scipy.sparse.vstack(parts, format="csr")
