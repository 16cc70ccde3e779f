"""Colours for the columns of a sparse matrix: columns of one colour have no row in common.

One product with the sum of the unit vectors of a colour then gives all the columns of that colour at once
(A. Curtis, M. Powell, J. Reid, "On the estimation of sparse Jacobian matrices", 1974).
"""

import numpy as np
import scipy.sparse

from tfjac.ops import column_colours
from tfjac.types import Array

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
