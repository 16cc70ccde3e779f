"""Colours for the columns of a sparse matrix, for which no library that comes with TensorFlow has a good order."""

import ctypes
import heapq
import itertools
from typing import Any

import numpy as np

from tfjac.ops import _library
from tfjac.types import Array


def column_colours(rows: Any, columns: Any, most_constrained_first: bool = True) -> Array:
    """Give each column of a sparse matrix a colour, so that no row has two entries of one colour.

    No op of a graph: it runs at once, on arrays, in compiled code where there are native ops.

    Args:
        rows, columns: the same matrix as SciPy sparse arrays in compressed rows and in compressed columns; where it has
            entries counts, not their values.
        most_constrained_first: whether next is the column with the most colours among its neighbours, of several the
            one with the most entries, of several the first (D. Brélaz, "New methods to color the vertices of a graph",
            1979). Else the columns come in their order.

    Returns:
        `[columns]` int32, colours from 0 on, the same from both implementations. A column without entries has colour 0.

    Cost: time in proportion to the pairs of columns that share a row; where they come in their order, to the entries.
    """
    native = _library.native_function("column_colours")
    return (
        _native(native, rows, columns, most_constrained_first)
        if native
        else twin(rows, columns, most_constrained_first)
    )


def _native(function, rows, columns, most_constrained_first):
    parts = rows.indptr, rows.indices, columns.indptr, columns.indices
    arrays = [np.ascontiguousarray(part, np.int64) for part in parts]
    colours = np.empty(rows.shape[1], np.int32)
    sizes = (ctypes.c_int64(size) for size in rows.shape)
    pointers = (ctypes.c_void_p(each.ctypes.data) for each in arrays)
    function.restype = ctypes.c_bool
    done = function(*sizes, *pointers, ctypes.c_bool(most_constrained_first), ctypes.c_void_p(colours.ctypes.data))
    if not done:
        raise MemoryError(f"There is no memory for colouring the columns of a matrix of shape {rows.shape}")
    return colours


def twin(rows, columns, most_constrained_first=True):
    """Compute `column_colours` in Python."""
    if not most_constrained_first:
        return _in_order(_lists(columns), rows.shape[0])
    return _most_constrained_first(_lists(columns), _lists(rows))


def _lists(matrix):
    """The indices of each compressed row or column."""
    indices, starts = matrix.indices.tolist(), matrix.indptr.tolist()
    return [indices[start:end] for start, end in itertools.pairwise(starts)]


def _in_order(rows_of, num_rows):
    """Colour the columns one after another, each with the first colour that its rows leave free."""
    used = [0] * num_rows  # bit c: the row has an entry of colour c
    colours = np.zeros(len(rows_of), np.int32)
    for column, rows in enumerate(rows_of):
        taken = 0
        for row in rows:
            taken |= used[row]
        colours[column] = colour = _first_free(taken)
        for row in rows:
            used[row] |= 1 << colour
    return colours


def _most_constrained_first(rows_of, columns_of):
    """Colour next the column with the most colours among its neighbours; the one with the most entries among equals."""
    taken = [0] * len(rows_of)  # bit c: a neighbour has colour c
    colours = [-1] * len(rows_of)
    for seed in sorted(range(len(rows_of)), key=lambda column: -len(rows_of[column])):
        queue = [(0, 0, seed)]
        while queue:
            saturation, _, column = heapq.heappop(queue)
            if colours[column] >= 0 or -saturation != taken[column].bit_count():
                continue  # out of date
            colours[column] = colour = _first_free(taken[column])
            bit = 1 << colour
            for neighbour in {other for row in rows_of[column] for other in columns_of[row]}:
                if colours[neighbour] < 0 and not taken[neighbour] & bit:
                    taken[neighbour] |= bit
                    entry = (-taken[neighbour].bit_count(), -len(rows_of[neighbour]), neighbour)
                    heapq.heappush(queue, entry)
    return np.array(colours, np.int32)


def _first_free(taken):
    """The lowest bit that is not set."""
    return (~taken & (taken + 1)).bit_length() - 1
