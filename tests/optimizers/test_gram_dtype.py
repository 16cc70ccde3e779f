"""The linear system in float64 for variables in float32, against NumPy in float64 where float32 loses all digits."""

import numpy as np
import pytest
import tensorflow as tf

from tests.optimizers.gauss_newton import first_step
from tfjac.optimizers import LevenbergMarquardt, least_squares

RNG = np.random.default_rng(0)
SPREAD = np.logspace(0, -3.5, 6)
X = (np.linalg.qr(RNG.normal(size=(40, 6)))[0] * SPREAD @ np.linalg.qr(RNG.normal(size=(6, 6)))[0]).astype("float32")
Y = (X @ RNG.normal(size=6) + RNG.normal(size=40)).astype("float32")


def error_of_step(solver, gram_dtype, jit_compile=False):
    """How far the first step of a linear problem, of which J is X, is from the exact one, relatively."""
    w = tf.Variable(tf.zeros([6]))
    loss = lambda: tf.reduce_sum(tf.square(tf.linalg.matvec(X, w) - Y)) / 2  # noqa: E731
    step, _ = first_step(loss, [w], 1e-9, solver, jit_compile, gram_dtype=gram_dtype, min_gain=1e-9)
    gram = X.T.astype(float) @ X
    expected = np.linalg.solve(gram + 1e-9 * np.diag(gram).max() * np.eye(6), X.T.astype(float) @ Y)
    return np.linalg.norm(step - expected) / np.linalg.norm(expected)


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize(
    ("solver", "jit_compile"), [("cholesky", False), ("cholesky", True), ("kernel", False), ("auto", False)]
)
def test_step_keeps_its_digits(solver, jit_compile):
    assert error_of_step(solver, "float64", jit_compile) < 1e-5


def test_in_float32_they_are_lost():
    assert error_of_step("cholesky", None) > 1e-2


@pytest.mark.parametrize("solver", ["auto", "qr", "cholesky"])
@pytest.mark.parametrize("options", [{}, {"bounds": (-1.0, 1.0)}, {"prior": (0.0, 2.0)}], ids=str)
def test_small_fits_in_single_precision(options, solver):
    w, double = tf.Variable(tf.zeros([6])), tf.Variable(np.zeros(6))
    x, y = (tf.cast(each, tf.float64) for each in (X, Y))
    found = least_squares(lambda: tf.linalg.matvec(X, w) - Y, w, gram_dtype="float64", solver=solver, **options)
    expected = least_squares(lambda: tf.linalg.matvec(x, double) - y, double, solver=solver, **options)
    assert found.success and found.x.dtype == np.float32
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-4, atol=1e-4)


@pytest.mark.by_day(None)
def test_with_bounds_regularisers_and_verification():
    w, v = tf.Variable(tf.zeros([6])), tf.Variable(tf.ones([2, 3]))
    optimizer = LevenbergMarquardt(gram_dtype="float64", verify=True, solver="cholesky")
    optimizer.build([w, v])

    @tf.function
    def step():
        loss = tf.reduce_sum(tf.square(tf.linalg.matvec(X, w) - Y)) + 0.1 * tf.reduce_sum(tf.square(v))
        optimizer.apply([None, None] if optimizer.scale_loss(loss) is None else tf.gradients(loss, [w, v]), [w, v])
        return loss

    first = step()
    assert step() < first and optimizer.num_accepted == 2
    w.assign(tf.zeros([6]))
    result = least_squares(lambda: tf.linalg.matvec(X, w) - Y, w, bounds=(-1.0, 1.0), gram_dtype="float64")
    assert result.success and result.x.dtype == np.float32 and np.abs(result.x).max() == 1


def test_options():
    with pytest.raises(ValueError, match=r"gram_dtype must be None.*or 'float64'. Received: gram_dtype='float16'"):
        LevenbergMarquardt(gram_dtype="float16")
    with pytest.raises(ValueError, match=r"Received: gram_dtype=32"):
        least_squares(lambda: tf.zeros([1]), tf.Variable([1.0]), gram_dtype=32)
    config = LevenbergMarquardt(gram_dtype=tf.float64).get_config()
    assert LevenbergMarquardt.from_config(config).get_config() == config and config["gram_dtype"] == "float64"
