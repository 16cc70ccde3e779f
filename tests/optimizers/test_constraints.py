"""Keras' constraints: NonNeg as bounds, against SciPy's non-negative least squares; others projected, and said."""

import keras
import numpy as np
import pytest
import scipy.optimize

from tests.precision import floating
from tfjac.optimizers import LevenbergMarquardt

RNG = np.random.default_rng(5)
X = RNG.normal(size=(40, 6)) @ RNG.normal(size=(6, 6))  # correlated: clipping the free solution ends elsewhere
Y = RNG.normal(size=(40, 1))


def fitted(constraint, solver="auto", jit_compile=False, epochs=25, seed=0, **options):
    with floating("float64"):
        keras.utils.set_random_seed(seed)
        layer = keras.layers.Dense(1, use_bias=False, kernel_constraint=constraint, **options)
        model = keras.Sequential([keras.Input((6,)), layer])
        model.compile(LevenbergMarquardt(solver=solver), loss="mse", jit_compile=jit_compile)
        model.fit(X, Y, batch_size=40, epochs=epochs, verbose=0)
    return model.get_weights()[0][:, 0], model.optimizer


@pytest.mark.by_day(None)
@pytest.mark.parametrize("solver, jit_compile", [("auto", False), ("cholesky", True), ("kernel", False)])
def test_non_negative_weights(solver, jit_compile):
    expected, _ = scipy.optimize.nnls(X, Y[:, 0])
    assert 1 <= (expected == 0).sum() <= 5
    found, _ = fitted("non_neg", solver, jit_compile)
    np.testing.assert_allclose(found, expected, atol=1e-6 * expected.max())
    assert (found[expected == 0] == 0).all(), "at their bounds exactly"


@pytest.mark.by_day(None)
def test_with_a_regulariser():
    """min mean (x·w − y)² + l2‖w‖² over w ≥ 0, as non-negative least squares of a longer system."""
    rows = np.concatenate([X / np.sqrt(40), np.sqrt(0.5) * np.eye(6)])
    expected, _ = scipy.optimize.nnls(rows, np.concatenate([Y[:, 0] / np.sqrt(40), np.zeros(6)]))
    found, _ = fitted("non_neg", kernel_regularizer=keras.regularizers.L2(0.5))
    np.testing.assert_allclose(found, expected, atol=1e-6 * expected.max())


@pytest.mark.by_day(None)
def test_every_step_is_feasible_from_any_start():
    for seed in range(2):
        found, optimizer = fitted("non_neg", epochs=1, seed=seed)
        assert (found >= 0).all() and optimizer.num_accepted == 1


def test_other_constraints_are_projected_upon_and_said():
    with pytest.warns(UserWarning, match=r"the constraint MaxNorm of .*kernel is applied after each step"):
        found, _ = fitted(keras.constraints.MaxNorm(0.05))
    assert np.linalg.norm(found) <= 0.05 + 1e-6
