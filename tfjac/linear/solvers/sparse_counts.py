"""How many entries JᵀJ and its factor have: counted, where it is known which rows of tables each example reads."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from tfjac.linear.contracts import JacobianRows
from tfjac.types import Array

MOST_PAIRS = 2**24
"""Of rows that examples read together. More of them are not counted: JᵀJ is next to dense, or counting takes long."""


HUB = 8
"""Times as many others as usual that a row must meet to be put at the end."""


class SparseCounts(NamedTuple):
    """What a sparse factorisation takes; upper bounds for the factor.

    Attributes:
        entries: of the lower triangle of JᵀJ.
        fill: entries of its factor, by orders that fill more than those that are taken.
        flops: multiply-adds of a factorisation within that envelope.
    """

    entries: float
    fill: float
    flops: float

    @classmethod
    def of(cls, jacobian: JacobianRows) -> "SparseCounts | None":
        """Return those of blocks of residuals, or None where the graph does not say what they read.

        Args:
            jacobian: J, all of whose factors are `GatherFactor`.
        """
        blocks, value_of = [each.factors for each in jacobian.operators], jacobian.value_of
        of_variables = [[each for each in factors if each is not None] for factors in zip(*blocks)]
        columns = [own[0].num_columns if own else 0 for own in of_variables]
        widths = [_width(own) for own in of_variables]
        if not all(isinstance(size, int) for size in (*columns, *widths)):
            return None
        reads = [[_ids(factor, width, value_of) for factor, width in zip(block, widths)] for block in blocks]
        present = [[each is not None for each in own] for own in (*blocks, *reads)]
        if present[: len(blocks)] != present[len(blocks) :]:
            return None
        if sum(_pairs(own) for own in reads) > MOST_PAIRS:
            return None
        rows = np.floor_divide(columns, widths)
        return cls._counted(_meeting(reads, np.cumsum([0, *rows])), np.repeat(widths, rows).astype(float))

    @classmethod
    def _counted(cls, meeting: Any, widths: Array) -> "SparseCounts":
        """Return the counts for rows of tables, some of which meet `[rows, rows]`, each of so many columns.

        Of two orders the better counts: that of Cuthill and McKee, and the same with rows that meet many at the end, as
        landmarks that are seen from a long chain.
        """
        met = np.diff(meeting.indptr)
        is_hub = met > HUB * np.median(met)
        bounds = [_within_envelope(meeting, widths)]
        if 0 < is_hub.sum() < len(widths):
            bounds.append(_with_hubs_last(meeting, widths, is_hub))
        fill, flops = min(bounds, key=lambda bound: bound[1])
        coordinates = meeting.tocoo()
        entries = (widths[coordinates.row] * widths[coordinates.col]).sum() / 2
        return cls(float(entries), float(fill), float(flops))


def _within_envelope(meeting: Any, widths: Array) -> tuple:
    """Return entries of the factor, and multiply-adds, within the envelope of the order of Cuthill and McKee."""
    order = reverse_cuthill_mckee(meeting, symmetric_mode=True)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    coordinates = meeting.tocoo()
    first = np.arange(len(order))
    np.minimum.at(first, place[coordinates.row], place[coordinates.col])
    sizes = widths[order]
    begins = np.cumsum(sizes) - sizes
    length = begins + sizes / 2 - begins[first]  # of a row of the factor, on average over the columns of a row
    return (sizes * length).sum(), (sizes * length**2).sum() / 2


def _with_hubs_last(meeting: Any, widths: Array, is_hub: Array) -> tuple:
    """Return the same where hubs come after all others, and their rows of the factor are full."""
    others = np.flatnonzero(~is_hub)
    fill, flops = _within_envelope(meeting[others][:, others], widths[others])
    last, before = widths[is_hub].sum(), widths[others].sum()
    flops += last * fill + before * last**2 / 2 + last**3 / 6
    return fill + last * before + last**2 / 2, flops


def _width(factors: list) -> Any:
    """Return how wide rows are of which all rows that factors read of one variable are made; None where it is open."""
    widths = [each.d.shape[3] for each in factors]
    return None if None in widths else math.gcd(*widths) or 1


def _ids(factor: Any, width: Any, value_of: Callable) -> Array | None:
    """Return which rows so wide the examples read, `[n, t]` NumPy; None where the graph does not say, or no factor."""
    if factor is None:
        return None
    known = value_of(factor.ids)
    parts = factor.d.shape[3] // width
    return None if known is None else (known[:, :, None] * parts + np.arange(parts)).reshape(len(known), -1)


def _pairs(reads: list) -> float:
    """Return how many pairs of rows the examples of a block read."""
    present = [ids for ids in reads if ids is not None]
    return len(present[0]) * sum(ids.shape[1] for ids in present) ** 2 if present else 0


def _meeting(reads: list, begins: Array) -> Any:
    """Return the matrix of which rows of all tables some example reads together, each row with itself."""
    parts = []
    for own in reads:
        present = [ids + first for ids, first in zip(own, begins) if ids is not None]
        if present:
            ids = np.concatenate(present, axis=1)
            places = np.repeat(np.arange(len(ids)), ids.shape[1])
            shape = (len(ids), begins[-1])
            parts.append(scipy.sparse.csr_array((np.ones(ids.size, np.float32), (places, ids.ravel())), shape=shape))
    read = scipy.sparse.vstack(parts)
    return scipy.sparse.csr_array(read.T @ read + scipy.sparse.eye_array(begins[-1], dtype=np.float32))
