"""Factorisations of a sparse JᵀJ, each library against dense NumPy in float64."""

import concurrent.futures
import threading

import numpy as np
import pytest
import scipy.sparse.linalg
import tensorflow as tf

from tfjac.linear.solvers import sparse_cholesky
from tfjac.linear.solvers.sparse_gram import GramPattern
from tfjac.optimizers import least_squares

SIZE = 30
has_cholmod = pytest.mark.skipif(
    sparse_cholesky.cholmod() is None, reason="CHOLMOD comes with pip install tfjac[sparse]"
)
LIBRARIES = [sparse_cholesky.SuperLU, pytest.param(sparse_cholesky.Cholmod, marks=has_cholmod)]


def blocks_of(rng):
    """Columns and values of three blocks: pairs of rows, one with a column twice, and all of a few columns."""
    columns = [rng.integers(0, SIZE, (40, 4)), np.array([[3, 3, 7]]), np.tile(np.arange(5), (6, 1))]
    return columns, [rng.normal(size=(len(each), m, each.shape[1])) for each, m in zip(columns, (2, 3, 1))]


def dense(columns, values):
    """J, element by element."""
    rows = []
    for places, block in zip(columns, values):
        for example, elements in zip(places, block):
            for output in elements:
                row = np.zeros(SIZE)
                for column, element in zip(example, output):
                    row[column] += element
                rows.append(row)
    return np.array(rows)


def lower(pattern, matrix):
    return matrix[pattern.indices, np.repeat(np.arange(SIZE), np.diff(pattern.starts))]


def test_entries_of_the_gram(rng):
    columns, values = blocks_of(rng)
    pattern, jacobian = GramPattern(SIZE, columns), dense(columns, values)
    expected = jacobian.T @ jacobian
    np.testing.assert_allclose(pattern.entries(values), lower(pattern, expected), rtol=1e-13, atol=1e-13)
    assert np.count_nonzero(np.tril(expected)) <= len(pattern.indices) < SIZE**2 / 2
    assert (pattern.indices[pattern.diagonal] == np.arange(SIZE)).all()


def test_a_gram_of_no_examples_has_its_diagonal():
    pattern = GramPattern(3, [np.zeros((0, 2), np.int32)])
    np.testing.assert_array_equal(pattern.entries([np.zeros((0, 1, 2))]), np.zeros(3))


@pytest.mark.parametrize("library", LIBRARIES)
def test_solves_again_and_again(library, rng):
    """With other entries in the same pattern, and after one that is not positive definite."""
    columns, values = blocks_of(rng)
    pattern = GramPattern(SIZE, columns)
    factors = library(pattern)
    for damping in (1e-3, 1.0, None, 1e3):
        values = [rng.normal(size=each.shape) for each in values]
        gram, right = dense(columns, values).T @ dense(columns, values), rng.normal(size=SIZE)
        if damping is None:
            assert factors.solve(lower(pattern, gram - 5 * np.eye(SIZE)), right) is None
            continue
        matrix = gram + damping * np.eye(SIZE)
        np.testing.assert_allclose(
            factors.solve(lower(pattern, matrix), right), np.linalg.solve(matrix, right), rtol=1e-9
        )


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_matrix_is_factored_once_for_two_right_sides(library, rng, monkeypatch):
    factored, factor = [], library._factor
    monkeypatch.setattr(library, "_factor", lambda *args: (factored.append(1), factor(*args))[1])
    columns, values = blocks_of(rng)
    pattern = GramPattern(SIZE, columns)
    factors, gram = library(pattern), dense(columns, values).T @ dense(columns, values)
    bad = lower(pattern, gram - 5 * np.eye(SIZE))
    for damping, count in ((1.0, 1), (1.0, 1), (2.0, 2), (None, 3), (2.0, 4), (2.0, 4)):
        right = rng.normal(size=SIZE)
        if damping is None:
            assert factors.solve(bad, right) is None
        else:
            matrix = gram + damping * np.eye(SIZE)
            found, expected = factors.solve(lower(pattern, matrix), right), np.linalg.solve(matrix, right)
            np.testing.assert_allclose(found, expected, rtol=1e-9)
        assert len(factored) == count


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("corner", [0.0, -1.0, 0.5])
def test_what_is_not_positive_definite_is_refused(library, corner):
    """From the first time on: a zero, a negative element, and an indefinite one with a positive diagonal."""
    pattern = GramPattern(3, [np.array([[0, 1], [1, 2]])])
    matrix = np.array([[corner, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    factors, right = library(pattern), np.array([0.0, 0.0, 1.0])
    entries = matrix[pattern.indices, np.repeat(np.arange(3), np.diff(pattern.starts))]
    assert factors.solve(entries, right) is None
    entries[0] = 2.0
    np.testing.assert_allclose(factors.solve(entries, right), [0, 0, 1])


class Factors:
    """SuperLU's, of which one can see in which threads they are made and freed."""

    made, freed, splu = [], [], staticmethod(scipy.sparse.linalg.splu)

    def __init__(self, *arguments, **options):
        self.given = self.splu(*arguments, **options)
        self.made.append(threading.get_ident())

    def __getattr__(self, name):
        return getattr(self.given, name)

    def __del__(self, thread=threading.get_ident):
        self.freed.append(thread())


def test_factors_are_freed_where_they_were_made(monkeypatch, rng):
    """SciPy loses the memory of those freed in another thread; also where what they belong to is gone."""
    monkeypatch.setattr("scipy.sparse.linalg.splu", Factors)
    columns, values = blocks_of(rng)
    pattern, right = GramPattern(SIZE, columns), np.ones(SIZE)
    gram = dense(columns, values).T @ dense(columns, values)
    for count in (1, 2, 3):
        factors = sparse_cholesky.SuperLU(pattern)
        for damping in (1.0, 2.0, 3.0):
            given = lower(pattern, gram + damping * np.eye(SIZE)), right
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                assert pool.submit(factors.solve, *given).result() is not None
        assert len(Factors.made) == len(Factors.freed) + 1 == 3 * count
    assert len({*Factors.made, *Factors.freed}) == 1


@has_cholmod
def test_options_that_users_gave_cholmod_stay_and_do_not_matter():
    options = sparse_cholesky.cholmod().options
    options["supernodal"] = 0  # LDLᵀ, which also exists for this matrix
    try:
        factors = sparse_cholesky.Cholmod(GramPattern(2, [np.array([[0, 1]])]))
        assert factors.solve(np.array([1.0, 2.0, 1.0]), np.ones(2)) is None
        assert options == {"supernodal": 0}
    finally:
        options.clear()


@pytest.mark.by_day(None)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_that_change_from_call_to_call(library, dtype, monkeypatch, rng):
    """One graph, whose pattern follows from its arguments: what was kept is for one pattern alone."""
    monkeypatch.setattr("tfjac.linear.solvers.sparse.sparse_cholesky", library)
    table, indices = tf.Variable(np.zeros((8, 2), dtype)), tf.Variable(np.zeros((12, 2), np.int64))
    target = rng.normal(size=(12, 2)).astype(dtype)

    def residuals():
        return [tf.reduce_sum(tf.gather(table, indices), axis=1) - target, 0.5 * table]

    @tf.function
    def solve():
        return least_squares(residuals, [table], solver="sparse", damping="trust_region").cost

    for _ in range(3):
        rows = rng.integers(0, 8, (12, 2))
        indices.assign(rows)
        table.assign(np.zeros((8, 2)))
        solve()
        matrix = np.concatenate([np.eye(8)[rows].sum(1), 0.5 * np.eye(8)])
        expected = np.linalg.lstsq(matrix, np.concatenate([target, np.zeros((8, 2))]), rcond=None)[0]
        np.testing.assert_allclose(table, expected, rtol=1e-3 if dtype == "float32" else 1e-6, atol=1e-5)
