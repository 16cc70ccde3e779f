"""Backpropagation by parts: gradients given at nodes, branch by branch, from several sources, and in a game."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.interception.networks import X, below, gradients, network
from tests.memory import run_alone

Y = np.random.default_rng(5).normal(size=(6, 3)).astype("float32")


def values(model):
    return [variable.value for variable in model.trainable_variables]


def test_known_gradients_at_several_nodes():
    """What is given at a hidden layer and at the result is added up where they meet, down to the weights."""
    model, rng = network(), np.random.default_rng(7)
    hidden_u, top_u = rng.normal(size=(6, 8)).astype("float32"), rng.normal(size=(6, 3)).astype("float32")
    at_both = tfjac.values_at(model, {"hidden": "relu[0]", "top": "head"})
    got = tfjac.vjp(lambda: at_both(X), values(model), {"hidden": hidden_u, "top": top_u}, unconnected_gradients="zero")
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(below(model, X) * hidden_u) + tf.reduce_sum(model(X) * top_u)
    expected = tape.gradient(total, values(model))
    assert len(got) == len(expected) > 4
    for one, other in zip(got, expected):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.by_day(None)
def test_sources_pooled_for_an_optimizer():
    """Gradients at the result, by NumPy, of two sources one after the other; the step is that of the whole batch."""
    model, whole = network(), network()
    whole.set_weights(model.get_weights())
    pull = tf.function(lambda x, u: tfjac.vjp(lambda: model(x), values(model), u))
    pooled = [np.zeros(variable.shape) for variable in model.trainable_variables]
    for rows in (slice(0, 2), slice(2, 6)):
        x = tf.constant(X[rows])
        at_result = 2 * (model(x).numpy() - Y[rows]) / Y.size  # as another process might send it
        pooled = [total + part for total, part in zip(pooled, json_round_trip(pull(x, at_result)))]
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.apply([tf.cast(each, tf.float32) for each in pooled], model.trainable_variables)
    reference = keras.optimizers.Adam(0.1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((whole(X) - Y) ** 2)
    reference.apply(tape.gradient(loss, values(whole)), whole.trainable_variables)
    for one, other in zip(model.trainable_variables, whole.trainable_variables):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


def json_round_trip(gradients):
    return [np.array(json.loads(json.dumps(each.numpy().tolist()))) for each in gradients]


BRANCHES = """
import json
import tensorflow as tf
import tfjac
from tests.memory import peak_megabytes

weight, x = tf.Variable([[0.5]]), tf.random.stateless_normal([1_000_000, 1], [1, 2])

def branch(shift):
    h = x @ weight
    for _ in range(10):
        h = tf.sin(h + shift)
    return h

def loss(shifts):
    return tf.reduce_sum(tf.add_n([branch(shift) for shift in shifts]) ** 2)

forward = tf.function(branch)
pull = tf.function(lambda shift, u: tfjac.vjp(lambda: branch(shift), weight, u))
shifts = [tf.constant(0.1 * k) for k in range(8)]
start = peak_megabytes()
result = tf.zeros_like(x)
for shift in shifts:
    result += forward(shift)
total = tf.zeros_like(weight)
for shift in shifts:
    total += pull(shift, 2.0 * result)
one_by_one = peak_megabytes() - start
at_once = tf.function(lambda: tf.gradients(loss(shifts), weight)[0])()
everything = peak_megabytes() - start
error = float(tf.reduce_max(tf.abs(total - at_once) / tf.abs(at_once)))
print(json.dumps([one_by_one, everything, error]))
"""


@pytest.mark.by_day(None)
def test_a_fan_in_branch_by_branch_takes_the_memory_of_one():
    """Σ of branches behind a square: all are needed before the first is gone back through, unless it runs again."""
    one_by_one, at_once, error = run_alone(BRANCHES)
    assert error < 1e-4
    assert one_by_one < at_once / 2, "eight branches of forty megabytes each"


def test_a_group_of_layers_reversed_alone():
    """Two edits: what is between them ascends, what is below and above descends."""
    model = network()
    edits = {"norm": tfjac.handlers.reverse(), "relu[0]": tfjac.handlers.reverse()}
    loss = lambda y: tf.reduce_mean((y - Y) ** 2)  # noqa: E731
    edited = tfjac.intercept(model, edits)
    _, got = gradients(lambda: loss(edited(X)), list(model.trainable_variables))
    _, plain = gradients(lambda: loss(model(X)), list(model.trainable_variables))
    signs = {"second": -1.0, "norm": -1.0}
    for variable, one, other in zip(model.trainable_variables, got, plain):
        sign = signs.get(variable.path.split("/")[-2], 1.0)
        np.testing.assert_allclose(one, sign * other, rtol=1e-4, atol=1e-6, err_msg=variable.path)


def test_a_game_of_variables_by_taps():
    """min over a, max over b, of one function, from one backward pass."""
    a, b = tf.Variable([1.0, 2.0]), tf.Variable([0.5, -1.0])

    def game():
        return (
            tf.reduce_sum(a * tfjac.tap(b, "rival"))
            + 0.5 * tf.reduce_sum(a**2)
            - tf.reduce_sum(tfjac.tap(b, "own") ** 2)
        )

    edited = tfjac.intercept(game, dict.fromkeys(["rival", "own"], tfjac.handlers.reverse()))
    with tf.GradientTape() as tape:
        value = edited()
    of_a, of_b = tape.gradient(value, [a, b])
    np.testing.assert_allclose(of_a, a + b)
    np.testing.assert_allclose(of_b, -(a - 2 * b))
