"""Where the entries of a sparse Jacobian stand in a factor, with the same number of columns for each example."""

from typing import NamedTuple

import numpy as np
import scipy.sparse

from tfjac.jacobians.sparsity.index_sets import collected
from tfjac.types import Array


class Layout(NamedTuple):
    """The columns of one variable, where an example is so many consecutive rows: n examples of m rows.

    Columns that examples read together are the rows of a table, as the coordinates of a point are: the variable is a
    table of v rows of o columns, of which an example reads t.

    Attributes:
        ids: `[n, t]` int32, the rows that an example reads. One that reads fewer has rows that it, or another example
            near by, reads as well.
        entries: `[n, m, t, o]` int32, which entry stands there, from 1 on, row by row in all of J; 0 for none.
        rows: v.
    """

    ids: Array
    entries: Array
    rows: int

    @classmethod
    def of(cls, part: scipy.sparse.csr_array, rows_of_example: int) -> "Layout":
        """Return the layout of the columns `[rows, size]` of a variable, whose data are the numbers of the entries."""
        together = Groups(part, rows_of_example).read_together()
        row, column = np.divmod(part.indices, together)
        shape = (part.shape[0], part.shape[1] // together)
        groups = Groups(scipy.sparse.csr_array((part.data, row, part.indptr), shape=shape), rows_of_example)
        example, within = np.divmod(np.repeat(np.arange(part.shape[0]), np.diff(part.indptr)), rows_of_example)
        entries = np.zeros([groups.number, rows_of_example, groups.width, together], np.int32)
        entries[example, within, groups.slots(example, row), column] = part.data
        return cls(groups.columns(), entries, shape[1])


WIDEST = 32
"""Columns of a row of a table: with more, nothing is gained."""


class Groups:
    """Which columns each group of consecutive rows of a pattern has.

    Args:
        part: the pattern `[rows, columns]`.
        rows_of_example: how many rows a group has.

    Attributes:
        number: n, how many groups there are.
        width: k, the most columns that a group has; one at least.
    """

    def __init__(self, part: scipy.sparse.csr_array, rows_of_example: int) -> None:
        self.number = part.shape[0] // rows_of_example
        self._union = collected(part.astype(bool), np.arange(part.shape[0]) // rows_of_example, self.number)
        self._union.sort_indices()
        self._lengths = np.diff(self._union.indptr)
        self.width = max(1, int(self._lengths.max(initial=0)))

    def read_together(self) -> int:
        """Return of how many consecutive columns each group has all or none; the largest such divisor of all of them.

        It is `WIDEST` at most.
        """
        size, group = self._union.shape[1], np.repeat(np.arange(self.number), self._lengths)
        for together in range(min(WIDEST, size), 1, -1):
            if size % together == 0 and self._union.nnz % together == 0:
                row = self._union.indices // together
                is_next = (row[1:] != row[:-1]) | (group[1:] != group[:-1])
                if (1 + is_next.sum()) * together == self._union.nnz:
                    return together
        return 1

    def slots(self, groups: Array, columns: Array) -> Array:
        """Return the place of each of `columns` among those of the group beside it."""
        total = np.int64(self._union.shape[1])
        keys = np.repeat(np.arange(self.number), self._lengths) * total + self._union.indices
        return np.searchsorted(keys, groups * total + columns) - self._union.indptr[groups]

    def columns(self) -> Array:
        """Return the columns of each group, `[number, width]` int32.

        Where a group has fewer, one of them stands again. A group without any has one of a group near by: that fills
        JᵀJ least.
        """
        last = np.where(self._lengths > 0, np.arange(self.number), -1)
        near = np.maximum.accumulate(last)
        near[near < 0] = max(0, int(np.argmax(self._lengths > 0)))
        places = np.minimum(np.arange(self.width), np.maximum(self._lengths, 1)[near][:, None] - 1)
        places = self._union.indptr[near][:, None] + np.where(self._lengths[:, None] > 0, places, 0)
        found = self._union.indices if self._union.nnz else np.zeros(1, np.int32)
        return found[np.minimum(places, len(found) - 1)].astype(np.int32)
