"""One step of each solver with each scaling against the dense normal equations in NumPy: D means the same to all."""

import numpy as np
import pytest
import tensorflow as tf

from tfjac.optimizers import ConjugateGradientSolver, LevenbergMarquardt, LSMRSolver, NielsenDamping

RNG = np.random.default_rng(3)
DAMPING = 1.0


def jacobian_of(residuals, variables):
    """Return J `[rows, p]` and r, by TensorFlow's own tape."""

    @tf.function
    def run():
        with tf.GradientTape() as tape:
            residual = tf.concat([tf.reshape(each, [-1]) for each in residuals()], axis=0)
        return tape.jacobian(residual, variables, unconnected_gradients="zero"), residual

    jacobians, residual = run()
    parts = [np.reshape(each, [len(residual), -1]) for each in map(tf.convert_to_tensor, jacobians)]
    return np.concatenate(parts, axis=1), residual.numpy()


def dense_step(jacobian, residual, scaling):
    """−(JᵀJ + λD)⁻¹Jᵀr with λ relative to the largest of diag(JᵀJ)/D."""
    diagonal = (jacobian**2).sum(axis=0)
    scale = np.ones_like(diagonal) if scaling == "identity" else np.where(diagonal > 0, diagonal, 1)
    damping = DAMPING * (diagonal / scale).max()
    root = np.sqrt(scale)
    scaled = jacobian / root
    if len(jacobian) < jacobian.shape[1]:
        inner = np.linalg.solve(scaled @ scaled.T + damping * np.eye(len(jacobian)), residual)
        return -(scaled.T @ inner) / root
    inner = np.linalg.solve(scaled.T @ scaled + damping * np.eye(len(root)), scaled.T @ residual)
    return -inner / root


def network(examples, *widths):
    x, y = RNG.normal(size=[examples, widths[0]]) * np.geomspace(1, 30, widths[0]), RNG.normal(size=[examples, 3])
    weights = [tf.Variable(RNG.normal(size=pair) / 8) for pair in zip(widths, [*widths[1:], 3])]
    biases = [tf.Variable(RNG.normal(size=[o])) for o in [*widths[1:], 3]]

    def residuals():
        value = tf.constant(x)
        for weight, bias in zip(weights, biases):
            value = tf.matmul(tf.tanh(value), weight) + bias
        return [value - y]

    return residuals, [*weights, *biases]


def check(residuals, variables, scaling, solver, rtol=1e-7):
    jacobian, residual = jacobian_of(residuals, variables)
    before = np.concatenate([np.ravel(v.numpy()) for v in variables])
    optimizer = LevenbergMarquardt(
        NielsenDamping(DAMPING), scaling=scaling, solver=solver, max_attempts=1, acceleration=None
    )
    tf.function(lambda: optimizer.minimize(residuals, variables).damping)()
    step = np.concatenate([np.ravel(v.numpy()) for v in variables]) - before
    expected = dense_step(jacobian, residual, scaling)
    np.testing.assert_allclose(step, expected, rtol=0, atol=rtol * np.abs(expected).max())
    return optimizer.solver_used


WIDE, TALL = (100, 30, 90), (1000, 10, 24)
SCALINGS = ["identity", "marquardt", "more"]
ITERATIVE = [ConjugateGradientSolver(1e-10, 2000), LSMRSolver(1e-10, 4000)]


@pytest.mark.by_day(one_in=6)
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("solver", ["kernel", "auto", *ITERATIVE], ids=lambda solver: getattr(solver, "name", solver))
def test_three_thousand_weights_and_three_hundred_residuals(solver, scaling):
    used = check(*network(*WIDE), scaling, solver)
    assert solver != "auto" or used == "kernel"


@pytest.mark.by_day(None)
@pytest.mark.parametrize("scaling", SCALINGS[:2])
@pytest.mark.parametrize("solver", ["kernel", "cholesky", "qr", "svd", *ITERATIVE], ids=lambda s: getattr(s, "name", s))
def test_three_hundred_weights_and_three_thousand_residuals(solver, scaling):
    check(*network(*(TALL if solver != "kernel" else (200, *TALL[1:]))), scaling, solver)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("solver", ["kernel", "cholesky", "schur", "schur_cg", "sparse"])
def test_tables_convolutions_and_several_blocks(solver, scaling):
    """Blocks of other sizes, one that not all variables move, a table that is read twice by each example."""
    rng = np.random.default_rng(0)
    table, kernel = tf.Variable(rng.normal(size=[9, 2])), tf.Variable(rng.normal(size=[3, 2, 4]))
    weight, ids = tf.Variable(rng.normal(size=[2, 3])), rng.integers(9, size=[7, 2])
    read_by_rows = solver in ("schur", "schur_cg", "sparse")
    signal = rng.normal(size=[5, 6, 2])

    def residuals():
        read = tf.gather(table, ids[:, 0]) if read_by_rows else tf.reduce_sum(tf.gather(table, ids), axis=1)
        blocks = [tf.matmul(read, weight) ** 2 - 1.0, read - 0.3]
        return blocks if read_by_rows else [*blocks, tf.nn.conv1d(signal, kernel, 1, "SAME") - 0.1]

    check(
        residuals,
        [table, weight] if read_by_rows else [table, kernel, weight],
        scaling,
        solver,
        rtol=1e-2 if "cg" in solver else 1e-7,
    )
