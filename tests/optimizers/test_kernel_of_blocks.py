"""J·Jᵀ of several blocks of residuals with examples of their own, against J taken row by row by TensorFlow's tape."""

import keras
import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from tests.optimizers.gauss_newton import rows_of_jacobian
from tfjac.jacobians.rows.blocks import stacked_jacobian
from tfjac.linear.columns import Columns
from tfjac.linear.factors.forms import DenseFactor
from tfjac.linear.model.right_factor import BlockTimes, Selection
from tfjac.linear.operator import JacobianOperator
from tfjac.objective.residuals import objective_of_residuals
from tfjac.optimizers import LeastSquaresProblem, least_squares

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4))


def network(*widths):
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(width, "tanh", dtype="float64") for width in widths]
    return keras.Sequential([keras.Input((4,), dtype="float64"), *layers])


def values_of(model):
    return [variable.value for variable in model.trainable_variables]


def two_data_sets():
    model = network(5, 2)
    return values_of(model), lambda: [model(X[:9]), 3 * model(X[9:20])]


def equation_and_border():
    """The equation has derivatives of the network in it, and no use for its last bias."""
    model = network(5, 4, 1)
    inside, border = X[:12], tf.constant(X[12:17])

    def residuals():
        columns = tf.unstack(tf.constant(inside), axis=1)
        with tf.GradientTape() as outer:
            outer.watch(columns[0])
            with tf.GradientTape() as inner:
                inner.watch(columns[0])
                u = model(tf.stack(columns, 1))[:, 0]
            slope = inner.gradient(u, columns[0])
        return [outer.gradient(slope, columns[0]), model(border)]

    return values_of(model), residuals


def some_of_the_variables():
    first, last = keras.layers.Dense(3, "tanh", dtype="float64"), keras.layers.Dense(2, dtype="float64")
    model = keras.Sequential([keras.Input((4,), dtype="float64"), first, last])
    return values_of(model), lambda: [model(X[:6]), first(X[6:10]), 0.1 * last.kernel.value]


def other_numbers_of_outputs():
    model = network(5, 3)
    return values_of(model), lambda: [model(X[:6]), tf.reduce_sum(model(X[6:16]), axis=1), model(X[16:20])[:, :2]]


def convolution_and_its_weights():
    keras.utils.set_random_seed(0)
    layer, last = keras.layers.Conv1D(4, 2, groups=2, dtype="float64"), keras.layers.Dense(1, dtype="float64")
    flat = keras.layers.Flatten(dtype="float64")
    model = keras.Sequential([keras.Input((6, 4), dtype="float64"), layer, flat, last])
    images, others = RNG.normal(size=(2, 6, 4)), RNG.normal(size=(3, 6, 4))
    return values_of(model), lambda: [tf.tanh(model(images)), layer(others)[:, 0]]


def a_weight_and_its_transpose():
    w = tf.Variable(RNG.normal(size=(4, 4)))
    return [w], lambda: [tf.tanh(X[:7] @ w), tf.tanh(tf.matmul(X[7:12], w, transpose_b=True))]


def a_table_in_one_block_alone():
    table, w = tf.Variable(RNG.normal(size=(9, 2))), tf.Variable(RNG.normal(size=(4, 2)))
    ids = np.array([1, 8, 1])
    read = lambda: tf.reduce_sum(tf.gather(table, ids) * (X[:3] @ w), 1)  # noqa: E731
    return [table, w], lambda: [tf.tanh(read()), X[3:8] @ w, 0.5 * table]


CASES = [
    two_data_sets,
    equation_and_border,
    some_of_the_variables,
    other_numbers_of_outputs,
    convolution_and_its_weights,
    a_weight_and_its_transpose,
    a_table_in_one_block_alone,
]


def kernel_of(residuals, variables, scales, jit_compile=False):
    @tf.function(jit_compile=jit_compile, autograph=False)
    def kernel():
        return objective_of_residuals(residuals(), variables).linearise().jacobian.kernel(tf.constant(scales))

    return kernel(), kernel.get_concrete_function().graph


@pytest.mark.by_day("values")
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("make", CASES)
def test_against_rows(make, jit_compile, implementation):
    variables, residuals = make()
    scales = RNG.uniform(0.5, 2, len(variables))
    found, graph = kernel_of(residuals, variables, scales, jit_compile)
    _, rows = rows_of_jacobian(residuals, variables)
    spread = np.repeat(scales, [np.size(variable) for variable in variables])
    np.testing.assert_allclose(found, rows * spread @ rows.T, rtol=1e-10, atol=1e-10)
    if implementation == "native":
        assert [op.type for op in graph.get_operations()].count("TfjacJacobianKernel") == 1


def test_a_large_table_is_not_formed():
    """Nothing in the graph has more numbers than the table; its part of J would have seven times as many."""
    w, ids, others = (
        tf.Variable(RNG.normal(size=(2,))),
        np.array([[1, 999_999], [7, 1], [9, 9]]),
        np.array([7, 1, 3, 1]),
    )
    read = np.unique([*ids.ravel(), *others])

    def residuals(table, ids, others):
        return lambda: [tf.reduce_sum(tf.tanh(tf.gather(table, each) + 0.1) * w, axis=-1) for each in (ids, others)]

    table = tf.Variable(tf.random.stateless_normal([10**6, 2], [0, 1], dtype=tf.float64))
    found, graph = kernel_of(residuals(table, ids, others), [table, w], np.array([1.0, 2.0]))
    assert max(tensor.shape.num_elements() or 0 for op in graph.get_operations() for tensor in op.outputs) < 3 * 10**6
    small = tf.Variable(tf.gather(table, read))
    renumbered = (np.searchsorted(read, each) for each in (ids, others))
    _, rows = rows_of_jacobian(residuals(small, *renumbered), [small, w])
    spread = np.repeat([1.0, 2.0], [2 * len(read), 2])
    np.testing.assert_allclose(found, rows * spread @ rows.T, rtol=1e-10, atol=1e-12)


@pytest.mark.by_day(None)
def test_open_numbers_of_examples():
    model = network(5, 2)

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float64)] * 2)
    def kernel(x, y):
        problem = objective_of_residuals([model(x), 3 * model(y)[:, 0]], values_of(model))
        return problem.linearise().jacobian.kernel(tf.ones([4], tf.float64))

    for n, k in ((9, 11), (1, 4), (5, 0)):
        _, rows = rows_of_jacobian(lambda: [model(X[:n]), 3 * model(X[n : n + k])[:, 0]], values_of(model))  # noqa: B023
        np.testing.assert_allclose(kernel(X[:n], X[n : n + k]), rows @ rows.T, rtol=1e-10, atol=1e-10)


@pytest.mark.by_day(None)
def test_solved_again_for_other_numbers_of_examples():
    """TensorFlow leaves open what differs between calls; that numbers of examples are the same must be known, then."""
    w = tf.Variable(np.ones((4, 1)))
    problem = LeastSquaresProblem(lambda x, y: [tf.tanh(x @ w) - 0.1, 2 * (y @ w) - 0.3], w)
    for n, k in ((9, 11), (8, 12), (7, 7), (13, 2)):
        w.assign(np.ones((4, 1)))
        found = problem.solve(X[:n], X[n : n + k])
        expected = scipy.optimize.least_squares(
            lambda v: np.concatenate([np.tanh(X[:n] @ v) - 0.1, 2 * (X[n : n + k] @ v) - 0.3]),  # noqa: B023
            np.ones(4), xtol=1e-14, ftol=1e-14, gtol=1e-14,
        )  # fmt: skip
        np.testing.assert_allclose(found.cost, expected.cost, rtol=1e-8)


@pytest.mark.by_day(None)
def test_outputs_of_one_input_are_one_block():
    model = network(5, 2)

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float64)] + [tf.TensorSpec([None, 2], tf.float64)] * 2)
    def operators(x, y, z):
        outputs = [model(x) - y, tf.tanh(model(x + 1)) * z, model(y @ np.ones((2, 4)))]
        problem = objective_of_residuals(outputs, values_of(model))
        return [operator.to_dense() for operator in problem.linearise().jacobian.operators]

    assert len(operators(X[:7], X[:7, :2], X[:7, :2])) == 1


def test_rows_that_no_variable_moves():
    w = tf.Variable(np.ones(4))
    found, _ = kernel_of(lambda: [tf.tanh(X[:3] * w), tf.constant(X[:7, 0]), X[3:5] @ w[:, None]], [w], np.ones(1))
    assert found.shape == (21, 21)
    np.testing.assert_array_equal(found[12:19], np.zeros((7, 21)))


@pytest.mark.parametrize("sizes", [[5], [2, 3]])
@pytest.mark.parametrize("compiled", [False, True])
def test_only_rows_that_no_variable_moves(sizes, compiled, implementation):
    w = tf.Variable([1.0, 2.0])

    @tf.function(jit_compile=compiled)
    def products():
        rows, ones = [tf.ones([size]) for size in sizes], tf.ones([2])
        jacobian, residual = stacked_jacobian([*zip(rows, rows)], [w], Columns([w]), tf.float32)
        squares = *jacobian.gram_and_gradient(residual), jacobian.column_norms_squared()
        kernels = jacobian.kernel(ones[:1]), jacobian.weighted_kernel(ones)
        return *squares, jacobian.matvec(ones), jacobian.to_dense(), *kernels

    for given, shape in zip(products(), [(2, 2), (2,), (2,), (5,), (5, 2), (5, 5), (5, 5)], strict=True):
        np.testing.assert_array_equal(given, np.zeros(shape))


@pytest.mark.by_day(None)
@pytest.mark.parametrize("what", [{"bounds": (-0.4, 0.4)}, {"fixed": [[[True, False]] * 4, None]}, {}])
def test_a_whole_minimisation(what):
    """Minimised by the kernel as by a factorisation of JᵀJ."""
    results = []
    for solver in ("kernel", "cholesky"):
        v, b = tf.Variable(0.1 * X[:2].T), tf.Variable(np.zeros(2))
        model = lambda x: tf.tanh(x @ v + b)  # noqa: B023, E731
        residuals = lambda: [model(X[:2]) - 0.3, model(X[2:4])[:, 0] - 0.2, 0.01 * b]  # noqa: B023, E731
        results.append(least_squares(residuals, [v, b], solver=solver, gtol=1e-8, max_steps=60, **what))
    assert all(result.success for result in results)
    np.testing.assert_allclose(results[0].cost, results[1].cost, rtol=1e-6, atol=1e-14)


def test_variables_that_a_block_lacks_cost_no_op_each():
    """As of a bundle with a term for each camera: zeros for each variable in each block were a quarter of all ops."""
    columns = Columns([tf.zeros([2])] * 50)
    rows = RNG.normal(size=(4, 1, 4))
    factors = [DenseFactor(tf.constant(rows[..., :2])), DenseFactor(tf.constant(rows[..., 2:]))]
    block = BlockTimes(JacobianOperator(factors, [tf.TensorShape([2])] * 2, 4, 1), Selection([3, 40], columns))
    expected = np.zeros((4, 100))
    expected[:, [6, 7, 80, 81]] = rows[:, 0]

    @tf.function(autograph=False)
    def dense():
        return block.to_dense()

    np.testing.assert_array_equal(dense(), expected)
    assert len(dense.get_concrete_function().graph.get_operations()) < 50
