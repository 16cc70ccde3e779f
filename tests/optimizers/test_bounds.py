"""Bounds: every iterate within them, and SciPy's active sets and costs, by every solver."""

import functools

import keras
import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from tfjac.optimizers import LeastSquaresProblem, Status, least_squares

T = np.linspace(0, 4, 30)
Y = 3.0 * np.exp(-0.7 * T) + 0.2 * np.cos(5 * T)
RNG = np.random.default_rng(0)
MATRIX, TARGET = RNG.normal(size=(20, 12)), RNG.normal(size=20)


def rosenbrock(x):
    return tf.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def decay(x):
    return x[0] * tf.exp(-x[1] * T) + x[2] - Y


def linear(x):
    return tf.linalg.matvec(tf.constant(MATRIX), x) - TARGET


PROBLEMS = {
    "all free": (decay, [1.0, 0.1, 0.0], -np.inf, np.inf),
    "one active": (decay, [1.0, 0.1, 0.3], [-np.inf, 0.0, 0.25], np.inf),
    "two active": (decay, [1.0, 1.0, 0.3], [0.0, 0.9, 0.25], [2.0, 5.0, 1.0]),
    "corner": (rosenbrock, [-2.0, 2.0], [-5.0, 1.5], [0.5, 4.0]),
    "curved valley": (rosenbrock, [-1.2, 1.0], [-2.0, -2.0], [0.8, 3.0]),
    "non-negative least squares": (linear, np.full(12, 0.1), 0.0, np.inf),
    "box": (linear, np.zeros(12), -0.2, 0.2),
}


@functools.cache
def variable(function, size):
    """One for all problems with a function, so that one trace serves whatever the bounds are."""
    return tf.Variable(np.zeros(size))


def scipy_minimum(function, start, lower, upper):
    """SciPy's trf and dogbox, tightly; the one with the lower cost."""
    values = lambda v: function(tf.constant(v)).numpy()  # noqa: E731
    options = {"bounds": (lower, upper), "ftol": 1e-13, "xtol": 1e-13, "gtol": 1e-13}
    inside = np.clip(start, np.add(lower, 1e-3), np.subtract(upper, 1e-3))
    found = [scipy.optimize.least_squares(values, inside, "3-point", method=m, **options) for m in ("trf", "dogbox")]
    return min(found, key=lambda result: result.cost)


@pytest.mark.by_day(one_in=7)
@pytest.mark.parametrize("name", PROBLEMS)
def test_same_minimum_and_active_set_as_scipy(name):
    function, start, lower, upper = PROBLEMS[name]
    reference = scipy_minimum(function, start, lower, upper)
    x, seen = variable(function, len(start)), []
    x.assign(start)
    result = least_squares(
        lambda: function(x), x, bounds=(lower, upper), ftol=1e-13, xtol=1e-13, callback=lambda s: seen.append(s.x)
    )
    assert result.success or result.status is Status.STALLED
    np.testing.assert_allclose(result.cost, reference.cost, rtol=1e-9)
    np.testing.assert_allclose(result.x, reference.x, rtol=1e-5, atol=1e-6)
    close = (np.isclose(reference.x, upper, atol=1e-6)) * 1 - np.isclose(reference.x, lower, atol=1e-6)
    np.testing.assert_array_equal(result.active, close)
    assert all((lower <= each).all() and (each <= upper).all() for each in seen)
    assert len(seen) == result.steps < 60
    np.testing.assert_array_equal(result.x[result.active == 1], np.broadcast_to(upper, x.shape)[result.active == 1])


@pytest.mark.core
@pytest.mark.parametrize("solver, jit_compile", [("cholesky", True), ("qr", False), ("kernel", False), ("cg", False)])
def test_every_solver(solver, jit_compile):
    reference = scipy_minimum(linear, np.full(12, 0.1), 0.0, np.inf)
    x = tf.Variable(np.full(12, 0.1))
    result = least_squares(lambda: linear(x), x, bounds=(0, None), solver=solver, jit_compile=jit_compile, ftol=1e-12)
    np.testing.assert_allclose(result.x, reference.x, atol=1e-6)
    assert result.success and ((result.x == 0) == (reference.x < 1e-6)).all()


@pytest.mark.core
def test_dampings_and_float32():
    for damping in ("multiplicative", "trust_region"):
        x = tf.Variable([0.0, 2.0])
        result = least_squares(lambda x=x: rosenbrock(x), x, bounds=([-5.0, 1.5], [0.5, 4.0]), damping=damping)
        np.testing.assert_allclose(result.x, [0.5, 1.5], rtol=1e-4)
        assert result.success, result


@pytest.mark.core
def test_bounds_and_fixed_in_nests():
    """A minimum with a parameter fixed is that of the problem without it."""
    v = {
        "height": keras.Variable(1.0, dtype="float64"),
        "rest": [tf.Variable([0.1, 0.3], dtype=tf.float64), tf.Variable(1.0, dtype=tf.float64)],
    }
    residuals = lambda: v["rest"][1] * v["height"] * tf.exp(-v["rest"][0][0] * T) + v["rest"][0][1] - Y  # noqa: E731
    bounds = ({"height": 0.0, "rest": [[0.0, 0.25], None]}, {"height": 10, "rest": [None, None]})
    result = least_squares(residuals, v, bounds=bounds, fixed={"height": None, "rest": [False, True]}, ftol=1e-13)
    function, start, lower, upper = PROBLEMS["one active"]
    reference = scipy_minimum(function, start, lower, upper)
    found = [result.x["height"], *result.x["rest"][0]]
    np.testing.assert_allclose(found, reference.x, rtol=1e-6)
    assert result.x["rest"][1] == 1.0 and result.active["rest"][1] == 1

    falling = np.exp(-reference.x[1] * T)
    jacobian = np.stack([falling, -reference.x[0] * T * falling], axis=1)
    covariance = 2 * reference.cost / 28 * np.linalg.inv(jacobian.T @ jacobian)
    errors = result.standard_errors()
    free = [errors["height"], errors["rest"][0][0]]
    np.testing.assert_allclose(free, np.sqrt(np.diag(covariance)), rtol=1e-5)
    assert errors["rest"][0][1] == errors["rest"][1] == 0
    assert "at its lower bound" in result.summary() and "fixed" in result.summary()


@pytest.mark.by_day(None)
def test_called_again_with_other_bounds_and_starts():
    x = tf.Variable([0.0, 2.0], dtype=tf.float64)
    for limit in (0.5, 0.8):
        x.assign([0.0, 2.0])
        np.testing.assert_allclose(least_squares(lambda: rosenbrock(x), x, bounds=(None, [limit, 3])).x[0], limit)
    problem = LeastSquaresProblem(lambda: rosenbrock(x), x, bounds=(None, [0.7, 3]))
    for _ in range(2):
        x.assign([0.0, 2.0])
        np.testing.assert_allclose(problem.solve().x, [0.7, 0.49], rtol=1e-5)


@pytest.mark.by_day(None)
def test_in_a_graph_with_derivatives():
    """The derivatives of a minimum with a parameter at its bound are those of the problem without it."""
    x = tf.Variable([1.0, 0.1, 0.3], dtype=tf.float64)

    @tf.function
    def fit(y, start):
        x.assign(start)
        residuals = lambda y: x[0] * tf.exp(-x[1] * T) + x[2] - y  # noqa: E731
        outcome = least_squares(residuals, x, args=(y,), bounds=([None, 0.0, 0.25], None), ftol=1e-14, xtol=1e-14)
        return outcome, tf.gradients(tf.reduce_sum(outcome.x), y)[0]

    outcome, gradient = fit(tf.constant(Y), [1.0, 0.1, 0.3])

    def moved(k, size=1e-4):
        data = Y + size * (np.arange(30) == k)
        problem = lambda v: v[0] * np.exp(-v[1] * T) + 0.25 - data  # noqa: E731
        return scipy.optimize.least_squares(problem, outcome.x.numpy()[:2], ftol=1e-15, xtol=1e-15, gtol=1e-15).x.sum()

    expected = [(moved(k) - moved(k, -1e-4)) / 2e-4 for k in (0, 7, 20)]
    np.testing.assert_allclose(gradient.numpy()[[0, 7, 20]], expected, rtol=2e-3)
    outcome, _ = fit(tf.constant(Y), [1.0, 0.1, 0.0])
    assert int(outcome.status) == Status.INFEASIBLE
    np.testing.assert_array_equal(outcome.x, [1.0, 0.1, 0.0])


def test_everything_fixed_or_at_a_bound():
    x = tf.Variable([1.0, 2.0], dtype=tf.float64)
    result = least_squares(lambda: rosenbrock(x), x, fixed=True)
    assert result.status is Status.GRADIENT_TOLERANCE and (result.x == [1.0, 2.0]).all()
    np.testing.assert_allclose(result.cost, 50.0)


@pytest.mark.core
def test_bad_bounds():
    x = tf.Variable([1.0, 2.0], name="x")
    with pytest.raises(ValueError, match=r"must start within.*Received: x:0\[1\] = 2.0, bounds -inf and 1.5"):
        least_squares(lambda: rosenbrock(x), x, bounds=(None, 1.5))
    with pytest.raises(ValueError, match=r"must not be above.*Received: bounds 3.0 and 2.0 for x:0\[0\]"):
        least_squares(lambda: rosenbrock(x), x, bounds=(3, 2))
    with pytest.raises(ValueError, match=r"pair \(lower, upper\).*Received: bounds=3"):
        least_squares(lambda: rosenbrock(x), x, bounds=3)
    with pytest.raises(
        ValueError, match=r"one for each of its elements. Received: \[0, 0, 0\] for x:0 of shape \(2,\)"
    ):
        least_squares(lambda: rosenbrock(x), x, bounds=([0, 0, 0], None))
    with pytest.raises(ValueError, match=r"must not be NaN"):
        least_squares(lambda: rosenbrock(x), x, bounds=(np.nan, None))
    with pytest.raises(ValueError, match=r"structure of the variables"):
        least_squares(lambda: rosenbrock(x), [x], bounds=({"x": 0}, None))
    np.testing.assert_array_equal(x.numpy(), [1.0, 2.0])


@pytest.mark.parametrize(
    "options",
    [{"bounds": ([0.0], 5.0)}, {"prior": ([0.0], 1.0)}, {"fixed": [True]}, {"bounds": (0.0, np.array([2.0]))}],
)
def test_an_array_of_one_element_is_no_number_for_all(options):
    x = tf.Variable(np.ones(3))
    with pytest.raises(ValueError, match=r"one number for a variable, or one for each of its elements"):
        least_squares(lambda: x - 2.0, x, **options)


@pytest.mark.parametrize("rows", [1, 4])
def test_a_column_is_for_whole_rows(rows):
    """A mask with an axis of one is as NumPy broadcasts it, of a single row too."""
    x, held = tf.Variable(np.ones([rows, 2])), np.zeros([rows, 1], bool)
    held[0] = True
    result = least_squares(lambda: x - 2.0, x, fixed=held)
    np.testing.assert_allclose(result.x, np.where(held, [1.0, 1.0], [2.0, 2.0]))
