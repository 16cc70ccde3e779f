"""Bayesian regularisation: each re-estimate against NumPy, the fixed point of a linear model, and Keras around it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.precision import floating
from tfjac.optimizers import LevenbergMarquardt, NielsenDamping, Status

layers = keras.layers
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(40, 1))
Y = np.sin(3 * X) + 0.1 * RNG.normal(size=(40, 1))


def network(seed=1, hidden=6):
    keras.utils.set_random_seed(seed)
    return keras.Sequential([layers.Input((1,)), layers.Dense(hidden, "tanh"), layers.Dense(1)])


def compiled(model=None, solver="auto", in_keras=None, **options):
    model = model or network()
    model.compile(LevenbergMarquardt(solver=solver, regularization="bayesian", **options), "mse", **in_keras or {})
    return model


def fit(model, epochs, x=X, y=Y, **options):
    return model.fit(x, y, batch_size=len(x), epochs=epochs, verbose=0, shuffle=False, **options).history


def flat(model):
    return np.concatenate([weight.ravel() for weight in model.get_weights()])


def rows(values, x):
    """The outputs of the network, and their Jacobian, by hand."""
    hidden = (len(values) - 1) // 3
    w, b, v, c = np.split(values, [hidden, 2 * hidden, 3 * hidden])
    a = np.tanh(x * w + b)
    slope = (1 - a**2) * v
    return a @ v + c, np.concatenate([x * slope, slope, a, np.ones_like(x)], axis=1)


@pytest.mark.parametrize("solver", ["cholesky", "kernel", "qr", "svd"])
def test_every_step_is_that_of_numpy(solver):
    """The step solves the normal equations with α, and α, β and γ follow from H at its start, on weighted examples."""
    weight = np.where(np.arange(40) < 35, np.linspace(0.5, 2, 40), 0)
    number, mean = 35, weight[:35].mean()
    with floating("float64"):
        model = compiled(solver=solver, acceleration=None)
        optimizer, before = model.optimizer, flat(model)
        gamma = min(number, len(before)) / 2
        errors = Y[:, 0] - rows(before, X)[0]
        alpha, beta = gamma / (before @ before), (number - gamma) / (weight / mean @ errors**2)
        accepted = 0
        for _ in range(12):
            model.train_on_batch(X, Y, sample_weight=weight)
            after, report = flat(model), optimizer.last_report
            if optimizer.status is not Status.RUNNING:
                continue
            output, jacobian = rows(before, X)
            noise = beta * weight / mean
            hessian = jacobian.T @ (noise[:, None] * jacobian) + alpha * np.eye(len(before))
            gradient = jacobian.T @ (noise * (output - Y[:, 0])) + alpha * before
            damping = report.damping * beta / (2 * mean / 40)
            np.testing.assert_allclose(
                (hessian + damping * np.eye(len(before))) @ (after - before), -gradient, atol=1e-8 * abs(gradient).max()
            )
            gamma = len(before) - alpha * np.trace(np.linalg.inv(hessian))
            errors = Y[:, 0] - rows(after, X)[0]
            alpha, beta = gamma / (after @ after), (number - gamma) / (weight / mean @ errors**2)
            np.testing.assert_allclose(optimizer.precisions, (alpha, beta, gamma), rtol=1e-8)
            before, accepted = after, accepted + 1
    assert accepted > 5 and optimizer.noise_level == pytest.approx(beta**-0.5)


@pytest.mark.by_day(None)
def test_a_linear_model_finds_the_fixed_point():
    """MacKay 1992: iterated in NumPy from the singular values of the design, whatever the loss is divided by."""
    rng = np.random.default_rng(1)
    design = np.concatenate([rng.normal(size=(60, 7)), np.ones((60, 1))], axis=1)
    target = design @ np.array([1.0, -2, 0.5, 0, 0, 0, 0, 0.3]) + 0.4 * rng.normal(size=60)
    alpha, beta = 1.0, 1.0
    for _ in range(500):
        hessian = beta * design.T @ design + alpha * np.eye(8)
        w = beta * np.linalg.solve(hessian, design.T @ target)
        gamma = 8 - alpha * np.trace(np.linalg.inv(hessian))
        alpha, beta = gamma / (w @ w), (60 - gamma) / np.sum((target - design @ w) ** 2)
    with floating("float64"):
        model = keras.Sequential([layers.Input((7,)), layers.Dense(1)])
        fit(compiled(model, damping=NielsenDamping(1e-9)), 25, design[:, :7], target[:, None])
    np.testing.assert_allclose(model.optimizer.precisions, (alpha, beta, gamma), rtol=1e-6)
    np.testing.assert_allclose(flat(model), w, rtol=1e-6)


def test_more_weights_than_examples_do_not_overfit():
    """γ is where the data put it, and the noise is found, in float32."""
    model = compiled(network(hidden=30), gram_dtype="float64", steps_per_batch=50)
    fit(model, 4)
    assert 3 < model.optimizer.effective_parameters < 10
    assert model.optimizer.noise_level == pytest.approx(0.1, rel=0.25)
    grid = np.linspace(-1, 1, 50)[:, None]
    assert np.sqrt(np.mean((model.predict(grid, verbose=0) - np.sin(3 * grid)) ** 2)) < 0.08


@pytest.mark.by_day(None)
def test_the_ways_to_run_it_agree():
    """Epochs of one step; `minimize`; several steps in one call; several batches in one call, compiled by XLA."""
    with floating("float64"):
        expected, model, optimizer = compiled(), network(), LevenbergMarquardt(regularization="bayesian")
        fit(expected, 3)
        for _ in range(3):
            optimizer.minimize(lambda: model(X) - Y, model.trainable_variables)  # residuals count each as one
        np.testing.assert_allclose(optimizer.precisions, expected.optimizer.precisions, rtol=1e-6)
        fit(expected, 1)
        several = compiled(steps_per_batch=4)
        fit(several, 1)
        at_once = compiled(in_keras={"steps_per_execution": 4, "jit_compile": True})
        at_once.fit(tfjac.full_batch(X, Y, steps=4), epochs=1, verbose=0)
    for model in (several, at_once):
        np.testing.assert_allclose(flat(model), flat(expected), rtol=1e-6)
        np.testing.assert_allclose(model.optimizer.precisions, expected.optimizer.precisions, rtol=1e-6)


@pytest.mark.by_day(None)
def test_saved_and_gone_on(tmp_path):
    model = compiled()
    fit(model, 4)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.optimizer.get_config()["regularization"] == "bayesian"
    assert loaded.optimizer.precisions == model.optimizer.precisions
    for each in (model, loaded):
        fit(each, 4)
    assert flat(loaded).tobytes() == flat(model).tobytes()


@pytest.mark.by_day(None)
def test_a_batch_without_use_changes_nothing():
    """Not in the first step, before there are precisions, and not later."""
    model = compiled()
    optimizer = model.optimizer
    for bad in (np.nan, 0.0):
        fit(model, 1, sample_weight=np.full(40, bad))
        assert optimizer.precisions is None and optimizer.num_accepted == 0
    fit(model, 2, sample_weight=np.ones(40))
    known = optimizer.precisions
    for bad in (np.nan, 0.0):
        fit(model, 1, sample_weight=np.full(40, bad))
        assert optimizer.precisions == known and np.isfinite(flat(model)).all()
    assert not any(np.isnan(variable.numpy()).any() for variable in optimizer.variables)


def test_verified():
    fit(compiled(verify=True), 2)


@pytest.mark.by_day(None)
def test_refused_by_name():
    with pytest.raises(ValueError, match=r"must be one of None, 'bayesian'.*Received: regularization='bayes'"):
        LevenbergMarquardt(regularization="bayes")
    for solver in ("cg", "lsmr"):
        with pytest.raises(ValueError, match="needs a solver that factors"):
            fit(compiled(solver=solver), 1)
    model = keras.Sequential([layers.Input((1,)), layers.Dense(1, kernel_regularizer="l2")])
    with pytest.raises(ValueError, match="leave out other regularisers"):
        fit(compiled(model), 1)
    model = keras.Sequential([layers.Input((1,)), layers.Dense(1, kernel_constraint="non_neg", name="held")])
    with pytest.raises(ValueError, match=r"a constraint contradicts.*NonNeg of '.*held/kernel'"):
        fit(compiled(model), 1)
    model = network()
    model.compile(LevenbergMarquardt(regularization="bayesian"), "huber")
    with pytest.raises(ValueError, match=r"sums of squares.*Received: another convex function, of op"):
        fit(model, 1)


def test_auto_does_not_iterate():
    """Where it would take conjugate gradients otherwise."""
    w = tf.Variable(RNG.normal(size=(2, 1100)), dtype=tf.float32)
    optimizer = LevenbergMarquardt(regularization="bayesian", max_attempts=1)
    optimizer.minimize(lambda: tf.constant(RNG.normal(size=(30, 2)), tf.float32) @ w - 1.0, [w])
    assert optimizer.solver_used in ("cholesky", "kernel") and "cg" not in optimizer.plan().solver
