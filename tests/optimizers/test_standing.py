"""A status holds at the point that is returned, of functions with kinks and noise too, by J from a tape, row by row."""

import numpy as np
import pytest
import tensorflow as tf

from tfjac.optimizers import (
    LeastSquaresProblem,
    Status,
    TrustRegionDamping,
    least_squares,
    least_squares_by_parts,
    normal_equations,
)

from . import more_garbow_hillstrom, nist

EPSILON = np.finfo(np.float64).eps
X = np.arange(1.0, 16.0)
Y = np.r_[np.arange(5.0, 17.0, 2.0), 28.92, 42.81, 56.7, 70.59, 84.47, 98.36, 112.25, 126.14, 140.03][:15]
T = np.linspace(0.0, 4.0, 40)


class Loop(TrustRegionDamping):
    """The default, under another name: the op does not know it."""


def bent(p):
    """Two lines that meet, of which the data are made."""
    return p[1] + p[2] * tf.minimum(X - p[0], 0.0) + p[3] * tf.maximum(X - p[0], 0.0) - Y


def linearised(function, x):
    """J and r, NumPy."""
    x = tf.constant(x)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        rows = tf.unstack(tf.reshape(function(x), [-1]))
    gradients = [tape.gradient(row, x, unconnected_gradients="zero") for row in rows]
    return np.stack([np.asarray(tf.convert_to_tensor(each)) for each in gradients]), np.stack(rows)


def check(result, function, x):
    """No success where a parameter alone could lower the cost by more than √ε of it, but for rounding."""
    jacobian, residual = linearised(function, x)
    cusps = np.isnan(jacobian).any(axis=0)  # as of a root at zero: there the cost itself tells
    for step in np.eye(len(x))[cusps] * 1e-6 if result.success else ():
        assert all(np.linalg.norm(function(x + side)) > np.linalg.norm(residual) for side in (step, -step)), x
    jacobian[:, cusps] = 0
    sizes = np.linalg.norm(jacobian, axis=0)
    products = sizes * np.linalg.norm(residual)
    cosines = np.abs(jacobian.T @ residual) / np.where(products > 0, products, 1)
    rounding = np.linalg.norm(residual) <= 16 * EPSILON * np.linalg.norm(sizes * x)
    if result.success and not rounding:
        limit = np.sqrt(EPSILON) if result.status is Status.GRADIENT_TOLERANCE else np.sqrt(2 * np.sqrt(EPSILON))
        assert cosines.max() <= 1.01 * limit, (result.status, cosines)


FUNCTIONS = {
    "absolute values": (lambda p: tf.stack([tf.abs(p[0] - 1) + 1, p[1] - 2, tf.abs(p[0] + p[1])]), 2),
    "one side": (lambda p: p[0] * tf.nn.relu(T - p[1]) + p[2] - np.maximum(T - 2.2, 0) - np.sin(9 * T) / 9, 3),
    "maximum": (lambda p: tf.maximum(p[0] * T + 1, p[1] * T**2) - np.maximum(T / 2 + 1, T**2) - np.sin(9 * T) / 9, 2),
    "rounded": (lambda p: p[0] * T + tf.math.rint(10 * p[1]) / 10 + p[1] / 100 - T, 2),
    "root": (lambda p: tf.sqrt(tf.abs(p[0] - 1)) * T + p[1] - np.cos(T), 2),
    "stopped gradient": (lambda p: p[0] * tf.stop_gradient(tf.exp(-p[1] * T)) + p[1] * T - np.exp(-T), 2),
    "noise": (lambda p: p[0] * tf.exp(-p[1] * T) - np.exp(-T) + 1e-3 * tf.sin(1e4 * (p[0] + p[1]) + 1e3 * T), 2),
}  # fmt: skip


@pytest.mark.by_day(None)
@pytest.mark.parametrize("damping", [TrustRegionDamping, Loop], ids=["op", "loop"])
def test_two_lines_that_meet(damping):
    parameters, generator = tf.Variable(np.ones(4)), np.random.default_rng(0)
    fit = LeastSquaresProblem(lambda: bent(parameters), parameters, damping=damping())
    found = []
    for start in [np.ones(4), *(np.r_[generator.uniform(1, 15), generator.uniform(-20, 20, 3)] for _ in range(30))]:
        parameters.assign(start)
        found.append(fit.solve())
        check(found[-1], bent, parameters.numpy())
    assert sum(each.success and each.cost < 3.8e-4 for each in found) > 10


@pytest.mark.by_day(one_in=7)
@pytest.mark.parametrize("damping", [TrustRegionDamping, Loop], ids=["op", "loop"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_with_kinks_and_noise(name, damping):
    (function, size), generator = FUNCTIONS[name], np.random.default_rng(3)
    parameters = tf.Variable(np.ones(size))
    fit = LeastSquaresProblem(lambda: function(parameters), parameters, 200, damping=damping())
    for _ in range(5):
        parameters.assign(generator.uniform(-1, 4, size))
        check(fit.solve(), function, parameters.numpy())


@pytest.mark.by_day(one_in=8)
@pytest.mark.parametrize("name", more_garbow_hillstrom.PROBLEMS)
def test_hard_problems(name):
    function, start = more_garbow_hillstrom.PROBLEMS[name][:2]
    parameters = tf.Variable(np.asarray(start, float))
    fit = LeastSquaresProblem(lambda: function(parameters), parameters)
    for times in (1, 10):
        parameters.assign(times * np.asarray(start, float))
        check(fit.solve(), function, parameters.numpy())


@pytest.mark.by_day(one_in=5)
@pytest.mark.parametrize("name", nist.MODELS)
def test_certified_problems(name):
    problem = nist.load(name)
    parameters = tf.Variable(problem.starts[0])
    fit = LeastSquaresProblem(lambda: problem.residuals(parameters), parameters)
    for start in problem.starts:
        parameters.assign(start)
        result = fit.solve()
        assert result.success
        check(result, problem.residuals, parameters.numpy())


@pytest.mark.by_day(None)
def test_many_fits():
    generator = np.random.default_rng(1)
    starts = np.c_[generator.uniform(1, 15, 40), generator.uniform(-20, 20, [40, 3])]
    parameters = tf.Variable(starts)

    def residuals(p):
        p = p[:, :, None]
        return p[:, 1] + p[:, 2] * tf.minimum(X - p[:, 0], 0.0) + p[:, 3] * tf.maximum(X - p[:, 0], 0.0) - Y

    result = least_squares(residuals, parameters, batch_dims=1)
    for status, x in zip(result.status, parameters.numpy()):
        check(Ended(Status(int(status))), bent, x)


@pytest.mark.by_day(None)
def test_sums_by_hand():
    generator = np.random.default_rng(2)
    parameters = tf.Variable(np.ones(4))

    def total(position):
        parameters.assign(position)
        return normal_equations(lambda: bent(parameters), parameters)

    for _ in range(3):
        start = np.r_[generator.uniform(1, 15), generator.uniform(-20, 20, 3)]
        found = least_squares_by_parts(total, start)
        check(Ended(Status(int(found.status))), bent, np.asarray(found.x))


class Ended:
    """A status alone."""

    def __init__(self, status):
        self.status, self.success = status, status.converged
