"""The ways in which people hand over residuals and data: each to the minimum that NumPy finds."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac.optimizers import LeastSquaresProblem, LevenbergMarquardt, least_squares

RNG = np.random.default_rng(5)
X = np.stack([np.linspace(0, 1, 20), np.ones(20)], axis=1)
Y = X @ [2.0, -1.0] + 0.1 * RNG.normal(size=20)
SLOPE, OFFSET = np.linalg.lstsq(X, Y)[0]


PAIR = [tf.Variable(0.5, dtype=tf.float64), tf.Variable(0.0, dtype=tf.float64)]


def pair():
    """The same two variables, at their start again, so that forms with the same graph share its trace."""
    PAIR[0].assign(0.5)
    PAIR[1].assign(0.0)
    return PAIR


FORMS = {
    "of each variable, as in tensorflow-graphics": (pair, lambda a, b: a * X[:, 0] + b - Y, ()),
    "of their list": (pair, lambda params: params[0] * X[:, 0] + params[1] - Y, ()),
    "of each variable and data": (pair, lambda a, b, x, y: a * x[:, 0] + b - y, (X, Y)),
    "of the one variable": (
        lambda: tf.Variable([0.5, 0.0], dtype=tf.float64), lambda v: tf.linalg.matvec(X, v) - Y, ()
    ),
    "of a dictionary": (
        lambda: dict(zip("ba", pair())), lambda v, y: v["b"] * X[:, 0] + v["a"] - y, (Y,)
    ),
    "a list of callables": (
        pair, [lambda a, b: a * X[:9, 0] + b - Y[:9], lambda a, b: a * X[9:, 0] + b - Y[9:]], ()
    ),
    "a tf.function": (pair, tf.function(lambda a, b: a * X[:, 0] + b - Y), ()),
}  # fmt: skip


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_residuals(form):
    make, residuals, args = FORMS[form]
    found = np.ravel(tf.nest.flatten(least_squares(residuals, make(), args=args, ftol=1e-14).x))
    np.testing.assert_allclose(sorted(found), sorted([SLOPE, OFFSET]), rtol=1e-6)


@pytest.mark.by_day(None)
def test_one_step_by_the_optimizer_takes_them_too():
    variables = pair()
    optimizer = LevenbergMarquardt()
    for _ in range(8):
        optimizer.minimize(lambda a, b, y: a * X[:, 0] + b - y, variables, args=(Y,))
    np.testing.assert_allclose([v.numpy() for v in variables], [SLOPE, OFFSET], rtol=1e-5)


def test_a_function_of_other_arguments_is_refused():
    with pytest.raises(TypeError, match=r"residuals is called with what args holds.*args of 1"):
        least_squares(lambda a, b, c, d: a, pair(), args=(Y,))


@pytest.mark.by_day(None)
def test_new_batches_need_no_new_trace():
    """A loop over batches written by hand: Python runs the function once for a shape, whoever calls."""
    calls, variables = [], pair()

    def residuals(x, y):
        calls.append(x.shape)
        return variables[0] * x[:, 0] + variables[1] - y

    problem = LeastSquaresProblem(residuals, variables)
    for start in range(0, 20, 5):
        batch = slice(start, start + 5)
        found = problem.solve(X[batch], Y[batch])
        np.testing.assert_allclose(found.x, np.linalg.lstsq(X[batch], Y[batch])[0], rtol=1e-4)
    assert len(calls) == 1
    for start in range(0, 20, 5):
        batch = slice(start, start + 5)
        found = least_squares(residuals, variables, args=(X[batch], Y[batch]))
        np.testing.assert_allclose(found.x, np.linalg.lstsq(X[batch], Y[batch])[0], rtol=1e-4)
    assert len(calls) == 5, "there, it is called once in each call, for a graph that is the same one"


def test_a_data_set_of_batches():
    line = tf.Variable([0.5, 0.0], dtype=tf.float64)
    for x, y in tf.data.Dataset.from_tensor_slices((X, Y)).batch(20).repeat(2):
        found = tfjac.least_squares(lambda line, x, y: tf.linalg.matvec(x, line) - y, line, args=(x, y))
    np.testing.assert_allclose(found.x, [SLOPE, OFFSET], rtol=1e-5)
