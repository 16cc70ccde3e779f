"""Equations between parameters of which some are fixed: the same problem in the free ones, through NumPy."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tfjac.optimizers import least_squares

RNG = np.random.default_rng(5)
A, Y = RNG.standard_normal((30, 4)), RNG.standard_normal(30)
PLANE, FEASIBLE, AWAY = (RNG.standard_normal(shape) for shape in ([2, 4], [4], [4]))
EQUATIONS = np.concatenate([PLANE, PLANE[:1] * 3, np.eye(4)[:1]])
"""The third says what the first does; the fourth is about x₀ alone."""

X = tf.Variable(np.zeros(4))
SUBSETS = [np.array(each) for each in itertools.product([False, True], repeat=4)]


def minimum(equations, fixed):
    """The least squares solution with E x = E·FEASIBLE and x = FEASIBLE where it is fixed, by the null space."""
    rows = np.concatenate([equations, np.eye(4)[fixed]])
    _, values, right = np.linalg.svd(rows)
    free = right[np.sum(values > 1e-10 * values.max()) :].T
    return FEASIBLE + free @ np.linalg.lstsq(A @ free, Y - A @ FEASIBLE, rcond=None)[0]


def check(solver, damping, fixed, equations):
    start = FEASIBLE + np.where(fixed, 0, AWAY)
    X.assign(start)
    given = {"fixed": fixed, "equality": (equations, equations @ FEASIBLE), "solver": solver, "damping": damping}
    found = least_squares(lambda: tf.linalg.matvec(A, X) - Y, X, **given)
    said = f"{given}, {found.status}"
    np.testing.assert_array_equal(found.x[fixed], start[fixed], said)
    np.testing.assert_allclose(equations @ found.x, equations @ FEASIBLE, atol=1e-13, err_msg=said)
    np.testing.assert_allclose(found.x, minimum(equations, fixed), rtol=1e-4, atol=1e-5, err_msg=said)
    # With next to no damping, J Jᵀ of more residuals than parameters is singular but for rounding.
    assert found.steps <= (4 if solver in ("qr", "cholesky") else 30), said


@pytest.mark.by_day(None)
@pytest.mark.parametrize("equations", [PLANE, EQUATIONS], ids=["independent", "redundant"])
def test_every_choice_of_what_is_fixed(equations):
    for fixed in SUBSETS:
        check("qr", "trust_region", fixed, equations)


@pytest.mark.by_day(one_in=5)
@pytest.mark.parametrize("solver", ["svd", "cholesky", "kernel", "cg", "lsmr"])
def test_every_solver_and_damping(solver):
    check(solver, "trust_region", np.array([True, False, False, False]), PLANE)
    check(solver, "nielsen", np.array([True, False, False, False]), EQUATIONS)
    check(solver, "multiplicative", np.array([True, False, True, False]), EQUATIONS)
