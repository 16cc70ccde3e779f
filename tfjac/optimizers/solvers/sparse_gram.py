"""JᵀJ of an optimization problem whose examples touch few parameters: its pattern once, then its entries."""

from collections.abc import Sequence

import numpy as np

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
        pairs = [np.broadcast_arrays(each[:, :, None], each[:, None, :]) for each in self._columns]
        keys = [column.astype(np.int64) * size + row for row, column in pairs]  # of the place in compressed columns
        lower = [row >= column for row, column in pairs]
        diagonal = np.arange(size, dtype=np.int64) * (size + 1)
        wanted = [each[those] for each, those in zip(keys, lower)]
        entries, numbers = np.unique(np.concatenate([diagonal, *wanted]), return_inverse=True)
        self.indices = (entries % size).astype(np.int32)
        self.starts = np.searchsorted(entries, np.arange(size + 1) * size).astype(np.int32)
        self._places = []
        for part, those in zip(np.split(numbers[size:], np.cumsum([len(each) for each in wanted])[:-1]), lower):
            places = np.full(those.shape, len(entries))  # what stands above the diagonal is put behind the last entry
            places[those] = part
            self._places.append(places.ravel())

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
