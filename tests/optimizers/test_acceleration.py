"""Geodesic acceleration: its step by NumPy, wherever steps are taken; and where it is taken by default."""

import pathlib

import keras
import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from tfjac.optimizers import GeodesicAcceleration, LevenbergMarquardt, NielsenDamping, Status, least_squares

T = np.linspace(0, 3, 20)
Y = 2.0 * np.exp(-1.3 * T) + 0.5 + 0.02 * np.sin(40 * T)
START = np.array([1.5, 0.8, 0.3])
PRIOR = np.array([0.0, 0.2, 0.0])


def curve(x):
    return x[0] * np.exp(-x[1] * T) + x[2] - Y


def step(limit, damping, prior, start=START, h=0.1):
    """v + ½a, by the normal equations."""
    a, rate, _ = start
    falling, residual = np.exp(-rate * T), curve(start)
    jacobian = np.stack([falling, -a * T * falling, np.ones_like(T)], axis=1)
    mean = np.array([0.0, 1.0, 0.0])
    matrix = jacobian.T @ jacobian + np.diag(prior)
    matrix += damping * np.diag(matrix).max() * np.eye(3)
    v = -np.linalg.solve(matrix, jacobian.T @ residual + prior * (start - mean))
    exact = 2 * v[0] * v[1] * -T * falling + v[1] ** 2 * a * T**2 * falling
    bend = 2 * (curve(start + h * v) - residual - h * jacobian @ v) / h**2
    assert np.linalg.norm(bend - exact) < 0.05 * np.linalg.norm(exact)
    second = -np.linalg.solve(matrix, jacobian.T @ bend)
    ratio = np.linalg.norm(second) / np.linalg.norm(v)
    return start + v + (second / 2 if ratio <= limit else 0), ratio


X = tf.Variable(START)


def model(x):
    return x[0] * tf.exp(-x[1] * T) + x[2] - Y


def fit(start=START, **options):
    X.assign(start)
    return least_squares(lambda: model(X), X, **options)


@pytest.mark.by_day(None)
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


@pytest.mark.by_day(None)
def test_without_where_it_is_too_long():
    expected, ratio = step(0.02, 0.01, np.zeros(3))
    assert ratio > 0.02
    options = {"max_steps": 1, "damping": NielsenDamping(0.01), "scaling": "identity"}
    found = fit(acceleration=GeodesicAcceleration(0.02), **options)
    np.testing.assert_allclose(found.x, expected, rtol=1e-9)
    np.testing.assert_allclose(found.x, fit(**options).x, rtol=1e-13)


@pytest.mark.by_day(None)
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


@pytest.mark.by_day(None)
def test_in_fit_and_its_configuration():
    """A step of a network of one weight, tanh(w·x): by hand; and again under XLA, from a saved configuration."""
    x = np.linspace(-1, 2, 30).astype("float32")[:, None]
    y = np.tanh(1.7 * x)
    w, scale = 0.9, np.sqrt(2 / 30)
    slope = (1 - np.tanh(w * x) ** 2) * x * scale
    matrix = 1.01 * np.sum(slope**2)
    v = -np.sum(slope * scale * (np.tanh(w * x) - y)) / matrix
    bend = 200 * (np.tanh((w + 0.1 * v) * x) * scale - np.tanh(w * x) * scale - 0.1 * slope * v)
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
    assert LevenbergMarquardt().get_config()["acceleration"] == "auto"


def test_bad_input():
    with pytest.raises(ValueError, match=r"Unknown acceleration.*'geodesic'.*Received: acceleration='geodesics'"):
        fit(acceleration="geodesics")
    with pytest.raises(TypeError, match="Received: acceleration=True"):
        LevenbergMarquardt(acceleration=True)


@pytest.mark.by_day(None)
def test_what_no_gradient_passes_is_held():
    """J does not see it move, so the second derivative must not, either: by hand, of r = x·(held x) + x²."""
    x = tf.Variable([0.9, 0.4], dtype="float64")
    held = x.numpy()
    target = np.array([1.3, 0.2])

    def residuals():
        return x * tf.stop_gradient(x) + x**2 - target

    residual, slope = 2 * held**2 - target, 3 * held
    damping = 0.01 * np.max(slope**2)
    v = -slope * residual / (slope**2 + damping)
    half = -slope * v**2 / (slope**2 + damping)
    assert np.linalg.norm(2 * half) < 0.75 * np.linalg.norm(v)
    least_squares(residuals, x, max_steps=1, damping=NielsenDamping(0.01), scaling="identity", acceleration="geodesic")
    np.testing.assert_allclose(x.numpy(), held + v + half, rtol=1e-9)


def test_a_custom_gradient_without_a_derivative():
    """Residuals are all that acceleration takes: the minimum is found, and steps are saved, by what was refused."""

    @tf.custom_gradient
    def squared(x):
        return tf.square(x), lambda upstream: tf.convert_to_tensor(2 * x.numpy() * upstream.numpy(), x.dtype)

    def residuals(x):
        (value,) = tf.py_function(lambda x: [squared(x)], [x], [x.dtype])
        return tf.reshape(value, [3]) - [1.0, 4.0, 9.0]

    found = fit_of(residuals, acceleration="geodesic")
    np.testing.assert_allclose(np.abs(found.x), [1.0, 2.0, 3.0], rtol=1e-6)


def fit_of(residuals, **options):
    X.assign(START)
    return least_squares(lambda: residuals(X), X, **options)


# ------------------------------------------------------------------ by default


def network(width, rows, seed=0):
    """Return the function that solves for the weights of a network, 3·width + 1, with so many targets."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, size=(rows, 1))
    y = np.sin(4 * x) + 0.1 * random.normal(size=(rows, 1))
    start = [random.normal(size=shape) for shape in ((1, width), (width,), (width, 1), (1,))]

    def solve(**options):
        w = [tf.Variable(part) for part in start]
        found = least_squares(lambda: tf.tanh(x @ w[0] + w[1]) @ w[2] + w[3] - y, w, max_steps=3, **options)
        return found.history.cost

    return solve


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    "width, rows, options, is_bent",
    [
        (90, 400, {}, True),
        (90, 100, {}, True),
        (90, 100, {"solver": "kernel", "scaling": "identity"}, True),
        (80, 400, {}, False),
        (90, 400, {"solver": "cg"}, False),
        (90, 400, {"loss": "huber"}, False),
    ],
)
def test_where_steps_are_bent(width, rows, options, is_bent):
    """More than 256 parameters, squares, a matrix that is factored."""
    solve = network(width, rows)
    by_default, straight, bent = solve(**options), *(solve(acceleration=one, **options) for one in (None, "geodesic"))
    assert not np.allclose(straight, bent, rtol=1e-6)
    np.testing.assert_array_equal(by_default, bent if is_bent else straight)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("drops", [False, True], ids=["open", "static"])
@pytest.mark.parametrize("rows, is_bent", [(120, True), (20, False)])
def test_where_steps_of_fit_are_bent(rows, is_bent, drops):
    """In fit, if the batch has more residuals than there are weights: a batch may be one of many."""
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, size=(rows, 2)).astype("float32")
    y = np.sin(3 * x[:, :1] * x[:, 1:])

    def losses(acceleration):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(20, "tanh"), keras.layers.Dense(1)])
        model.compile(LevenbergMarquardt(acceleration=acceleration), "mse")
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(rows, drop_remainder=drops)
        return model.fit(data, epochs=4, verbose=0).history["loss"]

    by_default, straight, bent = losses("auto"), losses(None), losses("geodesic")
    assert not np.allclose(straight, bent, rtol=1e-4)
    np.testing.assert_allclose(by_default, bent if is_bent else straight, rtol=1e-6)


@pytest.mark.by_day(None)
def test_targets_that_can_be_met_are_met(rng):
    """A network of 661 weights and 277 of yacht's rows: no more error is left than rounding, in a hundred steps."""
    x, y = yacht()
    start = [rng.normal(size=shape) / np.sqrt(shape[0]) for shape in ((6, 20), (20, 20), (20, 1))]
    w = [tf.Variable(part) for part in start] + [tf.Variable(np.zeros(20)), tf.Variable(np.zeros(20))]

    def residuals():
        return tf.tanh(tf.tanh(x @ w[0] + w[3]) @ w[1] + w[4]) @ w[2] - y

    found = least_squares(residuals, w, max_steps=100, damping="nielsen", scaling="identity")
    assert found.cost < 1e-20


def yacht():
    folder = pathlib.Path(__file__).parents[2] / "examples" / "data" / "yacht"
    data = np.loadtxt(folder / "data.txt")[np.loadtxt(folder / "index_train_0.txt", dtype=int)]
    data = (data - data.mean(axis=0)) / data.std(axis=0)
    return data[:, :-1], data[:, -1:]
