"""Colours of columns, compiled and in Python, against the definition."""

import numpy as np
import pytest
import scipy.sparse

from tfjac import ops


def path(n):
    return scipy.sparse.diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1])


CASES = {
    "a path": path(50),
    "a grid": scipy.sparse.kron(path(9), scipy.sparse.eye_array(7))
    + scipy.sparse.kron(scipy.sparse.eye_array(9), path(7)),
    "all of nine neighbours": scipy.sparse.kron(path(8), path(8)),
    "without entries": scipy.sparse.csr_array((4, 3)),
    "without columns": scipy.sparse.csr_array((4, 0)),
    "one full row": scipy.sparse.csr_array(np.ones((1, 200))),
    "random": scipy.sparse.random_array((80, 90), density=0.05, rng=np.random.default_rng(0)),
    "more than 64 colours": scipy.sparse.random_array((30, 300), density=0.4, rng=np.random.default_rng(1)),
}


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("most_constrained_first", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_no_row_has_a_colour_twice(name, most_constrained_first, implementation):
    matrix = CASES[name]
    colours = ops.column_colours(matrix.tocsr(), matrix.tocsc(), most_constrained_first)
    assert colours.dtype == np.int32 and colours.shape == (matrix.shape[1],)
    for row in matrix.toarray() != 0:
        assert len(set(colours[row])) == row.sum()
    assert set(colours) == set(range(colours.max(initial=-1) + 1))
    with ops.implementation("twin"):
        twin = ops.column_colours(matrix.tocsr(), matrix.tocsc(), most_constrained_first)
    np.testing.assert_array_equal(colours, twin)


def test_few_colours(implementation):
    """As many as the fullest row has entries, where the pattern is that of a stencil."""
    for name, colours in [("a path", 3), ("a grid", 5), ("all of nine neighbours", 9), ("one full row", 200)]:
        assert ops.column_colours(CASES[name].tocsr(), CASES[name].tocsc()).max() + 1 == colours


def test_compiled_where_there_are_native_ops(implementation):
    """A library from before the function, or without it, leaves it to Python."""
    assert (ops._library.native_function("column_colours") is not None) == (implementation == "native")
    assert ops._library.native_function("no_such_function") is None
