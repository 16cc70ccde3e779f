"""The launcher of DampedSolve against numpy.linalg.solve, below and above the size that one block solves."""

import numpy as np
import pytest


def positive_definite(rng, p):
    root = rng.standard_normal((p, p + 3))
    return root @ root.T / max(p, 1)


@pytest.mark.by_day("values")
@pytest.mark.parametrize("p, count", [(0, 2), (1, 1), (7, 0), (7, 3), (33, 7), (64, 2), (65, 2), (131, 3)])
def test_solution(p, count, launchers, dtype, rng):
    matrix, rhs, scaling = positive_definite(rng, p), rng.standard_normal(p), rng.uniform(0.5, 2, p)
    damping = np.linspace(0.5, 2, count)
    spoilt = np.where(np.triu(np.ones((p, p)), 1) > 0, np.nan, matrix)  # the upper triangle is not read
    solution, success = launchers.damped_solve(spoilt, rhs, scaling, damping, dtype)
    for k in range(count):
        expected = np.linalg.solve(matrix + damping[k] * np.diag(scaling), rhs)
        np.testing.assert_allclose(solution[k], expected, atol=1e-3 if dtype == np.float32 else 1e-10)
    np.testing.assert_array_equal(success, np.ones(count))


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("p", [1, 5, 64, 90])
def test_indefinite_matrix_fails_until_damped(p, launchers, dtype, rng):
    matrix = positive_definite(rng, p)
    matrix[p // 2, p // 2] = -2.0
    solution, success = launchers.damped_solve(matrix, np.ones(p), np.ones(p), [0.1, 1e3], dtype)
    np.testing.assert_array_equal(success, [0, 1])
    np.testing.assert_array_equal(solution[0], np.zeros(p))
    np.testing.assert_allclose(solution[1], np.linalg.solve(matrix + 1e3 * np.eye(p), np.ones(p)), rtol=1e-3)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("p", [3, 90])
def test_what_is_not_finite_is_a_flag(p, launchers, dtype, rng):
    good = [positive_definite(rng, p), np.ones(p), np.ones(p), np.ones(7)]
    for which, place in [(0, (1, 1)), (0, (p - 1, p // 2)), (1, 0), (2, p - 1), (3, 0)]:
        for value in (np.nan, np.inf, -np.inf):
            inputs = [x.copy() for x in good]
            inputs[which][place] = value
            solution, success = launchers.damped_solve(*inputs, dtype)
            np.testing.assert_array_equal(success, [0] + [which == 3] * 6, err_msg=f"{value} in input {which}")
            np.testing.assert_array_equal(solution[0], np.zeros(p))
            if which == 3:
                assert np.all(np.any(solution[1:] != 0, axis=1))


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("p", [3, 60, 90])
def test_overflow_of_one_number_is_a_flag(p, launchers, dtype):
    tiny, large = (1e-36, 1e10) if dtype == np.float32 else (1e-300, 1e100)
    matrix, rhs = np.eye(p), np.ones(p)
    matrix[0, 0], rhs[0] = tiny, large
    solution, success = launchers.damped_solve(matrix, rhs, np.ones(p), [0.0] + [1.0] * 6, dtype)
    np.testing.assert_array_equal(success, [0] + [1] * 6)
    np.testing.assert_array_equal(solution[0], np.zeros(p))
    np.testing.assert_allclose(solution[1:], np.tile(np.linalg.solve(matrix + np.eye(p), rhs), (6, 1)), rtol=1e-5)


@pytest.mark.by_day("values")
@pytest.mark.parametrize("p, count", [(5, 300), (64, 3), (70, 3)])
def test_many_systems(p, count, launchers, dtype, rng):
    matrix = np.stack([positive_definite(rng, p) for _ in range(count)])
    matrix[1, p // 2, p // 2] = -1e3
    rhs, scaling, damping = rng.standard_normal((count, p)), rng.uniform(0.5, 2, (count, p)), np.linspace(0.5, 2, count)
    solution, success = launchers.damped_solve(matrix, rhs, scaling, damping, dtype)
    np.testing.assert_array_equal(success, np.arange(count) != 1)
    for j in np.flatnonzero(success):
        expected = np.linalg.solve(matrix[j] + damping[j] * np.diag(scaling[j]), rhs[j])
        np.testing.assert_allclose(solution[j], expected, atol=1e-3 if dtype == np.float32 else 1e-10)
    np.testing.assert_array_equal(solution[1], np.zeros(p))
