"""Preconditioners and the forcing sequence, against dense matrices in NumPy made from Jacobians taken row by row."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.optimizers.gauss_newton import damped_step, first_step, rows_of_jacobian
from tfjac.linear.solvers.preconditioners import Preconditioner
from tfjac.objective.residuals import objective_of_residuals
from tfjac.optimizers import ConjugateGradientSolver, least_squares

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4))
V, B, W = (RNG.normal(size=size) for size in ((4, 3), (3,), (3, 2)))
Y = np.tanh(X @ V + B) @ W + 0.05 * RNG.normal(size=(30, 2))
KINDS = ["kronecker", "block_diagonal", "diagonal"]


class Network:
    """tanh(x·V + b)·W, residuals of all examples, not far from the minimum."""

    def __init__(self):
        rng = np.random.default_rng(1)
        self.v, self.b, self.w = (tf.Variable(true + 0.2 * rng.normal(size=true.shape)) for true in (V, B, W))
        self.variables = [self.v, self.b, self.w]

    def __call__(self):
        return tf.tanh(X @ self.v + self.b) @ self.w - Y

    def kronecker_products(self):
        """A and G of each variable, by hand; the bias has a single input, one."""
        hidden = np.tanh(X @ self.v.numpy() + self.b.numpy())
        back = (1 - hidden**2)[:, None, :] * self.w.numpy().T
        cotangents = np.einsum("nmo,nmp->op", back, back)
        return [
            (X.T @ X / len(X), cotangents),
            (np.ones((1, 1)), cotangents),
            (hidden.T @ hidden / len(X), len(X) * np.eye(2)),
        ]


def applied(network, kind, mass, vector, jit_compile=False):
    @tf.function(jit_compile=jit_compile, autograph=False)
    def run():
        linearisation = objective_of_residuals([network()], network.variables).linearise()
        return Preconditioner(kind, linearisation, linearisation.diagonal()).inverse(tf.constant(mass))(vector)

    return run().numpy()


def block_diagonal(blocks):
    size = sum(len(block) for block in blocks)
    whole, start = np.zeros((size, size)), 0
    for block in blocks:
        whole[start : start + len(block), start : start + len(block)] = block
        start += len(block)
    return whole


@pytest.mark.by_day(None)
@pytest.mark.parametrize("kind, jit_compile", [("kronecker", True), ("block_diagonal", True), ("diagonal", False)])
def test_preconditioner_by_the_formula(kind, jit_compile):
    network, sizes = Network(), [12, 3, 6]
    mass, vector = RNG.uniform(0.1, 2, size=21), RNG.normal(size=21)
    _, jacobian = rows_of_jacobian(network, network.variables)
    matrix = jacobian.T @ jacobian + np.diag(mass)
    if kind == "diagonal":
        expected = vector / np.diag(matrix)
    elif kind == "block_diagonal":
        ends = np.cumsum([0, *sizes])
        blocks = [matrix[a:b, a:b] for a, b in itertools.pairwise(ends)]
        expected = np.linalg.solve(block_diagonal(blocks), vector)
    else:
        blocks = []
        for (a, g), part in zip(network.kronecker_products(), np.split(mass, np.cumsum(sizes)[:-1])):
            root, pi = np.sqrt(part.mean()), np.sqrt(np.trace(a) / len(a) / (np.trace(g) / len(g)))
            blocks.append(np.kron(a + pi * root * np.eye(len(a)), g + root / pi * np.eye(len(g))))
        expected = np.linalg.solve(block_diagonal(blocks), vector)
    np.testing.assert_allclose(applied(network, kind, mass, vector, jit_compile), expected, rtol=1e-9, atol=1e-12)


def layered(*layers, shape):
    """A float64 model, and residuals of it."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input(shape, dtype="float64"), *layers])
    x = RNG.normal(size=(6, *shape))
    return model, lambda: tf.reshape(model(x), [6, -1]) - 0.3


def convolution():
    return layered(
        keras.layers.Conv2D(4, 3, groups=2, dtype="float64"), keras.layers.Activation("tanh", dtype="float64"),
        keras.layers.DepthwiseConv2D(2, dtype="float64"), keras.layers.Flatten(dtype="float64"),
        keras.layers.Dense(2, dtype="float64"), shape=(5, 5, 2),
    )  # fmt: skip


def embedding():
    keras.utils.set_random_seed(0)
    table, dense = keras.layers.Embedding(7, 3, dtype="float64"), keras.layers.Dense(2, dtype="float64")
    model, ids = keras.Sequential([table, dense]), np.arange(18).reshape(6, 3) * 5 % 7
    model.build((6, 3))
    return model, lambda: tf.tanh(model(ids)) - 0.3


def blocks_of_different_sizes():
    """Two blocks with the same weights, of other numbers of examples, and one of a part of the weights alone."""
    keras.utils.set_random_seed(0)
    first, last = keras.layers.Dense(3, "tanh", dtype="float64"), keras.layers.Dense(1, dtype="float64")
    model = keras.Sequential([keras.Input((4,), dtype="float64"), first, last])
    inside, edge = X[:9], 2 * X[9:13]
    return model, lambda: [model(inside) - 1.0, 3 * model(edge), 0.1 * last.kernel.value]


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    "make, kind",
    [
        (convolution, "kronecker"), (embedding, "kronecker"), (blocks_of_different_sizes, "kronecker"),
        (convolution, "block_diagonal"), (blocks_of_different_sizes, "block_diagonal"), (embedding, "diagonal"),
    ],
)  # fmt: skip
def test_layers_of_all_kinds(make, kind):
    model, residuals = make()
    variables = [variable.value for variable in model.trainable_variables]
    expected = damped_step(residuals, variables)
    loss = lambda: tf.add_n([tf.reduce_sum(part**2) / 2 for part in tf.nest.flatten(residuals())])  # noqa: E731
    step, _ = first_step(loss, variables, solver=ConjugateGradientSolver(1e-11, 1000, kind))
    np.testing.assert_allclose(step, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())


@pytest.mark.by_day(None)
@pytest.mark.parametrize("kind", KINDS)
def test_parameters_that_are_held_stay_out(kind):
    """A minimum with weights fixed is that of SciPy's problem without them, whatever couples them to the others."""
    from scipy.optimize import least_squares as scipy_least_squares

    network = Network()
    fixed = [[[k == 1, False, k == 2] for k in range(4)], None, None]
    free = ~np.concatenate([np.ravel(fixed[0]), np.zeros(9, bool)])
    start = np.concatenate([variable.numpy().ravel() for variable in network.variables])

    def reference(part):
        v, b, w = np.split(np.where(free, _placed(free, part), start), [12, 15])
        return (np.tanh(X @ v.reshape(4, 3) + b) @ w.reshape(3, 2) - Y).ravel()

    expected = scipy_least_squares(reference, start[free], xtol=1e-14, ftol=1e-14, gtol=1e-12)
    solver = ConjugateGradientSolver(preconditioner=kind)
    result = least_squares(network, network.variables, fixed=fixed, solver=solver, ftol=1e-13, max_steps=200)
    assert result.success
    np.testing.assert_allclose(result.cost, expected.cost, rtol=1e-8)
    np.testing.assert_array_equal(np.concatenate([np.ravel(part) for part in result.x])[~free], start[~free])


def _placed(free, part):
    vector = np.zeros(len(free))
    vector[free] = part
    return vector


@pytest.mark.by_day(None)
@pytest.mark.parametrize("near", [False, True])
def test_steps_are_as_exact_as_the_gradient_is_small(near):
    network, tolerance = Network(), 0.3
    if near:  # a minimum with residuals left
        least_squares(network, network.variables)
        network.b.assign_add([1e-4, 0.0, 0.0])
    residual, jacobian = rows_of_jacobian(network, network.variables)
    gradient, gram = jacobian.T @ residual, jacobian.T @ jacobian
    damping = 1e-2 * np.diag(gram).max()
    loss = lambda: tf.reduce_sum(network() ** 2) / 2  # noqa: E731
    solver = ConjugateGradientSolver(tolerance, 1000, "diagonal")
    step, _ = first_step(loss, network.variables, solver=solver, scaling="identity")
    norm = lambda vector: np.sqrt(np.sum(vector**2 / (np.diag(gram) + damping)))  # noqa: E731
    left = norm(gradient + gram @ step + damping * step) / norm(gradient)
    allowed = min(tolerance, norm(gradient) / np.linalg.norm(residual))
    assert allowed < 0.01 if near else allowed == tolerance
    assert 1e-3 * allowed < left <= allowed


def test_bad_options():
    with pytest.raises(ValueError, match=r"'diagonal'. Did you mean 'kronecker'. Received: preconditioner='kroneker'"):
        ConjugateGradientSolver(preconditioner="kroneker")
    with pytest.raises(ValueError, match=r"tolerance must be a number between 0 and 1. Received: tolerance=2"):
        ConjugateGradientSolver(tolerance=2)
    options = {"tolerance": 0.1, "max_iterations": 7, "preconditioner": "diagonal"}
    assert ConjugateGradientSolver.from_config(options).get_config() == options
