"""The same tolerance means about the same step, whichever solver stops by it; oracle: a dense solve."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.precision import floating
from tfjac.linear.solvers import get_solver
from tfjac.objective.residuals import objective_of_residuals
from tfjac.optimizers import LevenbergMarquardt


def network_and_residuals(widths, examples, steps):
    """Return variables and the function of the residuals of a network that was trained for some steps."""
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).normal(size=(examples, widths[0]))
    y = np.sin(2 * x[:, : widths[-1]])
    hidden = [keras.layers.Dense(width, "tanh") for width in widths[1:-1]]
    model = keras.Sequential([keras.Input(widths[:1]), *hidden, keras.layers.Dense(widths[-1])])
    residuals = lambda: model(x) - y  # noqa: E731
    optimizer = LevenbergMarquardt(solver="cholesky")
    for _ in range(steps):
        optimizer.minimize(residuals, model.trainable_variables)
    return [variable.value for variable in model.trainable_variables], residuals


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("steps", [0, 5])
@pytest.mark.parametrize(("widths", "examples"), [((8, 30, 20, 1), 2000), ((20, 60, 40, 3), 200)])
def test_share_of_what_an_exact_step_gains(widths, examples, steps):
    with floating("float64"):
        variables, residuals = network_and_residuals(widths, examples, steps)

        @tf.function(autograph=False)
        def solved(damping):
            model = objective_of_residuals([residuals()], variables).linearise()
            ones = tf.ones([model.num_parameters], tf.float64)
            found = [get_solver(name).prepare(model).solver(ones)(damping)[0] for name in ("lsmr", "cg")]
            return model.jacobian.to_dense(), model.residual, *found

        for damping in (1e-1, 1e-3, 1e-5):
            jacobian, residual, *found = (each.numpy() for each in solved(tf.constant(damping, tf.float64)))
            gradient, damped = jacobian.T @ residual, jacobian.T @ jacobian + damping * np.eye(jacobian.shape[1])
            gain = lambda p: -(gradient @ p + p @ damped @ p / 2)  # noqa: B023, E731
            exact = gain(np.linalg.solve(damped, -gradient))
            lsmr, cg = (gain(step) / exact for step in found)
            assert lsmr > 0.95 and lsmr > cg - 0.01, (damping, lsmr, cg)
