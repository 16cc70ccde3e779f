"""The step against NumPy, through accepted and rejected steps; and what a step must never do."""

import hypothesis
import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from tfjac.optimizers import LevenbergMarquardt, NielsenDamping, Status

from .oracle import Oracle

T = np.linspace(0, 3, 20)
Y = 2.0 * np.exp(-1.3 * T) + 0.5 + 0.02 * np.sin(40 * T)
START = np.array([8.0, -1.0, 3.0])


def residuals(w):
    return w[0] * np.exp(-w[1] * T) + w[2] - Y


def jacobian(w):
    decay = np.exp(-w[1] * T)
    return np.stack([decay, -w[0] * T * decay, np.ones_like(T)], axis=1)


class Problem:
    """The same residuals on a vector and a scalar variable."""

    def __init__(self, start=START, dtype=tf.float64):
        self.pair = tf.Variable(start[:2], dtype=dtype)
        self.offset = tf.Variable(start[2], dtype=dtype)
        self.variables = [self.pair, self.offset]
        self.t, self.y = tf.constant(T, dtype), tf.constant(Y, dtype)

    def residuals(self):
        return self.pair[0] * tf.exp(-self.pair[1] * self.t) + self.offset - self.y

    @property
    def w(self):
        return np.concatenate([np.ravel(variable.numpy()) for variable in self.variables])


SOLVERS = [
    ("cholesky", "more"), ("cholesky", "marquardt"), ("qr", "marquardt"), ("auto", "more"), ("kernel", "identity"),
]  # fmt: skip


@pytest.mark.core
@pytest.mark.parametrize(("solver", "scaling"), SOLVERS)
def test_equals_numpy_over_accepted_and_rejected_steps(solver, scaling):
    problem = Problem()
    oracle = Oracle(residuals, jacobian, START, np.zeros(3), scaling, initial=1e-6, max_attempts=2)
    optimizer = LevenbergMarquardt(NielsenDamping(1e-6), scaling, solver, max_attempts=2, acceleration=None)
    for _ in range(12):
        oracle.step()
        before = problem.w.tobytes()
        report = optimizer.minimize(problem.residuals, problem.variables)
        accepted, attempts, ratio, damping = oracle.history[-1]
        assert (bool(report.accepted), int(report.attempts)) == (accepted, attempts)
        assert accepted or (optimizer.status is Status.REJECTED and problem.w.tobytes() == before)
        np.testing.assert_allclose(problem.w, oracle.w, rtol=1e-10 if solver == "qr" else 1e-8)
        np.testing.assert_allclose(report.damping, damping, rtol=1e-5)
        np.testing.assert_allclose(optimizer.current_damping, oracle.damping, rtol=1e-5)
        if ratio > 1e-6:
            np.testing.assert_allclose(report.ratio, ratio, rtol=1e-5)
        np.testing.assert_allclose(report.cost, oracle.cost(oracle.w), rtol=1e-10)
    kinds = {(accepted, attempts > 1) for accepted, attempts, *_ in oracle.history}
    assert kinds >= {(True, False), (True, True), (False, True)}, "the script must hold all kinds of steps"


@pytest.mark.core
@pytest.mark.parametrize("solver, jit_compile", [("cholesky", True), ("kernel", False)])
def test_equals_numpy_on_a_loss_with_a_regulariser(solver, jit_compile):
    """The way of `fit`: mean of squares plus 0.05‖pair‖², so that r is scaled by √(2/n) and Λ is 0.1 on the pair."""
    problem, root = Problem(), np.sqrt(2 / len(T))
    prior = np.array([0.1, 0.1, 0.0])
    oracle = Oracle(lambda w: root * residuals(w), lambda w: root * jacobian(w), START, prior, initial=1e-6)
    optimizer = LevenbergMarquardt(NielsenDamping(1e-6), "identity", solver, max_attempts=3, acceleration=None)
    optimizer.build(problem.variables)

    @tf.function(jit_compile=jit_compile)
    def train():
        with tf.GradientTape() as tape:
            penalty = 0.05 * tf.reduce_sum(tf.square(problem.pair))
            loss = optimizer.scale_loss(tf.reduce_mean(tf.square(problem.residuals())) + penalty)
        optimizer.apply(tape.gradient(loss, problem.variables), problem.variables)
        return loss

    for _ in range(8):
        np.testing.assert_allclose(train(), oracle.cost(oracle.w), rtol=1e-9)
        oracle.step()
        np.testing.assert_allclose(problem.w, oracle.w, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(optimizer.current_damping, oracle.damping, rtol=1e-5)
    assert optimizer.num_attempts == sum(attempts for _, attempts, *_ in oracle.history) > 8


@pytest.mark.by_day(None)
@hypothesis.given(
    start=strategies.tuples(*[strategies.floats(-6, 6)] * 3),
    kind=strategies.sampled_from(
        [("nielsen", tf.float32), ("nielsen", tf.float64), ("multiplicative", tf.float64), ("trust_region", tf.float32)]
    ),
)
def test_an_accepted_step_never_raises_the_cost_and_a_rejected_one_keeps_bits(start, kind):
    problem, optimizer, run = _shared(*kind)
    problem.pair.assign(start[:2])
    problem.offset.assign(start[2])
    for _ in range(4):
        before, bits = problem_cost(problem), problem.w.tobytes()
        report = run()
        if report.accepted:
            assert problem_cost(problem) < before
        else:
            assert problem.w.tobytes() == bits
        assert np.isfinite(problem.w).all() and np.isfinite(optimizer.current_damping)


def problem_cost(problem):
    return float(tf.reduce_sum(tf.square(problem.residuals())) / 2)


_SHARED = {}


def _shared(damping, dtype):
    """One problem and one traced step for each combination: tracing is what takes time."""
    if (damping, dtype) not in _SHARED:
        problem, optimizer = Problem(dtype=dtype), LevenbergMarquardt(damping)
        _SHARED[damping, dtype] = problem, optimizer, lambda: optimizer.minimize(problem.residuals, problem.variables)
    return _SHARED[damping, dtype]


@pytest.mark.by_day(None)
def test_inside_a_function():
    eager, inside = Problem(), Problem()
    one, other = LevenbergMarquardt(), LevenbergMarquardt()
    step = tf.function(lambda: other.minimize(inside.residuals, inside.variables), jit_compile=True)
    for _ in range(6):
        expected, report = one.minimize(eager.residuals, eager.variables), step()
        np.testing.assert_allclose(inside.w, eager.w, rtol=1e-9)
        assert int(report.attempts) == int(expected.attempts)
    assert other.num_attempts == one.num_attempts and int(other.iterations.numpy()) == 6


@pytest.mark.core
@pytest.mark.parametrize("where", ["residual", "jacobian", "trial"])
def test_what_is_not_finite_is_rejected(where):
    weight = tf.Variable([1.0, 2.0], dtype=tf.float64)
    data = tf.Variable([1.0, 2.0, 3.0], dtype=tf.float64)

    def values():
        if where == "jacobian":
            return tf.sqrt(weight - 1.0) + tf.reduce_sum(data)
        if where == "trial":
            return tf.math.log(weight) + 30.0
        return weight[0] * data - weight[1]

    optimizer = LevenbergMarquardt(NielsenDamping(1e-9), max_attempts=1)
    if where == "residual":
        optimizer.minimize(values, [weight])
        damping = optimizer.current_damping
        data.assign([1.0, np.nan, 3.0])
    bits = weight.numpy().tobytes()
    report = optimizer.minimize(values, [weight])
    assert not report.accepted and weight.numpy().tobytes() == bits
    assert optimizer.status is (Status.REJECTED if where == "trial" else Status.NOT_FINITE)
    if where == "residual":
        assert optimizer.current_damping == damping, "a bad batch must not change the damping"
        data.assign([1.0, 2.0, 3.0])
        assert optimizer.minimize(values, [weight]).cost < 14


@pytest.mark.by_day(None)
def test_stalled_at_the_largest_damping():
    """Residuals whose cost does not follow their derivative: no damping helps, and the state stays finite."""
    weight = tf.Variable([1.0], dtype=tf.float64)

    @tf.custom_gradient
    def liar(w):
        return w + 1.0, lambda upstream: -upstream

    optimizer = LevenbergMarquardt(max_attempts=100)
    for _ in range(3):
        report = optimizer.minimize(lambda: liar(tf.identity(weight)), [weight])
        assert optimizer.status is Status.STALLED and weight.numpy() == [1.0]
    assert report.attempts <= 30 and np.isfinite(optimizer.current_damping)


@pytest.mark.by_day(None)
def test_one_example_one_output_and_constraints():
    weight = keras.Variable(np.array([3.0, -2.0]), dtype="float64")
    weight.constraint = keras.constraints.NonNeg()
    target = tf.constant([[1.0, -1.0]], tf.float64)
    optimizer = LevenbergMarquardt(damping=NielsenDamping(1e-9))
    for _ in range(3):
        optimizer.minimize(lambda: weight.value[None, :] - target, [weight])
    np.testing.assert_allclose(weight.numpy(), [1.0, 0.0], atol=1e-6)
