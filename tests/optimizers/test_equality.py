"""Linear equations between parameters: the same problem with parameters eliminated by hand, through SciPy."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from tfjac.optimizers import LeastSquaresProblem, Status, least_squares

T = np.linspace(0, 4, 30)
Y = 3.0 * np.exp(-0.7 * T) + 0.2 * np.exp(-2.0 * T) + 0.02 * np.cos(37 * T)
START = np.array([2.5, 0.5, 1.0, 2.0])
TIGHT = {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}
MATRIX, TARGET = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 300.0, 0.0, -100.0]]), np.array([3.3, 0.0])


def residuals(x):
    return x[0] * tf.exp(-x[1] * T) + x[2] * tf.exp(-x[3] * T) - Y


def whole(y):
    """All parameters from the two that are left: x₀ + x₂ = 3.3, 3x₁ = x₃."""
    return np.array([y[0], y[1], 3.3 - y[0], 3 * y[1]])


def minimum(prior=lambda x: []):
    reduced = lambda y: np.concatenate([residuals(whole(y)).numpy(), prior(whole(y))])  # noqa: E731
    return scipy.optimize.least_squares(reduced, [2.5, 0.5], "3-point", ftol=1e-15, xtol=1e-15, gtol=1e-15)


REFERENCE = minimum()
X = tf.Variable(START)


def fit(**options):
    X.assign(START)
    return least_squares(lambda: residuals(X), X, **{"equality": (MATRIX, TARGET), **TIGHT, **options})


SOLVERS = ["qr", "cholesky", "kernel", "lsmr"]  # "svd" takes what "qr" does, and "cg" what "lsmr" does


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_minimum_with_parameters_eliminated(solver):
    """With a prior, which is no diagonal in the plane; every iterate in it, to rounding."""
    seen, mean, deviation = [], np.array([0, 0, 0.5, 0]), np.array([np.inf, np.inf, 0.3, np.inf])
    damping = "trust_region" if solver == "qr" else "nielsen"
    prior, expected = (mean, deviation), minimum(lambda x: [(x[2] - 0.5) / 0.3])
    found = fit(prior=prior, solver=solver, damping=damping, callback=lambda state: seen.append(state.x) and None)
    np.testing.assert_allclose(found.cost, expected.cost, rtol=1e-9)
    np.testing.assert_allclose(found.x, whole(expected.x), rtol=1e-5)
    assert np.abs(np.array(seen) @ MATRIX.T - TARGET).max() < 1e-12
    assert found.gradient_norm < 1e-5 and found.steps < 60


@pytest.mark.by_day(None)
def test_errors_are_those_of_the_parameters_left():
    found = fit()
    np.testing.assert_allclose(found.x, whole(REFERENCE.x), rtol=1e-6)
    derivative = np.array([[1, 0], [0, 1], [-1, 0], [0, 3]])
    inner = np.linalg.inv(REFERENCE.jac.T @ REFERENCE.jac) * 2 * REFERENCE.cost / 28
    np.testing.assert_allclose(found.covariance(), derivative @ inner @ derivative.T, rtol=1e-4, atol=1e-12)
    assert found.rank == 2 and found.degrees_of_freedom == 28 and not found.undetermined.any()


@pytest.mark.by_day(None)
def test_a_function_of_some_variables_with_one_fixed_and_resumed(tmp_path):
    sizes, rates = tf.Variable(START[::2]), tf.Variable(START[1::2])
    function = lambda: residuals([sizes[0], rates[0], sizes[1], rates[1]])  # noqa: E731
    equality = lambda sizes, rates: tf.reduce_sum(sizes) - 3.3  # noqa: E731
    options = {"equality": equality, "fixed": [None, [False, True]], "checkpoint": tmp_path / "run", **TIGHT}
    least_squares(function, [sizes, rates], 3, **options)
    found = least_squares(function, [sizes, rates], **options)
    eliminated = lambda y: residuals([y[0], y[1], 3.3 - y[0], 2.0]).numpy()  # noqa: E731
    expected = scipy.optimize.least_squares(eliminated, [2.5, 0.5], "3-point", xtol=1e-15, ftol=1e-15, gtol=1e-15)
    np.testing.assert_allclose(
        [*found.x[0], *found.x[1]], [*expected.x[:1], 3.3 - expected.x[0], expected.x[1], 2.0], rtol=1e-6
    )
    sizes.assign(START[::2])
    rates.assign(START[1::2])
    straight = least_squares(function, [sizes, rates], **{**options, "checkpoint": None})
    assert straight.steps == found.steps > 3
    assert [each.tobytes() for each in straight.x] == [each.tobytes() for each in found.x]


@pytest.mark.by_day(None)
def test_in_a_graph_with_derivatives_and_contradictions():
    @tf.function
    def run(y, start):
        X.assign(start)
        residual = lambda y: residuals(X) + Y - y  # noqa: E731
        outcome = least_squares(residual, X, args=(y,), equality=(MATRIX[:1], 3.3), fixed=[True, 0, 0, 0], **TIGHT)
        return outcome, tf.gradients(tf.reduce_sum(outcome.x), y)[0]

    outcome, gradient = run(tf.constant(Y), np.array([3.0, 0.1, 5.0, 2.0]))
    np.testing.assert_allclose(outcome.x.numpy()[[0, 2]], [3.0, 0.3], rtol=1e-14)

    def moved(size):
        shifted = lambda v: residuals([3.0, v[0], 0.3, v[1]]).numpy() - size * (np.arange(30) == 7)  # noqa: E731
        return scipy.optimize.least_squares(shifted, [0.7, 2.0], "3-point", ftol=1e-15, xtol=1e-15, gtol=1e-15).x.sum()

    np.testing.assert_allclose(gradient[7], (moved(1e-4) - moved(-1e-4)) / 2e-4, rtol=1e-3)

    x = tf.Variable([1.0, 2.0])
    free = tf.function(lambda equality: least_squares(lambda: x - tf.constant([3.0, 1.0]), x, equality=equality).x)
    np.testing.assert_allclose(free(([1, 1], 3)), [2.5, 0.5], rtol=1e-6)
    x.assign([1.0, 2.0])
    np.testing.assert_allclose(free(lambda: tf.reduce_sum(x) - 3.0), [2.5, 0.5], rtol=1e-6)
    x.assign([1.0, 2.0])
    held = tf.function(lambda: least_squares(lambda: x - 3.0, x, equality=([1, 1], 4), fixed=True))
    assert int(held().status) == Status.INFEASIBLE and (x.numpy() == [1, 2]).all()
    with pytest.raises(ValueError, match=r"contradict.*Received: 1 equations"):
        least_squares(lambda: x - 3.0, x, equality=([1, 1], 4), fixed=True)
    assert least_squares(lambda: x - 3.0, x, equality=([[1, 1], [2, 2]], [4, 8])).x.sum() == 4


def test_bad_equations():
    x = tf.Variable([1.0, 2.0], dtype=tf.float64)
    cases = {
        r"a pair \(A, b\).*Received: equality=3": {"equality": 3},
        r"each of the 2 parameters.*Received: A of shape \(3,\), b of shape \(\)": {"equality": ([1, 1, 1], 0)},
        "must be finite": {"equality": ([1, np.nan], 0)},
        r"contradict.*Received: 2 equations, 1 of them": {"equality": ([[1, 1], [1, 1]], [1, 2])},
        r"linear.*element 1 is not": {"equality": lambda x: tf.stack([x[0] + x[1], x[0] * x[1]])},
        r"do not go together.*Received: bounds=\(0, None\)": {"equality": ([1, 1], 3), "bounds": (0, None)},
    }
    for message, options in cases.items():
        with pytest.raises((ValueError, TypeError), match=message):
            LeastSquaresProblem(lambda: x - 3.0, x, **options)


@pytest.mark.by_day(None)
def test_a_function_may_take_gradients_itself():
    """A tape within it sees what it computes: x₀ + 2x₁ = 5, the gradient of (x₀ + 2x₁)²/2."""

    def gap(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            square = tf.square(x[0] + 2 * x[1]) / 2
        return tape.gradient(square, x)[0] - 5.0

    x = tf.Variable([0.0, 0.0], dtype=tf.float64)
    found = least_squares(lambda x: x - [1.0, 1.0], x, equality=gap)
    np.testing.assert_allclose(found.x, [1.4, 1.8], rtol=1e-9)


@pytest.mark.by_day(None)
def test_optimality_leaves_out_what_equations_hold():
    """Of x − (1, 2, 4) with x₀ + x₁ + x₂ = 1 and x₂ held by a bound: the plane x₀ + x₁ = 1 − x₂ is what is left."""
    x = tf.Variable([0.0, 0.0, 1.0], dtype=tf.float64)
    found = least_squares(lambda: x - [1.0, 2.0, 4.0], x, equality=([[1.0, 1.0, 1.0]], [1.0]))
    np.testing.assert_allclose(found.x, [-1.0, 0.0, 2.0], atol=1e-9)
    np.testing.assert_allclose(found.grad, 0, atol=1e-9)
    x.assign([0.5, -0.5, 1.0])
    held = least_squares(
        lambda: x - [1.0, 2.0, 4.0], x, equality=([[1.0, 1.0, 1.0]], [1.0]), fixed=[False, False, True]
    )
    np.testing.assert_allclose(held.x, [-0.5, 0.5, 1.0], atol=1e-9)
    assert held.optimality < 1e-9 and abs(held.grad[2]) == 3.0
