"""What is called converged: the minimum itself, also where the cost is rounding, and no point far from one."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfjac import Manifold
from tfjac.callbacks import Convergence
from tfjac.optimizers import LevenbergMarquardt, least_squares
from tfjac.steps.statuses import Status

T = np.linspace(0, 4, 40)
STARTS = np.random.default_rng(0).uniform(0.5, 3, (30, 3))
DAMPINGS = ["trust_region", "nielsen", "multiplicative"]


def decay(x, y):
    return x[..., :1] * tf.exp(-x[..., 1:2] * T) + x[..., 2:] - y


def data_of(values):
    """NumPy's exponential differs from TensorFlow's in the last digit."""
    return values[..., :1] * np.exp(-values[..., 1:2] * T) + values[..., 2:]


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("damping", DAMPINGS)
def test_a_start_at_the_solution_is_converged(damping):
    x = tf.Variable(STARTS[0])
    result = least_squares(lambda: decay(x, data_of(STARTS[0])), x, damping=damping)
    assert 0 < result.cost < 1e-29, "where it is zero, there is nothing to tell"
    assert result.status is Status.COST_TOLERANCE and result.success
    np.testing.assert_allclose(x.numpy(), STARTS[0], rtol=1e-13)


@pytest.mark.by_day(None)
def test_each_of_many_fits_that_start_at_the_solution_is_converged():
    x = tf.Variable(STARTS)
    result = least_squares(lambda: decay(x, data_of(STARTS)), x, batch_dims=1)
    assert (result.cost > 0).any() and np.all(result.success)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_network_at_the_weights_that_made_the_data(dtype):
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(30, "tanh", dtype=dtype) for _ in range(2)]
    model = keras.Sequential([keras.Input((4,), dtype=dtype), *layers, keras.layers.Dense(2, dtype=dtype)])
    x = np.random.default_rng(0).normal(size=(300, 4)).astype(dtype)
    hidden = x
    for kernel, bias in zip(model.get_weights()[:-2:2], model.get_weights()[1:-2:2]):
        hidden = np.tanh(hidden @ kernel + bias)
    y = (hidden @ model.get_weights()[-2] + model.get_weights()[-1]).astype(dtype)
    result = least_squares(lambda: model(x) - y, [variable.value for variable in model.trainable_variables])
    assert result.cost > 0 and result.success


@pytest.mark.by_day(None)
def test_fit_from_the_solution_is_converged():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(30, "tanh"), keras.layers.Dense(2)])
    x = np.random.default_rng(0).normal(size=(300, 4)).astype("float32")
    first, offset, last, end = model.get_weights()
    y = np.tanh(x @ first + offset) @ last + end
    model.compile(LevenbergMarquardt(), "mse")
    callback = Convergence()
    losses = model.fit(x, y, batch_size=300, epochs=20, verbose=0, callbacks=[callback]).history["loss"]
    assert losses[-1] > 0 and callback.status.converged and len(losses) < 20


def test_a_small_cost_is_not_zero():
    """Residuals of 1e-10, a million times rounding, which no step lowers: the derivative is wrong."""

    @tf.custom_gradient
    def liar(x):
        return x, lambda upstream: -upstream

    x = tf.Variable([1.0], dtype=tf.float64)
    result = least_squares(lambda: liar(tf.identity(x)) - (1 - 1e-10), x)
    assert result.status is Status.STALLED and not result.success


@pytest.mark.by_day(None)
@pytest.mark.parametrize("damping", DAMPINGS)
def test_no_convergence_where_damping_alone_makes_steps_tiny(damping):
    """Jennrich and Sampson's function from 100 times the start, where squares of residuals leave the range of float64.

    D of that start is so large that no λ is small enough later; see J. Moré, B. Garbow, K. Hillstrom, 1981, number 6.
    """
    i, x = np.arange(1, 11.0), tf.Variable([30.0, 40.0], dtype=tf.float64)
    result = least_squares(lambda: 2 + 2 * i - tf.exp(i * x[0]) - tf.exp(i * x[1]), x, damping=damping, max_steps=2000)
    exponentials = np.exp(i * x.numpy()[:, None])
    residuals = 2 + 2 * i - exponentials.sum(axis=0)
    jacobian = -i * exponentials
    sizes = np.linalg.norm(jacobian, axis=1) * np.linalg.norm(residuals)
    cosines = np.divide(np.abs(jacobian @ residuals), sizes, out=np.zeros(2), where=sizes > 0)
    assert not result.success or cosines.max() < 1e-3


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("size", [1e6, 1e10])
def test_rounding_of_a_manifold_whose_steps_are_parts_of_its_points(size):
    """A positive number in large units: a step of ε moves it by ε times its size, and no more."""
    positive = Manifold(lambda x, delta: x * tf.exp(delta), 1, 1)
    number, valley = tf.Variable([size * (1 + 1e-9)], dtype=tf.float64), tf.Variable([-1.2, 1.0], dtype=tf.float64)

    def residuals():
        return [10 * (valley[1:] - valley[:1] ** 2), 1 - valley[:1], number - size]

    found = least_squares(residuals, [valley, number], manifolds=[None, positive])
    assert found.success
    np.testing.assert_allclose(valley.numpy(), [1.0, 1.0], rtol=1e-6)
