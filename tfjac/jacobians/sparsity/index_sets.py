"""Index sets: for each element of a tensor, the elements of x that it depends on.

They are kept as a boolean matrix [elements of the tensor, elements of x]. What an op does to them is the chain rule: a
product with the boolean matrix of the op's own dependencies. The functions here are the few such products that all
ops are made of.
"""

import contextlib
import contextvars
import functools
import math
import operator
from collections.abc import Container, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse

from tfjac.types import Array, ArrayLike, Tensor

IndexSets: TypeAlias = scipy.sparse.csr_array
"""A boolean matrix [elements of a tensor, elements of x]."""

_MOST: contextvars.ContextVar[int | None] = contextvars.ContextVar("most entries", default=None)


class TooManyEntries(Exception):
    """The index sets of a tensor would have more entries than they may."""


@contextlib.contextmanager
def at_most(entries: int) -> Iterator[None]:
    """Within this context, raise `TooManyEntries` before the index sets of one tensor take more than `entries`."""
    before = _MOST.set(entries)
    try:
        yield
    finally:
        _MOST.reset(before)


def check_entries(count: int | np.integer) -> None:
    """Raise `TooManyEntries` where so many are more than the limit that `at_most` set, if one is set."""
    most = _MOST.get()
    if most is not None and count > most:
        raise TooManyEntries(f"{count:,} entries are more than {most:,}")


def composed(local: scipy.sparse.sparray, pattern: IndexSets) -> IndexSets:
    """Return the index sets of a tensor, given those of the one that it depends on.

    Args:
        local: boolean matrix [elements of the tensor, elements of the other], which of these each depends on.
        pattern: index sets of the other.
    """
    if _MOST.get() is not None:
        local = scipy.sparse.csr_array(local)
        check_entries(int(np.diff(pattern.indptr)[local.indices].sum(dtype=np.int64)))
    return local @ pattern


def links(rows: Array, columns: Array, shape: tuple[int, int]) -> IndexSets:
    """Return the boolean matrix with an entry at each `(rows[k], columns[k])`."""
    ones = np.ones(len(rows), bool)
    return scipy.sparse.csr_array((ones, (rows, columns)), shape=shape)


def empty(rows: int, columns: int) -> IndexSets:
    """Return the matrix without entries."""
    return scipy.sparse.csr_array((rows, columns), dtype=bool)


def each_its_own(tensors: Sequence[Tensor], sizes: Sequence[int]) -> list[tuple[Tensor, IndexSets]]:
    """List pairs of a tensor and its index sets, where each element is an x itself, one tensor behind the other."""
    total, offsets = sum(sizes), np.cumsum([0, *sizes])
    return [
        (tensor, scipy.sparse.eye_array(size, total, k=offset, dtype=bool, format="csr"))
        for tensor, size, offset in zip(tensors, sizes, offsets)
    ]


def union(parts: Sequence[Any]) -> Any:
    """Unite index sets of the same tensor."""
    return functools.reduce(operator.add, parts)


def all_elements(pattern: IndexSets) -> IndexSets:
    """Return what all elements together depend on, as a single row."""
    return collected(pattern, np.zeros(pattern.shape[0], np.int64), 1)


def repeated(row: IndexSets, count: int) -> IndexSets:
    """Return the index sets of `count` elements that all have those of `row`."""
    return picked(row, np.zeros(count, np.int64))


def smeared(pattern: IndexSets, shape: Sequence[int], axes: Container[int]) -> IndexSets:
    """Let each element have the index sets of all elements with its place on the axes other than `axes`."""
    labels = [None if axis in axes else label for axis, label in enumerate(axis_names(len(shape)))]
    return linked(pattern, labels, shape, labels, shape)


def picked(pattern: IndexSets, numbers: ArrayLike) -> IndexSets:
    """Return the index sets of a tensor whose element k is element `numbers[k]`, or nothing where that is negative."""
    numbers = np.asarray(numbers).reshape(-1)
    kept = np.flatnonzero(numbers >= 0)
    return composed(links(kept, numbers[kept], (len(numbers), pattern.shape[0])), pattern)


def collected(pattern: IndexSets, groups: ArrayLike, num_groups: int) -> IndexSets:
    """Return the union of the index sets of each group; element k is of group `groups[k]`, of none where negative."""
    groups = np.asarray(groups).reshape(-1)
    kept = np.flatnonzero(groups >= 0)
    return composed(links(groups[kept], kept, (num_groups, len(groups))), pattern)


def linked(
    pattern: IndexSets,
    labels: Sequence[str | None],
    shape: Sequence[int],
    out_labels: Sequence[str | None],
    out_shape: Sequence[int],
) -> IndexSets:
    """Return the index sets of a tensor that depends on all elements with the same place on the axes they share.

    Args:
        pattern: index sets of the input.
        labels, out_labels: one label per axis of the input and of the output. An axis whose label the other lacks is
            summed over, or spread along; a label of None is shared with none.
        shape, out_shape: sizes of the axes.
    """
    if labels == out_labels and None not in labels:
        return pattern
    shared = [label for label in labels if label is not None and label in out_labels]
    sizes = [shape[labels.index(label)] for label in shared]
    groups = numbered(labels, shape, shared, sizes)
    if len(shared) < len(labels):
        pattern = collected(pattern, groups, math.prod(sizes))
        groups = np.arange(pattern.shape[0])
    places = numbered(out_labels, out_shape, shared, sizes)
    return picked(pattern, np.argsort(groups)[places])


def numbered(
    labels: Sequence[str | None], shape: Sequence[int], kept: Sequence[str | None], sizes: Sequence[int]
) -> Array:
    """For each element of a tensor, row-major, the flat number of its place on the axes `kept` of these sizes."""
    total, stride = np.zeros(shape, np.int64), 1
    for label, size in zip(reversed(kept), reversed(sizes)):
        along = [1] * len(shape)
        along[labels.index(label)] = size
        total = total + stride * np.arange(size).reshape(along)
        stride *= size
    return total.reshape(-1)


def axis_names(rank: int, prefix: str = "") -> list[str | None]:
    """Return labels for the axes of a tensor, counted from the right, so that broadcasting aligns them."""
    return [f"{prefix}{rank - k}" for k in range(rank)]
