"""Training of Keras models."""

import keras
import numpy as np
import tensorflow as tf
from common import X, feature, network, same

import tfjac


def trained(**options):
    model = network(1)
    model.compile(optimizer=tfjac.LevenbergMarquardt(steps_per_batch=10), loss="mse", **options)
    target = np.sin(X.numpy().sum(axis=1, keepdims=True))
    return model.fit(X, target, batch_size=12, epochs=5, verbose=0).history["loss"]


@feature
def levenberg_marquardt_in_fit():
    losses = trained()
    assert losses[-1] < 1e-6, losses


@feature
def levenberg_marquardt_under_xla():
    losses = trained(jit_compile=True)
    assert losses[-1] < 1e-6, losses


@feature
def fit_in_one_call():
    x = np.linspace(-1.0, 1.0, 60)[:, None]
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(10, activation="tanh"), keras.layers.Dense(1)])
    x, held_out = x[::2], x[1::2]
    history = tfjac.fit(model, x, np.sin(3 * x), validation_data=(held_out, np.sin(3 * held_out)), max_steps=200)
    error = np.mean((model.predict(held_out, verbose=0) - np.sin(3 * held_out)) ** 2)
    assert error < 1e-6, (error, history.status)
    same(error, min(history.history["val_loss"]), rtol=1e-4)  # the best weights are in the model


@feature
def bent_steps_of_a_larger_network():
    x = np.linspace(-1.0, 1.0, 400)[:, None]
    losses = {}
    for acceleration in ("auto", "geodesic", None):
        keras.utils.set_random_seed(1)
        layers = [keras.layers.Dense(16, activation="tanh") for _ in range(2)]
        model = keras.Sequential([keras.Input((1,)), *layers, keras.layers.Dense(1)])
        assert model.count_params() > 256
        model.compile(optimizer=tfjac.LevenbergMarquardt(acceleration=acceleration, steps_per_batch=30), loss="mse")
        model.fit(x, np.sin(6 * x), batch_size=400, verbose=0)
        losses[acceleration] = np.mean((model.predict(x, verbose=0) - np.sin(6 * x)) ** 2)
    assert max(losses.values()) < 1e-3, losses
    same(losses["auto"], losses["geodesic"], rtol=1e-3)  # the default is bent here
    assert abs(losses["auto"] / losses[None] - 1) > 0.01, losses


@feature
def generalised_gauss_newton():
    model = network(3)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=tfjac.LevenbergMarquardt(), loss=loss)
    losses = model.fit(X, np.arange(12) % 3, batch_size=12, epochs=15, verbose=0).history["loss"]
    assert losses[-1] < 0.2 * losses[0], losses


@feature
def private_training():
    model, target = network(1), np.ones([12, 1])
    with tf.GradientTape() as tape:
        losses = (model(X)[:, 0] - 1.0) ** 2
    blocks = tape.jacobian(losses, [weight.value for weight in model.trainable_variables])
    j = np.concatenate([np.reshape(block, [12, -1]) for block in blocks], axis=1)
    expected = (j * np.minimum(1.0, 0.5 / np.linalg.norm(j, axis=1))[:, None]).sum(axis=0) / 12
    before = np.concatenate([np.ravel(weight) for weight in model.get_weights()])
    sgd = keras.optimizers.SGD(0.1)
    model.compile(tfjac.privacy.DPOptimizer(sgd, clip_norm=0.5, noise_multiplier=0.0), "mse", weighted_metrics=[])
    model.fit(X, target, batch_size=12, verbose=0)
    after = np.concatenate([np.ravel(weight) for weight in model.get_weights()])
    same((before - after) / 0.1, expected)


@feature
def laplace():
    x = np.linspace(-1.0, 1.0, 20)[:, None]
    layer = keras.layers.Dense(1)
    model = keras.Sequential([keras.Input((1,)), layer])
    model.compile(loss="mse")
    _, variance = tfjac.laplace(model, x, 2 * x, prior_precision=1.0, noise=0.5).predict(x)
    design = np.concatenate([x, np.ones_like(x)], axis=1)
    expected = design @ np.linalg.inv(design.T @ design / 0.25 + np.eye(2)) @ design.T
    same(np.ravel(variance), np.diag(expected))
