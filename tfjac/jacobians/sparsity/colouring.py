"""Colours for the columns and rows of a sparse matrix: columns of one colour have no row in common.

One product with the sum of the unit vectors of a colour gives all the columns of that colour at once (A. Curtis, M.
Powell, J. Reid, "On the estimation of sparse Jacobian matrices", 1974). Products of both kinds may share the entries.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse

from tfjac.ops import column_colours
from tfjac.types import Array


class Colouring(NamedTuple):
    """Which products hold which entries of a Jacobian.

    Attributes:
        columns: `[columns]` int32: one product J·v for each colour, with the columns of that colour; −1 for none.
        rows: `[rows]` int32: one product Jᵀ·u for each colour, with the rows of that colour; −1 for none.
        by_row: `[entries]` bool, in CSR order: which entries are read off the product with their row, and not with
            their column.
    """

    columns: Array
    rows: Array
    by_row: Array

    @property
    def num_forward(self) -> int:
        """Number of products J·v."""
        return int(self.columns.max(initial=-1)) + 1

    @property
    def num_reverse(self) -> int:
        """Number of products Jᵀ·u."""
        return int(self.rows.max(initial=-1)) + 1


def forward_colouring(columns: Array, matrix: scipy.sparse.csr_array) -> Colouring:
    """Return the `Colouring` by columns alone, of these colours."""
    return Colouring(columns, np.full(matrix.shape[0], -1, np.int32), np.zeros(matrix.nnz, bool))


def reverse_colouring(rows: Array, matrix: scipy.sparse.csr_array) -> Colouring:
    """Return the `Colouring` by rows alone, of these colours."""
    return Colouring(np.full(matrix.shape[1], -1, np.int32), rows, np.ones(matrix.nnz, bool))


def bicolouring(matrix: scipy.sparse.csr_array, most: float) -> Colouring | None:
    """Return a `Colouring` of at most `most` products, where full rows, or full columns, are taken apart.

    The fullest rows are read off products with rows, and all other entries off products with columns; or the fullest
    columns off products with columns, and all others off products with rows. One full row and one full column, and a
    diagonal, take three products.

    Args:
        matrix: where it has entries counts, not their values.
        most: number of products.

    Cost: time in proportion to the entries, and that of the colouring where one of so few products is possible.
    Reference: T. Coleman, A. Verma, "The efficient computation of sparse Jacobian matrices using automatic
    differentiation", 1998; A. Gebremedhin, F. Manne, A. Pothen, "What color is your Jacobian?", 2005, section 7.
    """
    turned = scipy.sparse.csr_array(matrix.T)
    (products, full_rows), (products_turned, full_columns) = _fullest(matrix), _fullest(turned)
    if min(products, products_turned) > most:
        return None
    rows_of_entries = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    if products < products_turned:
        rows, columns = _apart(matrix, full_rows)
        found = Colouring(columns, rows, full_rows[rows_of_entries])
    else:  # among equals the one with fewer products J·v, which cost twice as much
        columns, rows = _apart(turned, full_columns)
        found = Colouring(columns, rows, ~full_columns[matrix.indices])
    return found if found.num_forward + found.num_reverse <= most else None


def _fullest(matrix: scipy.sparse.csr_array) -> tuple[float | np.integer, Array]:
    """Choose rows that are taken apart: the fullest, as many as promise the fewest products.

    Returns:
        The least number of products, of rows that are taken apart and of columns without them; `[rows]` bool.
    """
    counts = np.diff(matrix.indptr)
    ordered = matrix[np.argsort(-counts, kind="stable")]
    levels = np.unique(counts)[::-1]
    ends = ordered.indptr[np.cumsum([np.count_nonzero(counts == level) for level in levels])]
    among_columns, fullest_column, begin = np.zeros(matrix.shape[1], np.int64), 0, 0
    best, least = np.inf, 0
    for level, rest, end in zip(levels, levels[1:], ends):
        np.add.at(among_columns, ordered.indices[begin:end], 1)
        fullest_column = max(fullest_column, among_columns[ordered.indices[begin:end]].max(initial=0))
        begin = end
        if fullest_column >= best:
            break
        if fullest_column + rest < best:
            best, least = fullest_column + rest, level
    return best, counts >= least


def _apart(matrix: scipy.sparse.csr_array, full: Array) -> tuple[Array, Array]:
    """Return the colours of the rows that are `full`, and of the columns without them; −1 for all other rows."""
    rows = np.full(matrix.shape[0], -1, np.int32)
    rows[full] = colours_of_columns(matrix[full].T)
    return rows, colours_of_columns(matrix[~full])


# Above this many pairs of columns that share a row, the order of the columns is taken as it is.
MOST_PAIRS = 2 * 10**7


def colours_of_columns(pattern: scipy.sparse.sparray) -> Array:
    """Give each column of `pattern` a colour, so that no row has two entries of one colour.

    Args:
        pattern: SciPy sparse array `[rows, columns]`; where it has entries counts, not their values.

    Returns:
        `[columns]` int32, colours from 0 on. A column without entries has colour 0.

    The order is that of DSATUR (D. Brélaz, "New methods to color the vertices of a graph", 1979): always a column
    that has the fewest colours left. It needs five colours for the five-point stencil of a grid, where the order of
    the columns, or of their degrees, needs seven. Of the libraries, SciPy colours in a fixed order only, networkx takes
    time quadratic in the columns, and igraph, which is good at this, is under the GPL.

    Cost: time in proportion to the pairs of columns that share a row; no graph of them is formed.
    """
    rows, columns = pattern.tocsr(), pattern.tocsc()
    sizes = np.diff(rows.indptr).astype(np.int64)
    if sizes.max(initial=0) == columns.shape[1]:
        return np.arange(columns.shape[1], dtype=np.int32)
    return column_colours(rows, columns, most_constrained_first=int(np.sum(sizes**2)) <= MOST_PAIRS)
