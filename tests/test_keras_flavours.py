"""Other backends of Keras are refused by one message; models of tf_keras (Keras 2) go with all but hook and fit."""

import importlib.util

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests import processes

REFUSED = """
try:
    import tfjac
except ImportError as error:
    print(error)
"""


@pytest.mark.by_day(None)
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends_are_refused(backend):
    installed = importlib.util.find_spec(backend) is not None
    simulated = f"import keras; keras.config.backend = lambda: {backend!r}"
    environment = {"KERAS_BACKEND": backend if installed else "tensorflow"}
    said = processes.run(("" if installed else simulated) + REFUSED, **environment)
    assert f"Keras on '{backend}'" in said and "Set the environment variable KERAS_BACKEND=tensorflow before" in said


@pytest.fixture(scope="module")
def x():
    return tf.constant(np.random.default_rng(0).normal(size=(6, 3)), tf.float32)


@pytest.fixture
def model():
    tf_keras = pytest.importorskip("tf_keras")
    tf_keras.utils.set_random_seed(1)
    return tf_keras.Sequential(
        [
            tf_keras.Input((3,)),
            tf_keras.layers.Dense(4, activation="tanh", name="hidden"),
            tf_keras.layers.Dense(1, name="out"),
        ]
    )


def rows_of(model, x):
    """J by one tape: [n, p]."""
    with tf.GradientTape() as tape:
        y = model(x)[:, 0]
    return np.concatenate([np.reshape(j, [len(x), -1]) for j in tape.jacobian(y, model.trainable_variables)], axis=1)


def test_jacobians_of_keras_2(model, x):
    found = tfjac.per_example_jacobian(lambda: model(x), model.trainable_variables)
    flat = np.concatenate([np.reshape(j, [len(x), -1]) for j in found], axis=1)
    np.testing.assert_allclose(flat, rows_of(model, x), rtol=1e-5, atol=1e-6)


def test_nodes_of_keras_2(model, x):
    listed = tfjac.nodes(model, x)
    assert {each.layer.split("/")[-1] for each in listed if each.layer} >= {"hidden", "out"}
    found = tfjac.node_gradients(lambda: model(x)[:, 0], "hidden")
    np.testing.assert_allclose(found, np.broadcast_to(model.get_layer("out").kernel.numpy()[:, 0], [6, 4]), rtol=1e-6)
    doubled = tfjac.intercept(model, edits={"hidden": tfjac.Edit(forward=lambda y: 2.0 * y)})
    inside = np.tanh(x.numpy() @ model.get_layer("hidden").kernel.numpy()) * 2.0
    np.testing.assert_allclose(doubled(x), inside @ model.get_layer("out").kernel.numpy(), rtol=1e-5, atol=1e-6)


def test_laplace_of_keras_2(model, x):
    model.compile(loss="mse")
    _, variance = tfjac.laplace(model, x, tf.ones([6, 1]), prior_precision=1.0, noise=0.5).predict(x)
    j = rows_of(model, x).astype("float64")
    expected = np.diag(j @ np.linalg.inv(j.T @ j / 0.25 + np.eye(j.shape[1])) @ j.T)
    np.testing.assert_allclose(np.ravel(variance), expected, rtol=1e-4)


def test_least_squares_of_keras_2(model, x):
    result = tfjac.least_squares(lambda: model(x) - 0.5, model.trainable_variables)
    assert result.success
    np.testing.assert_allclose(model(x), 0.5, atol=1e-5)
    tfjac.LevenbergMarquardt().minimize(lambda: model(x) + 0.5, model.trainable_variables)
    assert np.abs(model(x) + 0.5).max() < 0.5


def test_what_keras_2_has_no_place_for(model, x):
    with pytest.raises(TypeError, match=r"is put on a layer of Keras 3.*tf_keras.*tfjac\.intercept"):
        tfjac.hook(model.get_layer("hidden"), backward=lambda gradient: gradient)
    with pytest.raises(ValueError, match="LevenbergMarquardt"):
        model.compile(optimizer=tfjac.LevenbergMarquardt(), loss="mse")
