"""Influences against training again without an example, and against labels that are known to be wrong."""

import pathlib

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

import tfjac
from tests.digits import load_digits
from tests.precision import floating

DATA = pathlib.Path(__file__).resolve().parents[2] / "examples" / "data"
DAMPING = 1e-3


def yacht():
    """Resistance of yachts, UCI: 80 examples to train on and 40 to test on, to mean 0 and deviation 1."""
    table = np.random.default_rng(0).permutation(np.loadtxt(DATA / "yacht" / "data.txt"))[:120]
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    return table[:80, :-1], table[:80, -1:], table[80:, :-1], table[80:, -1:]


def trainer(model, x, y):
    """Return a function that minimises the mean loss of examples with weights `[n, 1]`, and λ/2‖w‖², to rounding."""
    counts = tf.Variable(np.ones([len(x), 1]))

    def residuals():
        penalty = [np.sqrt(DAMPING) * tf.reshape(v, [-1]) for v in model.trainable_variables]
        errors = tf.sqrt(2 * counts / len(x)) * (model(x) - y)
        return tf.concat([tf.reshape(errors, [-1]), *penalty], axis=0)

    def train(left_out=None):
        without = np.ones([len(x), 1])
        without[[] if left_out is None else left_out] = 0
        counts.assign(without)
        return tfjac.least_squares(residuals, model.trainable_variables, max_steps=200, gtol=1e-10)

    return train


def trained(x, y):
    """Return a network 6-5-1 at its minimum, and what trains it again."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(1)])
    model.compile(loss="mse")
    train = trainer(model, x, y)
    train()
    return model, train


def test_training_again_without_an_example():
    x, y, x_test, y_test = yacht()
    with floating("float64"):
        model, train = trained(x, y)
        found = {
            removal: tfjac.influence(model, x, y, damping=DAMPING, removal=removal)
            for removal in ("newton", "first_order")
        }
        order = np.argsort(-found["newton"].self_influence())
        chosen = order[:: len(order) // 16]  # from large to small
        predicted = {name: each.on_losses(x_test, y_test).mean(axis=0)[chosen] for name, each in found.items()}
        own = found["newton"].self_influence()[chosen]
        start, before, at = model.get_weights(), np.mean((model(x_test) - y_test) ** 2), (model(x) - y).numpy() ** 2
        changes, own_changes = [], []
        for k in chosen:
            model.set_weights(start)
            train(k)
            changes.append(np.mean((model(x_test) - y_test) ** 2) - before)
            own_changes.append(float((model(x[k : k + 1]) - y[k])[0, 0]) ** 2 - at[k, 0])
    correlations = {name: scipy.stats.pearsonr(each, changes)[0] for name, each in predicted.items()}
    assert correlations["newton"] > 0.95 and correlations["first_order"] > 0.9
    assert scipy.stats.pearsonr(own, own_changes)[0] > 0.95


def mislabelled_digits():
    """600 digits of UCI, 20 of which have a wrong label, and which these are."""
    images, labels = load_digits()
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(labels))[:600]
    x, y = images[chosen].reshape(-1, 64), labels[chosen]
    wrong = rng.choice(600, 20, replace=False)
    y[wrong] = (y[wrong] + rng.integers(1, 10, 20)) % 10
    return x, y, wrong


@pytest.mark.by_day(None)
def test_wrong_labels_of_digits():
    x, y, wrong = mislabelled_digits()
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.001), loss)
    saved = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: checkpoints.append(model.get_weights()))
    checkpoints = []
    model.fit(x, y, batch_size=50, epochs=60, verbose=0, callbacks=[saved])

    def among(scores, first):
        return np.isin(np.argsort(-scores)[:first], wrong).sum()

    norms = tfjac.per_example_gradient_norms(
        lambda: keras.losses.sparse_categorical_crossentropy(y, model(x), from_logits=True), model.trainable_variables
    ).numpy()
    found = tfjac.influence(model, x, y)
    traced = tfjac.influence(model, x, y, method="tracin", checkpoints=checkpoints[::20], learning_rates=0.001)
    counts = {
        name: (among(each, 20), among(each, 40))
        for name, each in (("norms", norms), ("influence", found.self_influence()), ("tracin", traced.self_influence()))
    }
    assert found.removal == "first_order"
    assert counts["influence"][0] >= 16 and counts["influence"][1] >= 18
    assert counts["influence"][0] >= counts["norms"][0]
