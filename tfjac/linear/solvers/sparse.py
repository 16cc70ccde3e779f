"""A sparse factorisation of the normal equations: for residuals that touch few parameters each, however they meet."""

import threading
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfjac.graph import compiled_by_xla, forgotten_with_graphs
from tfjac.linear.contracts import LinearModel
from tfjac.linear.factors.sparse_rows import SparseRows, side_by_side, sparse_rows
from tfjac.linear.solvers.base import Cost, Solve, Solved, Solver, System, finite_or_zeros
from tfjac.linear.solvers.problem_sizes import ProblemSizes
from tfjac.linear.solvers.sparse_cholesky import SparseCholesky, cholmod, sparse_cholesky
from tfjac.linear.solvers.sparse_gram import GramPattern
from tfjac.types import Array, Tensor

OF_PAIR = 100
"""Bytes for each two columns that an example touches: where they stand in JᵀJ, while that is found."""


@keras.saving.register_keras_serializable("tfjac")
class SparseSolver(Solver):
    """Forms JᵀJ from what each example touches, as a sparse matrix, and factors it in float64.

    The library is CHOLMOD where CVXOPT is installed, else SuperLU, which SciPy brings. What follows from the pattern of
    JᵀJ alone, such as the order of its columns, is found once.

    For pose graphs, chains, grids: where examples read rows of tables by index or by slices, and each reads several
    rows of the same one, so that none can be eliminated as `"schur"` does. How much the factors fill depends on which
    rows meet, which shows only when it runs. Runs in Python, so not under XLA.

    Cost: n·m·k² multiply-adds for JᵀJ, with k columns that an example touches, and for each λ a factorisation, whose
    cost and memory follow from the fill. The fill is bounded by an envelope, see `SparseCounts`, where the graph says
    which rows are read. Else ten times the entries of JᵀJ stand for it. It is never more than a dense factor.
    """

    name = "sparse"
    solves_again_cheaply = True

    usual_window = 5
    """Long chains bend in curved valleys. Steps along the floor are short; those that leave it for a while are not."""

    first_damping = 1e-9
    """Nearly Gauss–Newton: a chain of poses moves as a whole, far, which a large λ does not let it."""

    def cost(self, sizes: ProblemSizes) -> Cost:
        touched, p = sizes.touched(), float(sizes.parameters)
        pairs = sum((n * k**2 for n, _, k in touched), start=0.0)
        formed = sum((n * m * k**2 for n, m, k in touched), start=0.0)
        values = sum((n * m * k for n, m, k in touched), start=0.0)
        if sizes.counts is None:
            entries = _least(pairs / 2 + p, p**2 / 2)
            fill, flops = _least(10 * entries, p**2 / 2), _least(1000 * entries, p**3 / 6)
        else:
            _, fill, flops = sizes.counts
        of_factor = 8 if cholmod() is not None else 24  # of L alone, and of L and U with their indices
        return Cost(2 * sizes.itemsize * values + OF_PAIR * pairs + of_factor * fill, formed, flops)

    def prepare(self, linearisation: LinearModel) -> System:
        """Form JᵀJ."""
        if compiled_by_xla(tf.compat.v1.get_default_graph()):
            raise ValueError(
                "solver='sparse' runs in Python, which XLA does not compile: leave jit_compile out, or use 'cg'. "
                "Received: a trace for XLA"
            )
        if not any(linearisation.jacobian.factors()):
            raise ValueError(
                "solver='sparse' takes J as it stands, and equality couples the rows that it keeps apart: leave the "
                "solver to 'auto', or use 'cg'. Received: a problem with equality"
            )
        return _SparseSystem(linearisation)


class _SparseSystem(System):
    def __init__(self, linearisation: LinearModel) -> None:
        self._linearisation = linearisation
        self.gradient, self.diagonal = linearisation.gradient(), linearisation.diagonal()
        found = [_rows_of(each.factors, linearisation.columns.sizes) for each in linearisation.jacobian.operators]
        blocks = [block for block in found if block is not None]
        free = linearisation.only_free(tf.ones_like(self.gradient))
        self._columns, self._kept = [block.columns for block in blocks], _Kept()
        tensors = [tensor for block in blocks for tensor in (block.columns, _masked(block, free))]
        self._entries = _called(self._kept.gram, [tf.size(free), *tensors], tf.float64)

    def solver(self, scaling: Tensor) -> Solve:
        def solve(damping: Tensor, residual: Tensor | None = None) -> Solved:
            gradient = self.gradient if residual is None else self._linearisation.jacobian.adjoint(residual)
            diagonal = damping * scaling + self._linearisation.prior.precision
            given = [self._entries, diagonal, -gradient, *self._columns]
            step, solved = _called(self._kept.solve, given, [gradient.dtype, tf.bool])
            return finite_or_zeros(tf.ensure_shape(step, gradient.shape), tf.ensure_shape(solved, []))

        return solve

    def quadratic(self, step: Tensor) -> Tensor:
        return self._linearisation.quadratic(step)


def _called(function: Callable, tensors: list[Tensor], dtypes: Any) -> Any:
    return forgotten_with_graphs(tf.numpy_function(function, tensors, dtypes, stateful=False))


def _least(number: Any, most: Any) -> Any:
    return tf.minimum(number, tf.cast(most, number.dtype)) if tf.is_tensor(number) else min(number, most)


def _rows_of(factors: list, sizes: list) -> SparseRows | None:
    """Return the `SparseRows` of one block of residuals; None where no variable moves them."""
    parts = [sparse_rows(factor, sum(sizes[:index])) for index, factor in enumerate(factors) if factor is not None]
    return side_by_side(parts) if parts else None


def _masked(rows: SparseRows, free: Tensor) -> Tensor:
    return rows.values * tf.gather(free, rows.columns)[:, None]


class _Kept:
    """What follows from the pattern of JᵀJ, kept until another one is asked for: most problems have one alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # a factorisation is one object, and graphs may run at the same time
        self._pattern: GramPattern | None = None
        self._cholesky: SparseCholesky | None = None

    def gram(self, size: Any, *blocks: Any) -> Array:
        """Return the entries of JᵀJ, from columns and values of each block in turn."""
        with self._lock:
            return self._pattern_of(size, blocks[::2]).entries(blocks[1::2])

    def solve(self, entries: Array, diagonal: Array, right: Array, *columns: Any) -> tuple[Array, np.bool_]:
        """Solve with `diagonal` added; zeros, and False, where the matrix is not positive definite or not finite."""
        step = None
        with self._lock:
            pattern = self._pattern_of(len(right), columns)
            entries = entries.copy()
            entries[pattern.diagonal] += diagonal
            if np.isfinite(entries).all() and np.isfinite(right).all():
                self._cholesky = self._cholesky or sparse_cholesky(pattern)
                step = self._cholesky.solve(entries, right)
        if step is None:
            return np.zeros_like(right), np.False_
        return step.astype(right.dtype), np.True_

    def _pattern_of(self, size: Any, columns: Any) -> GramPattern:
        if self._pattern is None or not self._pattern.is_of(columns):
            self._pattern, self._cholesky = GramPattern(size, columns), None
        return self._pattern
