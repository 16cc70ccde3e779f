"""Inside a user's `tf.function`: least_squares as an op of the graph, and residuals with control flow of Python's."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from tfjac.optimizers import LevenbergMarquardt, NielsenDamping, Outcome, Status, least_squares

T = np.linspace(0, 4, 30)
Y = 3.0 * np.exp(-0.7 * T) + 0.2 * np.cos(5 * T)
EXPECTED = scipy.optimize.least_squares(lambda b: b[0] * np.exp(-b[1] * T) - Y, [1.0, 0.1], xtol=1e-12)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_least_squares_is_an_op_of_the_graph(jit_compile):
    """Data come in as arguments, the outcome goes out as it is, and the variables are where it says."""
    x, traces = {"size": tf.Variable(1.0, dtype=tf.float64), "rate": tf.Variable([0.1], dtype=tf.float64)}, []

    @tf.function(jit_compile=jit_compile)
    def fit(factor):
        outcome = least_squares(lambda: x["size"] * tf.exp(-x["rate"] * T) - factor * Y, x, xtol=1e-10)
        traces.append(1)
        return outcome, 2.0 * x["size"], outcome.success

    for factor in (1.0, 10.0):
        x["size"].assign(1.0)
        x["rate"].assign([0.1])
        outcome, doubled, success = fit(tf.constant(factor, tf.float64))
        assert isinstance(outcome, Outcome) and Status(int(outcome.status)).converged and success
        np.testing.assert_allclose(x["size"].numpy(), factor * EXPECTED.x[0], rtol=1e-5)
        np.testing.assert_allclose(x["rate"].numpy(), EXPECTED.x[1:], rtol=1e-5)
        np.testing.assert_array_equal([outcome.x["size"], doubled / 2], [x["size"].numpy()] * 2)
        np.testing.assert_array_equal(outcome.x["rate"], x["rate"].numpy())
        np.testing.assert_allclose(outcome.cost, factor**2 * EXPECTED.cost, rtol=1e-9)
        residuals = x["size"].numpy() * np.exp(-x["rate"].numpy() * T) - factor * Y
        slope = -x["size"].numpy() * T * np.exp(-x["rate"].numpy() * T)
        gradient = np.abs([residuals @ np.exp(-x["rate"].numpy() * T), residuals @ slope]).max()
        np.testing.assert_allclose(outcome.gradient_norm, gradient, rtol=1e-3, atol=1e-12)
    assert len(traces) == 1


@pytest.mark.by_day(None)
def test_the_same_as_eagerly_whatever_the_end():
    def residuals():
        return tf.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])

    x, start = tf.Variable([0.0, 0.0], dtype=tf.float64), np.array([-1.2, 1.0])
    for options in ({"max_steps": 3}, {"max_attempts": 1, "damping": NielsenDamping(1e-12)}):
        x.assign(start)
        eager = least_squares(residuals, x, **options)
        x.assign(start)
        outcome = tf.function(lambda: least_squares(residuals, x, **options))()  # noqa: B023
        for name in ("cost", "gradient_norm", "status", "steps", "evaluations", "jacobians", "damping"):
            np.testing.assert_allclose(getattr(outcome, name), getattr(eager, name), rtol=1e-9, err_msg=name)
        np.testing.assert_allclose(outcome.x, eager.x)
        assert bool(outcome.success) is eager.success


def model(b):
    """Python's control flow on tensors: AutoGraph must convert it, or TensorFlow refuses the tensor as a bool."""
    total = tf.zeros_like(b)
    for power in tf.range(1, 4):
        total += b ** tf.cast(power, b.dtype)
    if b > 100.0:
        total = 1e9 + b
    return total


@pytest.mark.by_day(None)
@pytest.mark.parametrize("where", ["eager", "jit", "least_squares", "least_squares in a function"])
def test_control_flow_in_residuals(where):
    b = tf.Variable(2.0, dtype=tf.float64)
    optimizer = LevenbergMarquardt(NielsenDamping(1e-6))

    def residuals():
        return model(b) - 3.0

    def train():
        if where.startswith("least_squares"):
            return least_squares(residuals, b).cost
        return optimizer.minimize(residuals, [b]).cost

    if where in ("jit", "least_squares in a function"):
        train = tf.function(train, jit_compile=where == "jit")
    for _ in range(1 if where.startswith("least_squares") else 8):
        train()
    np.testing.assert_allclose(b.numpy(), 1.0, rtol=1e-9)


@tf.function
def loop():
    total = tf.zeros([2], tf.float64)
    for _ in tf.range(3):
        total += loop.b**2
    return total - 27.0


def test_a_function_of_the_users_with_a_loop():
    """One trace of it is differentiated in one place only: TensorFlow rewrites the loop, and that under one name."""
    loop.b = tf.Variable([1.0, 5.0], dtype=tf.float64)
    np.testing.assert_allclose(least_squares(loop, loop.b).x, [3.0, 3.0], rtol=1e-8)
