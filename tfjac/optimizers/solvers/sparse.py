"""A sparse factorisation of the normal equations: for residuals that touch few parameters each, however they meet."""

import keras
import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import tensorflow as tf

from tfjac.graph import compiled_by_xla
from tfjac.jacobians.factors.sparse_rows import side_by_side, sparse_rows
from tfjac.optimizers.contracts import LinearModel
from tfjac.optimizers.solvers.base import Cost, Solver, System, finite_or_zeros


@keras.saving.register_keras_serializable("tfjac")
class SparseSolver(Solver):
    """Forms JᵀJ from what each example touches, as a sparse matrix, and factors it by SuperLU, which SciPy brings.

    For pose graphs, chains, grids: where examples read rows of tables by index or by slices, and each reads several
    rows of the same one, so that none can be eliminated as `"schur"` does. How much the factors fill depends on which
    rows meet, which shows only when it runs. Runs in Python, so not under XLA.

    Cost: n·m·k² multiply-adds for JᵀJ, with k columns that an example touches, and for each λ a factorisation, whose
    cost and memory follow from the fill.
    Reference: X. S. Li, "An overview of SuperLU", 2005.
    """

    name = "sparse"

    def cost(self, sizes):
        """Return the `Cost`, if the factor has ten times the entries of JᵀJ."""
        entries = sum((n * k**2 for n, _, k in sizes.touched()), start=0.0)
        formed = sum((n * m * k**2 for n, m, k in sizes.touched()), start=0.0)
        return Cost(30 * sizes.itemsize * entries, formed, 1000 * entries)

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
    def __init__(self, linearisation: LinearModel):
        self._linearisation = linearisation
        self.gradient, self.diagonal = linearisation.gradient(), linearisation.diagonal()
        blocks = [_rows_of(each.factors, linearisation.columns.sizes) for each in linearisation.jacobian.operators]
        blocks = [block for block in blocks if block is not None]
        free = linearisation.only_free(tf.ones_like(self.gradient))
        tensors = [tensor for block in blocks for tensor in (block.columns, _masked(block, free))]
        kinds = [self.gradient.dtype, tf.int32, tf.int32]
        self._matrix = tf.numpy_function(_gram, [tf.size(free), *tensors], kinds, stateful=False)

    def solver(self, scaling):
        def solve(damping, residual=None):
            gradient = self.gradient if residual is None else self._linearisation.jacobian.adjoint(residual)
            diagonal = damping * scaling + self._linearisation.prior.precision
            given = [*self._matrix, diagonal, -gradient]
            step, solved = tf.numpy_function(_solved, given, [gradient.dtype, tf.bool], stateful=False)
            return finite_or_zeros(tf.ensure_shape(step, gradient.shape), tf.ensure_shape(solved, []))

        return solve

    def quadratic(self, step):
        return self._linearisation.quadratic(step)


def _rows_of(factors, sizes):
    """Return the `SparseRows` of one block of residuals; None where no variable moves them."""
    parts = [sparse_rows(factor, sum(sizes[:index])) for index, factor in enumerate(factors) if factor is not None]
    return side_by_side(parts) if parts else None


def _masked(rows, free):
    return rows.values * tf.gather(free, rows.columns)[:, None]


def _gram(size, *blocks):
    """JᵀJ in compressed columns: its entries, their rows, and where each column begins."""
    gram = scipy.sparse.csc_array((size, size), dtype=blocks[1].dtype)
    for columns, values in zip(blocks[::2], blocks[1::2]):
        n, m, k = values.shape
        rows = np.repeat(np.arange(n * m), k)
        jacobian = scipy.sparse.coo_array(
            (values.ravel(), (rows, np.repeat(columns, m, axis=0).ravel())), shape=(n * m, size)
        ).tocsr()
        gram = gram + (jacobian.T @ jacobian).tocsc()
    gram.sort_indices()
    return gram.data, gram.indices.astype(np.int32), gram.indptr.astype(np.int32)


def _solved(data, indices, starts, diagonal, right):
    """Solve with `diagonal` added; zeros, and False, where the matrix is not positive definite or not finite."""
    size = len(right)
    matrix = scipy.sparse.csc_array((data, indices, starts), shape=(size, size)) + scipy.sparse.diags_array(diagonal)
    if not (np.isfinite(matrix.data).all() and np.isfinite(right).all()):
        return np.zeros_like(right), np.False_
    try:
        factors = scipy.sparse.linalg.splu(
            matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )
    except RuntimeError:  # a pivot that is zero
        return np.zeros_like(right), np.False_
    definite = np.array_equal(factors.perm_r, factors.perm_c) and (factors.U.diagonal() > 0).all()
    step = factors.solve(right) if definite else np.zeros_like(right)
    return step.astype(right.dtype), np.bool_(definite)
