"""damped_solve against numpy.linalg.solve, and the flags it gives where there is no solution."""

import numpy as np
import pytest
import tensorflow as tf

from tests.ops.ways import every_way
from tfjac import ops

pytestmark = pytest.mark.usefixtures("implementation")


def positive_definite(rng, p):
    root = rng.standard_normal((p, p + 3))
    return root @ root.T / max(p, 1)


@pytest.mark.by_day("values")
@every_way
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


@pytest.mark.core
@every_way
@pytest.mark.parametrize("p", [1, 5, 200])
def test_indefinite_matrix_fails_until_damped(p, compiled, dtype, rng):
    matrix = positive_definite(rng, p)
    matrix[p // 2, p // 2] = -2.0
    inputs = [tf.constant(x, dtype) for x in (matrix, np.ones(p), np.ones(p), [0.1, 1e4])]
    solution, success = compiled(ops.damped_solve)(*inputs)
    np.testing.assert_array_equal(success, [False, True])
    np.testing.assert_array_equal(solution[0], np.zeros(p))
    np.testing.assert_allclose(solution[1], np.linalg.solve(matrix + 1e4 * np.eye(p), np.ones(p)), rtol=1e-4)


@pytest.mark.by_day(one_in=3)
def test_semidefinite_matrix_of_zeros_fails(compiled, dtype):
    solution, success = compiled(ops.damped_solve)(*(tf.zeros(s, dtype) for s in ([4, 4], [4], [4], [])))
    assert not success
    np.testing.assert_array_equal(solution, np.zeros(4))


@pytest.mark.core
@every_way
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


@pytest.mark.core
@every_way
@pytest.mark.parametrize("p", [4, 200])
def test_upper_triangle_is_not_read(p, compiled, dtype, rng):
    matrix = positive_definite(rng, p)
    spoilt = np.where(np.triu(np.ones((p, p)), 1) > 0, np.nan, matrix)
    inputs = [tf.constant(x, dtype) for x in (spoilt, np.ones(p), np.ones(p), 0.5)]
    solution, success = compiled(ops.damped_solve)(*inputs)
    assert success
    np.testing.assert_allclose(solution, np.linalg.solve(matrix + 0.5 * np.eye(p), np.ones(p)), rtol=1e-3, atol=1e-4)


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("p, k", [(3, 0), (3, 1), (3, 2), (0, 2), (3, None)])
def test_sizes_that_are_open(p, k, implementation, rng):
    """Also a damping whose rank is open; k = None stands for a scalar."""
    damping = np.linspace(1, 2, k) if k is not None else np.array(1.0)
    matrix, vector = positive_definite(rng, p), rng.standard_normal(p)
    for spec in (tf.TensorSpec(None, tf.float64), tf.TensorSpec([None] * damping.ndim, tf.float64)):
        signature = [tf.TensorSpec([None, None], tf.float64), *2 * [tf.TensorSpec([None], tf.float64)], spec]

        @tf.function(input_signature=signature)
        def solve(*inputs):
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                solution, success = ops.damped_solve(*inputs)
            return solution, success, tape.gradient(solution, inputs)

        solution, success, gradients = solve(matrix, vector, np.ones(p), damping)
        expected = [np.linalg.solve(matrix + x * np.eye(p), vector) for x in np.atleast_1d(damping)]
        np.testing.assert_allclose(solution, np.reshape(expected, damping.shape + (p,)), rtol=1e-9)
        assert np.all(success) and success.shape == damping.shape
        assert [g.shape for g in gradients] == [(p, p), (p,), (p,), damping.shape]
        for wrong in ([matrix, vector, np.ones(1), damping], [matrix, vector, np.ones(p), np.ones([2, 2])]):
            if p > 1 and (np.ndim(wrong[3]) < 2 or spec.shape.rank is None):
                with pytest.raises(tf.errors.InvalidArgumentError):
                    solve(*wrong)


def gradients_of_cubes(*inputs):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        solution, _ = ops.damped_solve(*inputs)
        loss = tf.reduce_sum(solution**3)
    return tape.gradient(loss, inputs)


@pytest.mark.by_day(one_in=3)
def test_what_failed_has_no_gradient(implementation, compiled, rng):
    matrix = positive_definite(rng, 5)
    matrix[2, 2] = -2.0

    gradients = compiled(gradients_of_cubes)
    inputs = [tf.constant(x) for x in (matrix, rng.standard_normal(5), rng.uniform(0.5, 2, 5))]
    both = gradients(*inputs, tf.constant([0.1, 9.0], tf.float64))
    good = gradients(*inputs, tf.constant(9.0, tf.float64))
    for one, other in zip(both, good):
        np.testing.assert_allclose(one if one.shape == other.shape else one[1], other, rtol=1e-12)
    assert both[3][0] == 0
    assert all(not np.any(one) for one in gradients(*inputs, tf.constant(0.1, tf.float64)))


def test_cotangent_that_is_not_finite_is_not_lost(implementation):
    rhs = tf.ones(2)
    with tf.GradientTape() as tape:
        tape.watch(rhs)
        solution, _ = ops.damped_solve(tf.eye(2), rhs, tf.ones(2), 1.0)
    assert np.all(np.isnan(tape.gradient(solution, rhs, output_gradients=tf.constant([np.nan, 1.0]))))


def test_second_derivative(implementation, rng):
    """d²/dλ² of b·x is 2 (b·M⁻³b) for the identity as scaling."""
    matrix, rhs = positive_definite(rng, 4), rng.standard_normal(4)
    damping = tf.constant([0.3, 0.7], tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(damping)
        with tf.GradientTape() as inner:
            inner.watch(damping)
            energy = tf.linalg.matvec(ops.damped_solve(matrix, rhs, np.ones(4), damping)[0], rhs)
        slope = inner.gradient(energy, damping)
    inverses = [np.linalg.inv(matrix + x * np.eye(4)) for x in damping.numpy()]
    expected = [2 * rhs @ inverse @ inverse @ inverse @ rhs for inverse in inverses]
    np.testing.assert_allclose(outer.gradient(slope, damping), expected, rtol=1e-9)


def test_second_derivative_by_the_matrix(implementation, rng):
    start, change = (tf.constant(positive_definite(rng, 4)) for _ in range(2))
    others = [tf.constant(x) for x in (rng.standard_normal(4), np.ones(4), np.float64(0.3))]

    def square(matrix):
        return tf.reduce_sum(gradients_of_cubes(matrix, *others)[0] ** 2)

    with tf.GradientTape() as tape:
        tape.watch(start)
        found = square(start)
    differences = (square(start + 1e-6 * change) - square(start - 1e-6 * change)) / 2e-6
    np.testing.assert_allclose(tf.reduce_sum(tape.gradient(found, start) * change), differences, rtol=1e-6)


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


def systems(rng, k, p):
    """Give k systems, of which one has no solution and one is not finite."""
    matrix = np.stack([positive_definite(rng, p) for _ in range(k)])
    matrix += np.triu(np.full((p, p), np.nan), 1)  # the upper triangle is not read
    matrix[1, p // 2, p // 2] = -1e3
    matrix[k - 1, p - 1, 0] = np.inf
    return [matrix, rng.standard_normal((k, p)), rng.uniform(0.5, 2, (k, p)), rng.uniform(0.1, 2, k)]


@pytest.mark.core
@every_way
@pytest.mark.parametrize("k, p", [(70, 5), (3, 1), (3, 32), (4, 40)])
def test_many_systems(k, p, compiled, dtype, rng):
    """Each with a damping of its own; what is wrong with one harms no other."""
    given = systems(rng, k, p)
    solution, success = compiled(ops.damped_solve)(*(tf.constant(x, dtype) for x in given))
    for j, (matrix, rhs, scaling, damping) in enumerate(zip(*given)):
        assert success[j] == (j not in (1, k - 1))
        whole = np.tril(matrix) + np.tril(matrix, -1).T + damping * np.diag(scaling)
        expected = np.linalg.solve(whole, rhs) if success[j] else np.zeros(p)
        np.testing.assert_allclose(solution[j], expected, rtol=2e-3, atol=2e-3 if dtype == tf.float32 else 1e-9)
    empty = compiled(ops.damped_solve)(*(tf.zeros(shape, dtype) for shape in ([0, p, p], [0, p], [0, p], [0])))
    assert [part.shape for part in empty] == [(0, p), (0,)]


def test_gradients_of_many_systems(implementation, rng):
    """Each as if it were alone, also of sizes that are open, and none where there was no solution."""
    inputs = [tf.constant(x) for x in systems(rng, 5, 3)]
    signature = [tf.TensorSpec([None] * x.shape.rank, tf.float64) for x in inputs]
    gradients = tf.function(gradients_of_cubes, input_signature=signature)
    several = gradients(*inputs)
    for j in range(5):
        for one, other in zip(several, gradients_of_cubes(*[x[j] for x in inputs])):
            np.testing.assert_allclose(one[j], other, rtol=1e-10)
    with pytest.raises(tf.errors.InvalidArgumentError):
        gradients(*inputs[:3], inputs[3][:4])
    with pytest.raises(ValueError, match=r"or matrix \[k,p,p\]"):
        ops.damped_solve(*inputs[:3], inputs[3][:4])
