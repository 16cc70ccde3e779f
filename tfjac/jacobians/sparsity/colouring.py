"""Colours for the columns of a sparse matrix: columns of one colour have no row in common.

One product with the sum of the unit vectors of a colour then gives all the columns of that colour at once
(A. Curtis, M. Powell, J. Reid, "On the estimation of sparse Jacobian matrices", 1974).
"""

import heapq

import numpy as np

# Above this many pairs of columns that share a row, the order of the columns is taken as it is.
MOST_PAIRS = 2 * 10**7


def colours_of_columns(pattern):
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
    rows_of = np.split(columns.indices, columns.indptr[1:-1])
    if int(np.sum(sizes**2)) > MOST_PAIRS:
        return _in_order(rows_of, rows.shape[0])
    return _most_constrained_first(rows_of, np.split(rows.indices, rows.indptr[1:-1]))


def _in_order(rows_of, num_rows):
    """Colour the columns one after another, each with the first colour that its rows leave free."""
    used = [0] * num_rows  # bit c: the row has an entry of colour c
    colours = np.zeros(len(rows_of), np.int32)
    for column, rows in enumerate(rows_of):
        taken = 0
        for row in rows:
            taken |= used[row]
        colours[column] = _first_free(taken)
        for row in rows:
            used[row] |= 1 << int(colours[column])
    return colours


def _most_constrained_first(rows_of, columns_of):
    """Colour next the column with the most colours among its neighbours; the one with the most entries among equals."""
    rows_of, columns_of = ([each.tolist() for each in lists] for lists in (rows_of, columns_of))
    taken = [0] * len(rows_of)  # bit c: a neighbour has colour c
    colours = np.full(len(rows_of), -1, np.int32)
    queue = [(0, -len(rows), column) for column, rows in enumerate(rows_of)]
    heapq.heapify(queue)
    while queue:
        saturation, _, column = heapq.heappop(queue)
        if colours[column] >= 0 or -saturation != taken[column].bit_count():
            continue  # out of date
        colours[column] = colour = _first_free(taken[column])
        bit = 1 << int(colour)
        for neighbour in {other for row in rows_of[column] for other in columns_of[row]}:
            if colours[neighbour] < 0 and not taken[neighbour] & bit:
                taken[neighbour] |= bit
                entry = (-taken[neighbour].bit_count(), -len(rows_of[neighbour]), neighbour)
                heapq.heappush(queue, entry)
    return colours


def _first_free(taken):
    """The lowest bit that is not set."""
    return (~taken & (taken + 1)).bit_length() - 1
