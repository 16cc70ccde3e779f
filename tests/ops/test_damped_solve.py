"""damped_solve against numpy.linalg.solve, and the flags it gives where there is no solution."""

import numpy as np
import pytest
import tensorflow as tf

from tfjac import ops

pytestmark = pytest.mark.usefixtures("implementation")


def positive_definite(rng, p):
    root = rng.standard_normal((p, p + 3))
    return root @ root.T / max(p, 1)


@pytest.mark.parametrize(
    "p, damping",
    [(0, 0.1), (0, [0.1, 2.0]), (1, 0.1), (7, []), (7, [0.01, 1.0, 100.0]), (64, [0.3]), (333, [0.2, 0.4])],
)
def test_solution(p, damping, compiled, dtype, rng):
    matrix, rhs, scaling = positive_definite(rng, p), rng.standard_normal(p), rng.uniform(0.5, 2, p)
    inputs = [tf.constant(x, dtype) for x in (matrix, rhs, scaling, damping)]
    solution, success = compiled(ops.damped_solve)(*inputs)
    expected = [np.linalg.solve(matrix + x * np.diag(scaling), rhs) for x in np.atleast_1d(damping)]
    expected = np.reshape(expected, np.shape(damping) + (p,))
    tolerance = 2e-3 if dtype == tf.float32 else 1e-9
    np.testing.assert_allclose(solution, expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(success, np.full(np.shape(damping), True))
    assert solution.dtype == dtype and success.dtype == tf.bool


@pytest.mark.parametrize("p", [1, 5, 200])
def test_indefinite_matrix_fails_until_damped(p, compiled, dtype, rng):
    matrix = positive_definite(rng, p)
    matrix[p // 2, p // 2] = -2.0
    inputs = [tf.constant(x, dtype) for x in (matrix, np.ones(p), np.ones(p), [0.1, 1e4])]
    solution, success = compiled(ops.damped_solve)(*inputs)
    np.testing.assert_array_equal(success, [False, True])
    np.testing.assert_array_equal(solution[0], np.zeros(p))
    np.testing.assert_allclose(solution[1], np.linalg.solve(matrix + 1e4 * np.eye(p), np.ones(p)), rtol=1e-4)


def test_semidefinite_matrix_of_zeros_fails(compiled, dtype):
    solution, success = compiled(ops.damped_solve)(*(tf.zeros(s, dtype) for s in ([4, 4], [4], [4], [])))
    assert not success
    np.testing.assert_array_equal(solution, np.zeros(4))


@pytest.mark.parametrize("p", [3, 170])
def test_non_finite_input_is_a_flag(p, compiled, dtype, rng):
    solve = compiled(ops.damped_solve)
    good = [positive_definite(rng, p), np.ones(p), np.ones(p), np.array([1.0, 1.0])]
    places = [(0, (1, 1)), (0, (2, 0)), (0, (p - 1, p // 2)), (1, 0), (2, p - 1), (3, 0)]
    for value in (np.nan, np.inf, -np.inf):
        for which, position in places:
            inputs = [x.copy() for x in good]
            inputs[which][position] = value
            solution, success = solve(*(tf.constant(x, dtype) for x in inputs))
            np.testing.assert_array_equal(success, [False, which == 3], err_msg=f"{value} in input {which}")
            np.testing.assert_array_equal(solution[0], np.zeros(p))


@pytest.mark.parametrize("p", [4, 200])
def test_upper_triangle_is_not_read(p, compiled, dtype, rng):
    matrix = positive_definite(rng, p)
    spoilt = np.where(np.triu(np.ones((p, p)), 1) > 0, np.nan, matrix)
    inputs = [tf.constant(x, dtype) for x in (spoilt, np.ones(p), np.ones(p), 0.5)]
    solution, success = compiled(ops.damped_solve)(*inputs)
    assert success
    np.testing.assert_allclose(solution, np.linalg.solve(matrix + 0.5 * np.eye(p), np.ones(p)), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("damping", [0.4, [0.4, 2.0]])
def test_gradient_against_finite_differences(damping, rng):
    p = 4
    values = [positive_definite(rng, p), rng.standard_normal(p), rng.uniform(0.5, 2, p), np.array(damping)]
    weights = rng.standard_normal(np.shape(damping) + (p,))

    def oracle(matrix, rhs, scaling, damping):
        solutions = [np.linalg.solve(matrix + x * np.diag(scaling), rhs) for x in np.atleast_1d(damping)]
        return np.sum(weights * np.reshape(solutions, weights.shape))

    inputs = [tf.constant(value) for value in values]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = tf.reduce_sum(weights * ops.damped_solve(*inputs)[0])
    gradients = tape.gradient(loss, inputs)
    for k, gradient in enumerate(gradients):
        direction = rng.standard_normal(values[k].shape)
        direction = direction + direction.T if k == 0 else direction
        steps = [[v + (sign * 1e-6 * direction if k == j else 0) for j, v in enumerate(values)] for sign in (1, -1)]
        difference = (oracle(*steps[0]) - oracle(*steps[1])) / 2e-6
        np.testing.assert_allclose(np.sum(gradient * direction), difference, rtol=1e-6, atol=1e-8)
