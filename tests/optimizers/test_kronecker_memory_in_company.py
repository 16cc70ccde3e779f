"""Kronecker factors with what users put around a network: open batches, sequences, masks, budgets, plans."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.precision import floating
from tfjac.optimizers import LevenbergMarquardt
from tfjac.optimizers.execution.streamed.kronecker import KroneckerMemory

layers = keras.layers
RNG = np.random.default_rng(0)
SPARSE = keras.losses.SparseCategoricalCrossentropy


def sequences(loss, classes=12, **options):
    """A network with an output of classes at each of five places, for batches whose size is open, as in a ragged fit."""
    keras.utils.set_random_seed(1)
    parts = [layers.Dense(24, "tanh"), layers.Dense(classes, use_bias=False)]
    model = keras.Sequential([layers.Input((5, 6)), *parts, *options.pop("more", [])])
    model.compile(LevenbergMarquardt(**options), loss=loss, jit_compile=False)
    return model


@pytest.mark.parametrize("from_logits", [True, False])
def test_classes_at_each_place_of_a_sequence_with_a_ragged_last_batch(from_logits):
    """TensorFlow leaves the number of classes open there, which is known from what it reshapes."""
    x, y = RNG.normal(size=(70, 5, 6)), RNG.integers(0, 12, (70, 5))
    more = [] if from_logits else [layers.Softmax()]
    model = sequences(SPARSE(from_logits=from_logits), more=more)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(x, y, batch_size=32, verbose=0)
    assert isinstance(model.optimizer._memory.model, KroneckerMemory)


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
