"""JᵀJ of an optimization problem whose examples touch few parameters: its pattern once, then its entries."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse

from tfjac.types import Array


class GramPattern:
    """Where the lower triangle of JᵀJ has entries, and which products of elements of J add up to each.

    Entries are in compressed columns, the rows of a column from top to bottom, so that its diagonal stands first. The
    whole diagonal is among them, as damping and priors add to it.

    Args:
        size: number of columns of J.
        columns: list of `[n, k]` integers, one for each block of residuals: the columns that each example touches.

    Attributes:
        indices: `[entries]` int32, the row of each entry.
        starts: `[size + 1]` int32, where each column begins in `indices`.
    """

    def __init__(self, size: int, columns: Sequence[Array]) -> None:
        self._columns = [each.copy() for each in columns]
        diagonal = np.arange(size, dtype=np.int32)
        pairs = [np.broadcast_arrays(each[:, :, None], each[:, None, :]) for each in self._columns]
        lower = [row >= column for row, column in pairs]
        row = np.concatenate([diagonal, *(each[those] for (each, _), those in zip(pairs, lower))])
        column = np.concatenate([diagonal, *(each[those] for (_, each), those in zip(pairs, lower))])
        order = _sorted_by(column, _sorted_by(row, np.arange(len(row)), size), size)
        row, column = row[order], column[order]
        new = np.r_[True, (row[1:] != row[:-1]) | (column[1:] != column[:-1])][: len(row)]
        self.indices = row[new].astype(np.int32)
        self.starts = np.searchsorted(column[new], np.arange(size + 1)).astype(np.int32)
        numbers = np.empty_like(order)
        numbers[order] = np.cumsum(new) - 1
        parts = np.split(numbers[size:], np.cumsum([np.count_nonzero(those) for those in lower])[:-1])
        self._places = [self._with_upper(part, those) for part, those in zip(parts, lower)]

    def _with_upper(self, numbers: Array, lower: Array) -> Array:
        """Return the entry of each pair of columns; what stands above the diagonal is put behind the last entry."""
        places = np.full(lower.shape, len(self.indices))
        places[lower] = numbers
        return places.ravel()

    def is_of(self, columns: Sequence[Array]) -> bool:
        """Return whether it was made of these columns."""
        return all(map(np.array_equal, columns, self._columns))

    @property
    def diagonal(self) -> Array:
        """`[size]`, which entries are those on the diagonal."""
        return self.starts[:-1]

    def entries(self, values: Sequence[Array]) -> Array:
        """Return the entries of JᵀJ, `[entries]` float64.

        Args:
            values: list of `[n, m, k]`, one for each block: the elements of J in the columns of the pattern.
        """
        total = np.zeros(len(self.indices))
        for places, each in zip(self._places, values):
            each = each.astype(np.float64, copy=False)
            products = np.matmul(each.transpose(0, 2, 1), each)
            total += np.bincount(places, products.ravel(), len(total) + 1)[:-1]
        return total


def _sorted_by(keys: Array, order: Array, size: int) -> Array:
    """Sort `order` by its keys below `size`, keeping the order of equal ones: by counting, as SciPy changes formats."""
    rows = scipy.sparse.csr_array((order, keys[order], np.arange(len(order) + 1)), shape=(len(order), size))
    return rows.tocsc().data
