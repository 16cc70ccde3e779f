"""Every solver against the dense normal equations in NumPy, with and without a prior, for both shapes of J."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tfjac.linear.solvers.problem_sizes import LayerSizes, ProblemSizes
from tfjac.objective.residuals import objective_of_loss
from tfjac.optimizers import (
    AutoSolver,
    CholeskySolver,
    ConjugateGradientSolver,
    KernelSolver,
    LeastSquaresProblem,
    LevenbergMarquardt,
    LSMRSolver,
    NielsenDamping,
    QRSolver,
    SVDSolver,
)

EXACT = [CholeskySolver(), KernelSolver(), QRSolver(), SVDSolver()]
DAMPINGS = [1e-6, 0.1]
ITERATIVE = [ConjugateGradientSolver(1e-12, 500, kind) for kind in ("kronecker", "block_diagonal", "diagonal")]
ITERATIVE.append(LSMRSolver(1e-12, 500))
SOLVERS = [*EXACT, *ITERATIVE]


def label(solver):
    return "-".join([solver.name, *filter(None, [getattr(solver, "preconditioner", None)])])


class Linear:
    """loss = ½‖x·A·B − y‖² / 3 + ½ Σ_v Λ_v‖v‖², with the Jacobian of r written out."""

    def __init__(self, examples, prior, elementwise=False):
        rng = np.random.default_rng(examples)
        self.x, self.y = rng.normal(size=(examples, 4)), rng.normal(size=(examples, 2))
        self.a, self.b = (tf.Variable(rng.normal(size=size)) for size in ((4, 3), (3, 2)))
        self.prior, self.elementwise = np.array(prior, float), elementwise

    def loss(self):
        error = tf.matmul(tf.matmul(tf.constant(self.x), self.a), self.b) - self.y
        loss = tf.reduce_sum(tf.square(error)) / 6
        for value, variable in zip(self.prior, (self.a, self.b)):
            if value:
                mask = tf.range(1.0, 1.0 + variable.shape[1], dtype=tf.float64) if self.elementwise else None
                term = variable if mask is None else variable * tf.broadcast_to(mask, variable.shape)
                loss += value / 2 * tf.reduce_sum(tf.square(term))
        return loss

    def reference(self):
        """r, J, Λ `[p]` and w, by hand."""
        a, b = self.a.numpy(), self.b.numpy()
        residual = (self.x @ a @ b - self.y).ravel() / np.sqrt(3)
        to_a = np.einsum("ni,om->nmio", self.x, b).reshape(len(residual), -1)
        to_b = np.einsum("no,mq->nmoq", self.x @ a, np.eye(2)).reshape(len(residual), -1)
        masks = [
            np.broadcast_to(np.arange(1.0, 1 + v.shape[1]) ** 2 if self.elementwise else 1.0, v.shape) for v in (a, b)
        ]
        prior = np.concatenate([value * mask.ravel() for value, mask in zip(self.prior, masks)])
        return (
            residual,
            np.concatenate([to_a, to_b], axis=1) / np.sqrt(3),
            prior,
            np.concatenate([a.ravel(), b.ravel()]),
        )

    def solve(self, solver, dampings, scaling, other=None, jit_compile=False):
        """Return diag(JᵀJ), the D that was used, and for each λ: p, whether it was solved, pᵀ(JᵀJ+Λ)p; and, with other
        residuals, p and whether it was solved for them, at the last λ."""

        @tf.function(jit_compile=jit_compile, autograph=False)
        def run():
            system = solver.prepare(objective_of_loss(self.loss(), [self.a, self.b]).linearise())
            scale = tf.constant(scaling)
            solve = system.solver(scale)
            steps = [solve(tf.constant(damping, tf.float64)) for damping in dampings]
            quadratics = [(p, solved, system.quadratic(p)) for p, solved in steps]
            other_step = [] if other is None else solve(tf.constant(dampings[-1], tf.float64), tf.constant(other))
            return system.diagonal, scale, quadratics, other_step

        return tf.nest.map_structure(lambda tensor: tensor.numpy(), run())


@pytest.mark.core
@pytest.mark.parametrize("solver", SOLVERS, ids=label)
@pytest.mark.parametrize(("examples", "prior"), [(5, (0.3, 0)), (40, (0, 0))])
def test_step_of_the_normal_equations(solver, examples, prior):
    """−(JᵀJ + λD + Λ)⁻¹(Jᵀr + Λw); and −(…)⁻¹Jᵀu for other residuals u, where the prior is in the matrix alone."""
    problem = Linear(examples, prior)
    residual, jacobian, precision, w = problem.reference()
    scaling, other = np.random.default_rng(1).uniform(0.5, 2, 18), np.random.default_rng(2).normal(size=len(residual))
    diagonal, scale, steps, other_step = problem.solve(solver, DAMPINGS, scaling, other)
    np.testing.assert_allclose(scale, scaling)
    np.testing.assert_allclose(diagonal, (jacobian**2).sum(axis=0), rtol=1e-10)
    hessian = jacobian.T @ jacobian + np.diag(precision)
    for damping, (p, solved, quadratic) in zip(DAMPINGS, steps):
        expected = np.linalg.solve(hessian + damping * np.diag(scale), -(jacobian.T @ residual + precision * w))
        assert solved
        tolerance = 1e-4 if damping < 1e-3 else 1e-8
        np.testing.assert_allclose(p, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())
        np.testing.assert_allclose(quadratic, p @ hessian @ p, rtol=1e-7)
    expected = np.linalg.solve(hessian + DAMPINGS[-1] * np.diag(scale), -jacobian.T @ other)
    assert other_step[1]
    np.testing.assert_allclose(other_step[0], expected, rtol=1e-7, atol=1e-9)


@pytest.mark.by_day(one_in=6)
@pytest.mark.parametrize("solver", [*EXACT, ITERATIVE[0], ITERATIVE[-1]], ids=label)
def test_prior_on_both_variables_compiled_by_xla(solver):
    """One that differs within a variable, where the solver takes it; XLA, where it keeps the solver's digits."""
    problem = Linear(5, (0.3, 0.7), elementwise=solver.name != "kernel")
    residual, jacobian, precision, w = problem.reference()
    p, solved, _ = problem.solve(solver, [0.1], np.ones(18), jit_compile=solver.name != "svd")[2][0]
    hessian = jacobian.T @ jacobian + np.diag(precision)
    expected = np.linalg.solve(hessian + 0.1 * np.eye(18), -(jacobian.T @ residual + precision * w))
    assert solved
    np.testing.assert_allclose(p, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.core
def test_svd_is_refused_where_xla_would_lose_its_digits():
    with pytest.raises(ValueError, match=r"use solver='qr', or leave jit_compile off. Received: jit_compile=True"):
        Linear(5, (0, 0)).solve(SVDSolver(), [0.1], np.ones(18), jit_compile=True)


def test_kernel_refuses_a_prior_that_differs_within_a_variable():
    with pytest.raises(ValueError, match=r"weigh all elements of a variable alike"):
        Linear(5, (0.3, 0.7), elementwise=True).solve(KernelSolver(), [0.1], np.ones(18))


@pytest.mark.core
@pytest.mark.parametrize("solver", EXACT, ids=lambda solver: solver.name)
def test_failure_is_a_flag_and_zeros(solver):
    problem = Linear(5, (0, 0))
    problem.x[2, 1] = np.nan
    p, solved, _ = problem.solve(solver, [0.1], np.ones(18))[2][0]
    assert not solved and (p == 0).all()


@pytest.mark.by_day(None)
def test_a_singular_system_is_solved_in_what_the_jacobian_sees():
    """x·A·B has nine directions that J does not see; in JᵀJ they are rounding, of either sign, in place of zero."""
    for examples in range(30, 36):
        problem = Linear(examples, (0, 0))
        residual, jacobian, _, _ = problem.reference()
        p, solved, _ = problem.solve(CholeskySolver(), [1e-30], np.ones(18))[2][0]
        expected = np.linalg.lstsq(jacobian, -residual, rcond=1e-10)[0]
        assert solved
        np.testing.assert_allclose(jacobian @ p, jacobian @ expected, atol=1e-9)


CHOICES = {
    "float64 and tall: factor J": (40, tf.float64, AutoSolver(), "qr"),
    "more residuals than parameters": (40, tf.float32, AutoSolver(), "cholesky"),
    "open batch, few parameters": (None, tf.float32, AutoSolver(), "cholesky"),
    "more parameters": (5, tf.float32, AutoSolver(), "kernel"),
    "open batch": (None, tf.float32, AutoSolver(), "kernel or cholesky"),
    "open batch, JᵀJ over the budget": (None, tf.float32, AutoSolver(memory_budget=1e6), "kernel or cg"),
    "nothing fits": (500, tf.float32, AutoSolver(memory_budget=1e3), "cg"),
}


@pytest.mark.core
@pytest.mark.parametrize("case", CHOICES)
def test_what_auto_chooses(case):
    examples, dtype, solver, expected = CHOICES[case]
    few = expected in ("qr", "cholesky")
    weight = tf.Variable(tf.ones([3 if few else 600, 1], dtype))

    chosen = []

    @tf.function(input_signature=[tf.TensorSpec([examples, weight.shape[0]], dtype)], autograph=False)
    def trace(x):
        problem = objective_of_loss(tf.reduce_sum(tf.square(tf.matmul(x, weight))), [weight])
        chosen.extend(solver.choose(ProblemSizes.of(problem.linearise())).solvers)

    trace.get_concrete_function()
    assert " or ".join(each.name for each in chosen) == expected
    assert {each.name for each in chosen} <= set(solver.names)


def network_sizes(examples, outputs, *widths, is_double=False, prior=True):
    """A float32 network of dense layers of these widths, biases left out."""
    layers = [LayerSizes(examples, outputs, 1, 1, i, o) for i, o in itertools.pairwise(widths)]
    rows, parameters = examples and examples * outputs, sum(layer.i * layer.o for layer in layers)
    return ProblemSizes(rows, parameters, (tuple(layers),), 8 if is_double else 4, prior, is_double)


LARGE_ONES = {
    "many residuals, many weights": (network_sizes(2000, 10, 20, 128, 128, 10), "cg"),
    "a factorisation takes some hundredths of a second": (network_sizes(500, 10, 20, 40, 40, 10), "cholesky"),
    "a factorisation takes a second": (network_sizes(500, 10, 64, 64, 64, 64, 10), "cg"),
    "few residuals": (network_sizes(100, 10, 784, 1024, 1024, 10), "kernel"),
    "few weights": (network_sizes(100_000, 10, 20, 32, 32, 10), "cholesky"),
    "a prior that the kernel does not take": (network_sizes(100, 10, 784, 1024, 1024, 10, prior=False), "cg"),
    "open": (network_sizes(None, 10, 20, 128, 128, 10), "kernel or cholesky or cg"),
    "open and vast": (network_sizes(None, 10, 784, 1024, 1024, 10)._replace(budget=2.0**33), "kernel or cg"),
}


@pytest.mark.core
@pytest.mark.parametrize("case", LARGE_ONES)
def test_what_auto_chooses_for_networks(case):
    sizes, expected = LARGE_ONES[case]
    assert " or ".join(solver.name for solver in AutoSolver().choose(sizes).solvers) == expected


@pytest.mark.parametrize(("examples", "expected"), [(100, "kernel"), (760, "cg"), (10**5, "cholesky")])
def test_the_same_choice_once_the_batch_is_known(examples, expected):
    fixed = AutoSolver().choose(network_sizes(examples, 10, 20, 60, 60, 10))
    solvers, index = AutoSolver().choose(network_sizes(None, 10, 20, 60, 60, 10))
    assert solvers[int(index(tf.constant(10.0 * examples, tf.float64)))].name == fixed.solvers[0].name == expected


@pytest.mark.by_day(None)
@pytest.mark.parametrize(("examples", "expected"), [(20, "kernel"), (700, "cholesky")])
def test_auto_decides_in_the_graph_where_the_batch_is_open(examples, expected):
    rng = np.random.default_rng(0)
    weight = tf.Variable(rng.normal(size=(600, 1)))
    start, x, y = weight.numpy(), rng.normal(size=(examples, 600)), rng.normal(size=(examples, 1))
    optimizer = LevenbergMarquardt(NielsenDamping(1e-3))
    assert optimizer.solver_used is None

    @tf.function(input_signature=[tf.TensorSpec([None, 600], tf.float64)])
    def run(x):
        return optimizer.minimize(lambda: tf.matmul(x, weight) - y, [weight]).damping

    system = x.T @ x + run(x).numpy() * np.eye(600)
    np.testing.assert_allclose(weight - start, -np.linalg.solve(system, x.T @ (x @ start - y)), rtol=1e-6, atol=1e-8)
    assert optimizer.solver_used == expected


@pytest.mark.by_day(None)
def test_the_kernel_of_dependent_columns_ends_where_misfit_is_large(rng):
    """Residuals that no step reaches are as large as 1/λ in its weights: linear problems stalled.

    By QR it takes two or three steps. What is rounded in J Jᵀ, of which the condition is beyond 1e12, costs more of
    them, in each problem another number: two to nine in a dozen tried, and five to 22 where no step is refined.
    """
    x = tf.Variable(tf.zeros([10], tf.float64))
    problem = LeastSquaresProblem(lambda a, b: tf.linalg.matvec(a, x) - b, x, solver="kernel")
    steps = []
    for size in 4 * (1e-3, 1.0, 1e3):
        matrix = rng.normal(size=(50, 5)) @ rng.normal(size=(5, 10)) * 10.0 ** rng.uniform(-3, 3, 10)
        target = size * rng.normal(size=50)
        x.assign(rng.normal(size=10))
        found = problem.solve(matrix, target)
        left = matrix @ np.linalg.lstsq(matrix / 10, target / 10, rcond=1e-12)[0] - target
        assert found.success
        np.testing.assert_allclose(found.cost, left @ left / 2, rtol=1e-7)
        steps.append(found.steps)
    assert np.mean(steps) <= 9
