"""Kronecker factors with what users put around a network: open batches, sequences, masks, budgets, plans."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.precision import floating
from tfjac.drive.streamed.kronecker import KroneckerMemory
from tfjac.keras import memory
from tfjac.optimizers import LevenbergMarquardt

layers = keras.layers
RNG = np.random.default_rng(0)
SPARSE = keras.losses.SparseCategoricalCrossentropy


@pytest.fixture(autouse=True)
def factors_for_all(monkeypatch):
    """Keep factors of networks of any size, so that they are traced fast."""
    monkeypatch.setattr(memory, "SMALL", 0)


def compiled(*parts, loss, **options):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(parts)
    model.compile(LevenbergMarquardt(**options), loss=loss, jit_compile=False)
    return model


@pytest.mark.by_day(None)
@pytest.mark.parametrize("more", [[], [layers.Softmax()]])
def test_classes_at_each_place_of_a_sequence_with_a_ragged_last_batch(more):
    """TensorFlow leaves the number of classes open there, which is known from what it reshapes."""
    x, y = RNG.normal(size=(14, 5, 6)), RNG.integers(0, 12, (14, 5))
    model = compiled(layers.Input((5, 6)), layers.Dense(12, use_bias=False), *more, loss=SPARSE(from_logits=not more))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(x, y, batch_size=10, verbose=0)
    assert isinstance(model.optimizer._memory.model, KroneckerMemory)


@pytest.mark.by_day(None)
def test_a_step_on_an_open_batch_of_sequences_is_that_of_the_curvature_in_numpy():
    with floating("float64"):
        model = keras.Sequential([layers.Input((5, 3)), layers.Dense(4, use_bias=False)])
        model.compile(LevenbergMarquardt(memory=None), loss=SPARSE(from_logits=True), jit_compile=False)
        x, y = RNG.normal(size=(7, 5, 3)), RNG.integers(0, 4, (7, 5))
        w = model.get_weights()[0]
        model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(7), verbose=0)  # its batch is open
        rows, z = x.reshape(35, 3), x.reshape(35, 3) @ w
        shares = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        gradient = rows.T @ (shares - np.eye(4)[y.ravel()]) / 35
        second = np.einsum("na,ab->nab", shares, np.eye(4)) - np.einsum("na,nb->nab", shares, shares)
        matrix = np.einsum("ni,nj,nab->iajb", rows, rows, second).reshape(12, 12) / 35
        damping = float(model.optimizer.last_report.damping)
        step = -np.linalg.solve(matrix + damping * np.eye(12), gradient.ravel())
        np.testing.assert_allclose(model.get_weights()[0] - w, step.reshape(3, 4), rtol=1e-6, atol=1e-9)


# ------------------------------------------------------------------------ memory


def numbers(*sides):
    """Of A and G of all these sides; twice for inverses, twice while a step is taken, in four bytes."""
    return 2 * 2 * 4 * sum(a * a + b * b for a, b in sides)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("budget", [None, 1e6])
def test_factors_keep_to_the_memory_budget_and_the_plan_says_so(budget):
    """A of 300 inputs is over the budget: of that kernel a diagonal is kept, and steps are taken all the same."""
    model = compiled(
        layers.Input((300,)),
        layers.Dense(4, "tanh"),
        layers.Dense(3),
        loss=SPARSE(from_logits=True),
        memory_budget=budget,
    )
    x, y = RNG.normal(size=(3, 300)), RNG.integers(0, 3, 3)
    losses = [model.train_on_batch(x, y) for _ in range(2)]
    plan, others = model.optimizer.plan(), numbers((1, 4), (4, 3), (1, 3))
    expected = others + (numbers((300, 4)) if budget is None else 2 * 4 * 1200)
    assert plan.costs["kronecker"].memory == expected and losses[1] < losses[0]
    assert plan.solver == "kronecker" == model.optimizer.solver_used and plan.residuals == 9
    with_factors = (
        "4 variables have Kronecker factors" if budget is None else "3 variables have Kronecker factors; of 1"
    )
    assert with_factors in str(plan)
