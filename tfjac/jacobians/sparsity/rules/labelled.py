"""Ops whose axes have labels: what is elementwise, with broadcasting, products, reductions, and what moves axes.

Rules of other modules for single ones of these types, which know more, take their place.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfjac.graph import axis_labels
from tfjac.graph.op_types import LABELLED, PRODUCTS
from tfjac.jacobians.sparsity.index_sets import (
    IndexSets,
    axis_names,
    check_entries,
    collected,
    composed,
    linked,
    links,
    picked,
    union,
)
from tfjac.jacobians.sparsity.rules.index_set_rules import NoIndexSets, Patterns, Step, list_rule, rule, value_rule
from tfjac.types import Array


@value_rule(*LABELLED)
def _labelled(step: Step) -> Patterns:
    """An output element depends on the elements with its labels; those that meet a fixed zero drop out.

    An axis of size 1 may be spread along one of the same label, and a label that is repeated takes a diagonal.
    """
    found = axis_labels(step.op, step.shape, step.walk.known)
    if found is None or any(found[0][k] is None for k in step.carriers):
        raise NoIndexSets("the axes that it works along are unknown until it runs")
    operands = [
        labels if labels is None else _labelled_axes(labels, step.shape(k)) for k, labels in enumerate(found[0])
    ]
    output, out_shape = _labelled_axes(found[1], step.out_shape())
    sizes = dict(zip(output, out_shape))
    for labels, shape in filter(None, operands):
        sizes |= {label: size for label, size in zip(labels, shape) if size != 1 or label not in sizes}
    result = list(dict.fromkeys(output))
    total = union([_part(step, k, operands, result, sizes) for k in step.carriers])
    if result == output:
        return [total]
    places = _places(output, out_shape, result, [sizes[label] for label in result])
    return [collected(total, places, step.out_size())]


def _labelled_axes(labels: Sequence[str | None], shape: Sequence[int]) -> tuple[list[str], list[int]]:
    """The labels and sizes of the axes that have one; the others have size 1."""
    pairs = [(label, size) for label, size in zip(labels, shape) if label is not None]
    return [label for label, _ in pairs], [size for _, size in pairs]


def _part(
    step: Step,
    k: int,
    operands: Sequence[tuple[list[str], list[int]] | Any],
    output: Sequence[str],
    sizes: Mapping[str, int],
) -> IndexSets:
    """What the output, with labels none of which is repeated, depends on through input k."""
    pattern, (labels, shape) = step.patterns[k], operands[k]
    own = list(dict.fromkeys(labels))
    if own != labels:
        own_shape = [shape[labels.index(label)] for label in own]
        pattern, shape = picked(pattern, _places(labels, shape, own, own_shape)), own_shape
    own = unless_spread(own, shape, sizes)
    multiplies = step.op.type in PRODUCTS and len(operands) == 2
    fixed = step.fixed(1 - k) if multiplies and step.patterns[1 - k] is None else None
    if fixed is None or np.all(fixed):
        return linked(pattern, own, shape, output, [sizes[label] for label in output])
    factor_labels, factor_shape = operands[1 - k]
    return _with_factor(pattern, own, shape, np.reshape(fixed, factor_shape), factor_labels, output, sizes)


def _places(labels: Sequence[str], shape: Sequence[int], own: Sequence[str], sizes: Sequence[int]) -> Array:
    """The flat places, in an array with labels some of which are repeated, of the elements of its diagonal."""
    grid = dict(zip(own, np.meshgrid(*map(np.arange, sizes), indexing="ij")))
    return np.ravel_multi_index([grid[label] for label in labels], shape).reshape(-1)


def _with_factor(
    pattern: IndexSets,
    labels: Sequence[str | None],
    shape: Sequence[int],
    factor: Array,
    factor_labels: Sequence[str],
    output: Sequence[str],
    sizes: Mapping[str, int],
) -> IndexSets:
    """Go through the entries of a fixed factor, each along all places of the axes that it does not have.

    Args:
        pattern, labels, shape: of the other factor; a label of None belongs to an axis that is spread, of size 1.
        factor, factor_labels: the fixed factor; labels may be repeated, and axes of size 1 be spread.
        output, sizes: labels of the result, and the size of each label.
    """
    along = math.prod(size for label, size in sizes.items() if label not in factor_labels)
    check_entries(np.count_nonzero(factor) * along)
    found, kept = np.argwhere(factor).T, np.ones(np.count_nonzero(factor), bool)  # not nonzero, which takes no scalar
    places: dict[str, np.ndarray] = {}
    for label, size, each in zip(factor_labels, np.shape(factor), found):
        if size == sizes[label]:
            kept &= places.setdefault(label, each) == each
    free = [label for label in dict.fromkeys([*labels, *output]) if label not in places and label is not None]
    grid = np.meshgrid(*(np.arange(sizes[label]) for label in free), indexing="ij")
    coordinates = {label: each.reshape(1, -1) for label, each in zip(free, grid)}
    coordinates |= {label: each[kept].reshape(-1, 1) for label, each in places.items()}
    entries = (np.count_nonzero(kept), math.prod(sizes[label] for label in free))

    def flat(of_labels: Sequence[Any], shape: Sequence[int]) -> Array:
        axes = [np.broadcast_to(0 if label is None else coordinates[label], entries) for label in of_labels]
        return np.ravel_multi_index(axes, shape).reshape(-1) if axes else np.zeros(entries, np.int64).reshape(-1)

    out_shape = [sizes[label] for label in output]
    local = links(flat(output, out_shape), flat(labels, shape), (math.prod(out_shape), pattern.shape[0]))
    return composed(local, pattern)


def broadcast(step: Step, k: int) -> IndexSets:
    """What the output depends on through input k, whose axes are aligned with the output's from the right."""
    labels, out_labels = axis_names(len(step.shape(k))), axis_names(len(step.out_shape()))
    return step.linked(k, unless_spread(labels, step.shape(k), dict(zip(out_labels, step.out_shape()))), out_labels)


def unless_spread(labels: Sequence[str | None], shape: Sequence[int], sizes: Mapping[Any, int]) -> list[str | None]:
    """The labels of an operand, None for each axis of size 1 that is spread along an axis of another of `sizes`."""
    return [label if size == sizes.get(label, size) else None for label, size in zip(labels, shape)]


@list_rule("ReadVariableOp", "Identity")
def _unchanged(step: Step) -> Patterns:
    return [step.patterns[0]]


@list_rule("IdentityN")
def _each_unchanged(step: Step) -> Patterns:
    return step.patterns


@list_rule("AddN")
def _add_n(step: Step) -> Patterns:
    return [union([step.patterns[k] for k in step.carriers])]


@rule("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _batch_norm(step: Step) -> Patterns:
    """Inputs x, scale, offset, mean, variance; in training mode a channel depends on all of its elements."""
    labels = axis_names(len(step.shape(0)))
    channel = labels[1 if step.op.get_attr("data_format") in (b"NCHW", b"NCDHW") else -1]
    of_x = [label if label == channel else None for label in labels] if step.op.get_attr("is_training") else labels
    result: Patterns = [None] * len(step.op.outputs)
    for index in step.wanted:
        out_labels = labels if index == 0 else [channel]
        parts = [step.linked(k, of_x if k == 0 else [channel], out_labels, index) for k in step.carriers]
        result[index] = union(parts)
    return result
