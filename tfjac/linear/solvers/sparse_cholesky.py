"""Sparse factorisations of a symmetric matrix whose pattern stays: what follows from the pattern is found once."""

import abc
import concurrent.futures
import functools
import importlib
import weakref
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from tfjac.linear.solvers.sparse_gram import GramPattern
from tfjac.types import Array

_THREAD, _UNUSED = concurrent.futures.ThreadPoolExecutor(1, "tfjac_factors"), list[Any]()
"""Where SuperLU's factors are made, and what is to be freed there: SciPy loses the memory of those freed elsewhere (its
issue 15921), and for Python a thread of TensorFlow's that calls it is another one each time."""


class SparseCholesky(abc.ABC):
    """Factors symmetric matrices of one pattern, in float64.

    Args:
        pattern: `GramPattern`, where the lower triangle has entries.
    """

    def __init__(self, pattern: GramPattern) -> None:
        self.pattern = pattern
        self._factored: Array | None = None  # the entries of the matrix whose factor is at hand

    def solve(self, entries: Array, right: Array) -> Array | None:
        """Return A⁻¹·`right` `[size]`, or None where A is not positive definite.

        A is factored if it is not the last one: a bent step is solved for twice with one λ.

        Args:
            entries: `[entries]`, finite, those of the lower triangle of A.
            right: `[size]`, finite.
        """
        if self._factored is None or not np.array_equal(entries, self._factored):
            self._factored = None
            if not self._factor(entries):
                return None
            self._factored = entries.copy()
        return self._solve(right)

    @abc.abstractmethod
    def _factor(self, entries: Array) -> bool:
        """Factor A, and return whether it is positive definite."""

    @abc.abstractmethod
    def _solve(self, right: Array) -> Array:
        """Return A⁻¹·`right` by the last factor."""


class Cholmod(SparseCholesky):
    """By CHOLMOD, as CVXOPT ships it: LLᵀ by supernodes, the ordering and the structure of L found once.

    Reference: Y. Chen, T. Davis, W. Hager, S. Rajamanickam, "Algorithm 887: CHOLMOD", 2008.
    """

    def __init__(self, pattern: GramPattern) -> None:
        super().__init__(pattern)
        self._matrix_of = importlib.import_module("cvxopt").matrix
        size, count = len(pattern.diagonal), len(pattern.indices)
        columns = np.repeat(np.arange(size), np.diff(pattern.starts))
        numbers = self._vector(np.arange(count, dtype=np.float64))
        places = (self._matrix_of(each.astype(np.int64)) for each in (pattern.indices, columns))
        self._matrix = importlib.import_module("cvxopt").spmatrix(numbers, *places, (size, size))
        self._order = np.array(self._matrix.V).ravel().astype(np.int64)  # in which it keeps the entries
        self._lower = self._symbolic()

    def _factor(self, entries: Array) -> bool:
        self._matrix.V = self._vector(entries[self._order])
        try:
            cholmod().numeric(self._matrix, self._lower)
        except ArithmeticError:
            return False
        return True

    def _solve(self, right: Array) -> Array:
        step = self._vector(right)
        cholmod().solve(self._lower, step)
        return np.array(step).ravel()

    def _vector(self, array: Array) -> Any:
        return self._matrix_of(np.ascontiguousarray(array, np.float64))

    def _symbolic(self) -> Any:
        """Analyse for LLᵀ, whatever the user's options are: LDLᵀ also factors what is not positive definite."""
        options = cholmod().options
        before = dict(options)
        options["supernodal"] = 2
        try:
            return cholmod().symbolic(self._matrix)
        finally:
            options.clear()
            options.update(before)


class SuperLU(SparseCholesky):
    """By SuperLU, which SciPy brings: LU without exchanges of rows, the ordering of the columns found once.

    Reference: X. S. Li, "An overview of SuperLU", 2005.
    """

    _order: Any = None  # compressed columns of the matrix in the order in which it fills least, once that is known

    def __init__(self, pattern: GramPattern) -> None:
        super().__init__(pattern)
        self._factors = list[Any]()  # one, or none
        weakref.finalize(self, _UNUSED.append, self._factors)

    def _factor(self, entries: Array) -> bool:
        places, self._columns, matrix = self._whole() if self._order is None else self._order
        matrix.data[:] = entries[places]
        try:
            _THREAD.submit(_factor_anew, self._factors, matrix, self._order is not None).result()
        except RuntimeError:  # a pivot that is zero
            return False
        (factors,) = self._factors
        if self._order is None:
            self._order = self._whole(factors.perm_c)
        return np.array_equal(factors.perm_r, factors.perm_c) and bool((factors.U.diagonal() > 0).all())

    def _solve(self, right: Array) -> Array:
        result = np.empty_like(right)
        result[self._columns] = self._factors[0].solve(right[self._columns])
        return result

    def _whole(self, positions: Array | None = None) -> tuple:
        """Return which entry stands where in the whole matrix, the order of its rows and columns, and the matrix.

        Args:
            positions: `[size]`, where each row and column goes; None where they stay.
        """
        pattern, size = self.pattern, len(self.pattern.diagonal)
        positions = np.arange(size) if positions is None else positions
        rows, columns = pattern.indices, np.repeat(np.arange(size), np.diff(pattern.starts))
        numbers, below = np.arange(1, len(rows) + 1), np.flatnonzero(rows > columns)
        rows, columns = np.r_[rows, columns[below]], np.r_[columns, rows[below]]
        numbers = np.r_[numbers, numbers[below]]
        shape = (size, size)
        matrix = scipy.sparse.coo_array((numbers, (positions[rows], positions[columns])), shape=shape).tocsc()
        matrix.sort_indices()
        return matrix.data - 1, np.argsort(positions), matrix.astype(np.float64)


def _factor_anew(factors: list, matrix: Any, ordered: bool) -> None:
    """Put the factors of a matrix in the place of the last ones, in the thread that made those."""
    _UNUSED.clear()
    factors.clear()
    order = "NATURAL" if ordered else "MMD_AT_PLUS_A"
    options = {"SymmetricMode": True}
    factors.append(scipy.sparse.linalg.splu(matrix, permc_spec=order, diag_pivot_thresh=0.0, options=options))


@functools.cache
def cholmod() -> Any:
    """Return CVXOPT's module of CHOLMOD, or None where it is not installed."""
    try:
        return importlib.import_module("cvxopt.cholmod")
    except ImportError:
        return None


def sparse_cholesky(pattern: GramPattern) -> SparseCholesky:
    """Return the fastest `SparseCholesky` that is installed."""
    return SuperLU(pattern) if cholmod() is None else Cholmod(pattern)
