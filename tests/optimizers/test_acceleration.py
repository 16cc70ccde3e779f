"""Geodesic acceleration: its step by NumPy with second derivatives by hand, and wherever steps are taken."""

import keras
import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from tfjac.jacobians.vector_products import second_jvp
from tfjac.optimizers import GeodesicAcceleration, LevenbergMarquardt, NielsenDamping, Status, least_squares

T = np.linspace(0, 3, 20)
Y = 2.0 * np.exp(-1.3 * T) + 0.5 + 0.02 * np.sin(40 * T)
START = np.array([1.5, 0.8, 0.3])
PRIOR = np.array([0.0, 0.2, 0.0])


def step(limit, damping, prior, start=START):
    """v + ½a, by the normal equations."""
    a, rate, offset = start
    falling = np.exp(-rate * T)
    residual = a * falling + offset - Y
    jacobian = np.stack([falling, -a * T * falling, np.ones_like(T)], axis=1)
    mean = np.array([0.0, 1.0, 0.0])
    matrix = jacobian.T @ jacobian + np.diag(prior)
    matrix += damping * np.diag(matrix).max() * np.eye(3)
    v = -np.linalg.solve(matrix, jacobian.T @ residual + prior * (start - mean))
    bend = 2 * v[0] * v[1] * -T * falling + v[1] ** 2 * a * T**2 * falling
    second = -np.linalg.solve(matrix, jacobian.T @ bend)
    ratio = np.linalg.norm(second) / np.linalg.norm(v)
    return start + v + (second / 2 if ratio <= limit else 0), ratio


X = tf.Variable(START)


def model(x):
    return x[0] * tf.exp(-x[1] * T) + x[2] - Y


def fit(start=START, **options):
    X.assign(start)
    return least_squares(lambda: model(X), X, **options)


@pytest.mark.parametrize("solver", ["qr", "cholesky"])
def test_the_step_by_hand(solver):
    prior = (1.0, [None, 1 / np.sqrt(0.2), None])
    expected, ratio = step(0.75, 0.01, PRIOR)
    assert 0.03 < ratio < 0.7 and not np.allclose(expected, step(0, 0.01, PRIOR)[0], rtol=1e-2)
    found = fit(
        max_steps=1, solver=solver, damping=NielsenDamping(0.01), scaling="identity", prior=prior,
        acceleration="geodesic", jit_compile=solver == "cholesky",
    )  # fmt: skip
    np.testing.assert_allclose(found.x, expected, rtol=1e-9)
    assert found.status is Status.MAX_STEPS and found.history.accepted.all()


def test_without_where_it_is_too_long():
    expected, ratio = step(0.02, 0.01, np.zeros(3))
    assert ratio > 0.02
    options = {"max_steps": 1, "damping": NielsenDamping(0.01), "scaling": "identity"}
    found = fit(acceleration=GeodesicAcceleration(0.02), **options)
    np.testing.assert_allclose(found.x, expected, rtol=1e-9)
    assert found.x.tobytes() == fit(**options).x.tobytes()


def test_bounds_equations_robust_losses_and_checkpoints(tmp_path):
    """The minima are those of linear least squares, with the rate at its bound, and of SciPy with one eliminated."""
    tight = {"ftol": 1e-14, "xtol": 1e-12, "gtol": 1e-12, "acceleration": "geodesic"}
    found = fit([1.0, 0.9, 0.0], bounds=(None, [np.inf, 1.0, np.inf]), **tight)
    size, offset = np.linalg.lstsq(np.stack([np.exp(-T), np.ones_like(T)], 1), Y, rcond=None)[0]
    np.testing.assert_allclose(found.x, [size, 1.0, offset], rtol=1e-6, atol=1e-9)
    found = fit([1.0, 0.9, 0.0], equality=([1, 0, 1], 2.4), loss="cauchy", loss_scale=0.05, damping="nielsen", **tight)
    size, rate = scipy.optimize.least_squares(
        lambda b: b[0] * np.exp(-b[1] * T) + 2.4 - b[0] - Y, [1.0, 0.9], "3-point", loss="cauchy", f_scale=0.05,
        ftol=1e-15, xtol=1e-15, gtol=1e-15,
    ).x  # fmt: skip
    np.testing.assert_allclose(found.x, [size, rate, 2.4 - size], rtol=1e-6, atol=1e-9)
    whole = fit(acceleration="geodesic")
    fit(acceleration="geodesic", max_steps=2, checkpoint=tmp_path / "run")
    rest = least_squares(lambda: model(X), X, acceleration="geodesic", checkpoint=tmp_path / "run")
    assert rest.x.tobytes() == whole.x.tobytes() and rest.steps == whole.steps > 2


def test_in_fit_and_its_configuration():
    """A step of a network of one weight, tanh(w·x): by hand; and again under XLA, from a saved configuration."""
    x = np.linspace(-1, 2, 30).astype("float32")[:, None]
    y = np.tanh(1.7 * x)
    w, scale = 0.9, np.sqrt(2 / 30)
    slope = (1 - np.tanh(w * x) ** 2) * x * scale
    matrix = 1.01 * np.sum(slope**2)
    v = -np.sum(slope * scale * (np.tanh(w * x) - y)) / matrix
    bend = -2 * np.tanh(w * x) * (1 - np.tanh(w * x) ** 2) * (x * v) ** 2 * scale
    a = -np.sum(slope * bend) / matrix
    assert 0.05 < abs(a / v) < 0.75
    config = LevenbergMarquardt(NielsenDamping(0.01), acceleration=GeodesicAcceleration(0.75)).get_config()
    for jit_compile in (False, True):
        optimizer = LevenbergMarquardt.from_config(config)
        layer = keras.layers.Dense(1, "tanh", use_bias=False)
        network = keras.Sequential([keras.Input((1,)), layer])
        layer.kernel.assign([[w]])
        network.compile(optimizer, "mse", jit_compile=jit_compile)
        network.fit(x, y, batch_size=30, verbose=0)
        np.testing.assert_allclose(layer.kernel.numpy(), [[w + v + a / 2]], rtol=1e-5)
    assert LevenbergMarquardt.from_config(LevenbergMarquardt(acceleration="geodesic").get_config())
    assert LevenbergMarquardt().get_config()["acceleration"] is None


def test_bad_input_and_ops_without_second_derivatives():
    with pytest.raises(ValueError, match=r"Unknown acceleration.*'geodesic'.*Received: acceleration='geodesics'"):
        fit(acceleration="geodesics")
    with pytest.raises(TypeError, match="Received: acceleration=True"):
        LevenbergMarquardt(acceleration=True)

    @tf.custom_gradient
    def clipped(x):
        return tf.square(x), lambda upstream: tf.clip_by_value(2 * x * upstream, -1, 1)

    with pytest.raises(LookupError, match=r"acceleration takes second derivatives.*not linear"):
        least_squares(lambda: clipped(X) - 1.0, X, acceleration="geodesic")


@pytest.mark.parametrize("name", ["loop", "polynomial", "embedding", "linear"])
def test_second_derivatives_along_a_direction(name, rng):
    """By one tape in another for each residual; the Hessians are symmetric, so that any order will do."""
    w, v = tf.Variable(rng.normal(size=(3, 3))), tf.constant(rng.normal(size=(3, 3)))
    x = tf.constant(rng.normal(size=(2, 3)))
    body = lambda k, h: (k + 1, tf.tanh(h @ w) + h**2)  # noqa: E731
    programs = {
        "loop": lambda: tf.while_loop(lambda k, h: k < 3, body, (0, x))[1],
        "polynomial": lambda: (x @ w) ** 3 * tf.reduce_sum(w**2),
        "embedding": lambda: tf.nn.swish(tf.gather(w, [2, 0, 2])),
        "linear": lambda: x @ w,
    }
    program = programs[name]
    found = tf.function(lambda: second_jvp(program(), w, v), autograph=False)().numpy()
    expected = np.zeros(found.size)
    for row in range(found.size):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                value = tf.reshape(program(), [-1])[row]
            slope = tf.reduce_sum(tf.convert_to_tensor(inner.gradient(value, w)) * v)
        bend = outer.gradient(slope, w, unconnected_gradients="zero")
        expected[row] = tf.reduce_sum(tf.convert_to_tensor(bend) * v)
    np.testing.assert_allclose(found.ravel(), expected, rtol=1e-9, atol=1e-12)
