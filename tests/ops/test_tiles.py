"""Sizes that cross the limits of tiles, chunks and forms in the native kernels, against NumPy in float64."""

import numpy as np
import pytest
import tensorflow as tf

from tests.ops.factors import Problem
from tfjac import ops

pytestmark = pytest.mark.usefixtures("need_native")

# name -> (n, m, blocks); tiles have 256 rows and columns, sums are taken 256 rows at a time
GRAM_CASES = {
    "blocks_shared_by_factors": (300, 1, [(1, 1, 20, 30, "gio"), (1, 1, 1, 30, "gio"), (1, 1, 30, 7, "ogi")]),
    "pair_products_one_residual": (260, 1, [(1, 1, 3, 5, "gio"), (1, 1, 34, 33, "gio"), (1, 1, 1, 7, "gio")]),
    "pair_products_other_layout": (30, 1, [(1, 1, 35, 36, "ogi")]),
    "residuals_folded": (270, 3, [(1, 1, 40, 12, "gio"), (1, 1, 1, 12, "gio"), (1, 1, 12, 6, "ogi")]),
    "residuals_folded_where_needed": (6, 2, [(1, 1, 8, 40, "gio"), (1, 1, 9, 30, "oig")]),
    "segments_of_rows": (5000, 1, [(1, 1, 4, 3, "gio"), (1, 1, 1, 3, "gio")]),
    "segments_of_rows_and_residuals": (2100, 2, [(1, 2, 2, 3, "iog")]),
    "rows_formed_in_chunks": (150, 3, [(5, 1, 9, 8, "gio"), (1, 1, 40, 12, "gio"), (3, 2, 4, 10, "oig")]),
    "rows_formed_for_each_tile": (270, 1, [(1, 1, 3, 410, "ogi"), (1, 1, 1, 17, "gio")]),
    "one_wide_block": (40, 2, [(1, 1, 1, 700, "gio")]),
    "groups_in_tiles": (20, 2, [(1, 4, 15, 9, "igo")]),
}
KERNEL_CASES = {
    "residuals_across_tiles": (60, 7, [(1, 1, 12, 5, "gio"), (1, 1, 1, 5, "gio"), (1, 3, 4, 5, "gio")]),
    "more_residuals_than_a_tile": (2, 300, [(1, 1, 4, 3, "gio"), (2, 1, 2, 2, "gio")]),
    "one_residual": (517, 1, [(1, 1, 3, 4, "gio"), (1, 1, 1, 900, "gio")]),
    "past_the_cache": (151, 7, [(1, 1, 5, 4, "gio"), (1, 1, 1, 3, "gio")]),
    "ghost": (70, 5, [(3, 2, 40, 30, "gio"), (1, 1, 6, 4, "gio")]),
    "rows_in_slices": (90, 3, [(40, 1, 50, 30, "gio"), (9, 2, 3, 2, "gio"), (1, 1, 4, 4, "gio")]),
}
NORM_CASES = {
    "ghost_tiles": (3, 2, [(300, 1, 500, 400, "gio")]),
    "row_tiles": (3, 2, [(20, 2, 300, 3, "gio"), (20, 1, 3, 300, "gio")]),
    "long_vectors": (50, 3, [(1, 2, 131, 67, "gio"), (1, 1, 1, 1000, "gio")]),
}


def close(found, expected):
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12 * scale)


@pytest.mark.parametrize("case", GRAM_CASES)
def test_gram(case, rng):
    problem = Problem(rng, *GRAM_CASES[case])
    gram, gradient = ops.jacobian_gram(*problem.tensors(tf.float64), problem.layouts, problem.residual)
    rows = problem.rows()
    close(gram, rows.T @ rows)
    close(gradient, rows.T @ problem.residual.ravel())
    np.testing.assert_array_equal(gram, np.transpose(gram))


@pytest.mark.parametrize("case", KERNEL_CASES)
def test_kernel(case, rng):
    problem = Problem(rng, *KERNEL_CASES[case])
    kernel = ops.jacobian_kernel(*problem.tensors(tf.float64))
    rows = problem.rows()
    close(kernel, rows @ rows.T)
    np.testing.assert_array_equal(kernel, np.transpose(kernel))


def test_kernel_of_factors_that_share_d(rng):
    problem = Problem(rng, 40, 8, [(1, 1, 9, 5, "gio"), (1, 1, 1, 5, "gio"), (1, 1, 2, 5, "gio")])
    problem.d = [problem.d[0]] * 3
    a, d = problem.tensors(tf.float64)
    rows = problem.rows()
    close(ops.jacobian_kernel(a, [d[0]] * 3), rows @ rows.T)


@pytest.mark.parametrize("case", NORM_CASES)
def test_row_norms(case, rng):
    problem = Problem(rng, *NORM_CASES[case])
    expected = 0
    for a, d in zip(problem.a, problem.d):
        block = np.einsum("ntgi,nmtgo->nmgio", a, d, optimize=True)
        expected = expected + (block**2).sum((2, 3, 4))
    close(ops.jacobian_row_norms(*problem.tensors(tf.float64)), expected)


@pytest.mark.parametrize("layout", ["gio", "ogi"])
def test_rows_past_the_cache(layout, rng):
    blocks = [(1, 1, 61, 33, layout), (1, 1, 1, 33, layout), (1, 3, 5, 7, layout), (1, 1, 7, 700, layout)]
    problem = Problem(rng, 160, 1, blocks)  # above 8 MB the result is streamed to memory
    rows = ops.jacobian_rows(*problem.tensors(tf.float64), problem.layouts)
    assert rows.shape.num_elements() * 8 > 2**23
    close(rows, problem.jacobian())


@pytest.mark.parametrize("p", [143, 144, 145, 288, 700])
def test_damped_solve(p, rng):
    root = rng.standard_normal((p, p + 5))
    matrix, rhs, scaling = root @ root.T / p, rng.standard_normal(p), rng.uniform(0.5, 2, p)
    solution, success = ops.damped_solve(matrix, rhs, scaling, tf.constant([0.5, 3.0], tf.float64))
    assert np.all(success)
    for damping, x in zip([0.5, 3.0], solution):
        close(x, np.linalg.solve(matrix + damping * np.diag(scaling), rhs))
