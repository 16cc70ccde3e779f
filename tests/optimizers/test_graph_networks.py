"""Residuals per graph of a batch of graphs: J by segments where graphs are apart, else row by row."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.optimizers.gauss_newton import damped_step, first_step, flat_values
from tfjac.optimizers import ConjugateGradientSolver, LevenbergMarquardt, NielsenDamping

FEATURES, HIDDEN = 3, 4


def batch_of_graphs(rng, sizes):
    """Rings of nodes, with a number for each graph that a network can learn."""
    nodes, senders, receivers = rng.normal(size=(sum(sizes), FEATURES)), [], []
    for first, size in zip(np.cumsum([0, *sizes]), sizes):
        senders += [first + k for k in range(size)]
        receivers += [first + (k + 1) % size for k in range(size)]
    graph_of_node = np.repeat(np.arange(len(sizes)), sizes)
    order = rng.permutation(len(senders))
    return {
        "nodes": nodes,
        "senders": np.array(senders, np.int32)[order],
        "receivers": np.array(receivers, np.int32)[order],
        "graph_of_node": graph_of_node.astype(np.int32),
        "target": np.array([np.sin(nodes[graph_of_node == k]).sum() for k in range(len(sizes))])[:, None],
    }


def joined_by_an_edge(batch):
    """The same with an edge between the first and the last graph."""
    ends = {"senders": [0], "receivers": [len(batch["nodes"]) - 1]}
    return batch | {name: np.append(batch[name], end).astype(np.int32) for name, end in ends.items()}


class Network(keras.Model):
    """One round of messages along the edges, and a readout of the sum over nodes."""

    def __init__(self, dtype="float64"):
        super().__init__(dtype=dtype)
        self.message = keras.layers.Dense(HIDDEN, "tanh", dtype=dtype)
        self.update = keras.layers.Dense(HIDDEN, "tanh", dtype=dtype)
        self.read = keras.layers.Dense(1, dtype=dtype)

    def call(self, batch):
        h, receivers = batch["nodes"], batch["receivers"]
        messages = self.message(tf.concat([tf.gather(h, batch["senders"]), tf.gather(h, receivers)], 1))
        received = tf.math.unsorted_segment_sum(messages, receivers, tf.shape(h)[0])
        h = self.update(tf.concat([h, received], 1))
        count = tf.shape(batch["target"])[0]
        return self.read(tf.math.unsorted_segment_sum(h, batch["graph_of_node"], count))


@pytest.fixture
def network(rng):
    keras.utils.set_random_seed(3)
    model = Network()
    model(batch_of_graphs(rng, [2, 2]))
    return model


def squares(model, batch):
    return 0.5 * tf.reduce_sum(tf.square(model(batch) - batch["target"]))


@pytest.mark.by_day(None)
@pytest.mark.parametrize("solver", ["cholesky", "kernel", ConjugateGradientSolver(1e-12, 500), "qr"])
@pytest.mark.parametrize("change", [dict, joined_by_an_edge], ids=["apart", "joined"])
def test_step(network, rng, solver, change):
    batch = change(batch_of_graphs(rng, [3, 1, 5, 2, 4]))
    expected = damped_step(lambda: network(batch) - batch["target"], network.trainable_variables)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        step, _ = first_step(lambda: squares(network, batch), network.trainable_variables, solver=solver)
    np.testing.assert_allclose(step, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.by_day(None)
def test_one_trace_serves_both(network, rng):
    """Whether graphs are apart shows when a step runs: batches of any size, of either kind, go through one trace."""
    optimizer = LevenbergMarquardt(NielsenDamping(1e-2), solver="cholesky")
    optimizer.build(network.trainable_variables)
    specs = {
        name: tf.TensorSpec([None, *value.shape[1:]], value.dtype) for name, value in batch_of_graphs(rng, [1]).items()
    }

    @tf.function(input_signature=[specs], autograph=False)
    def step(batch):
        optimizer.minimize(lambda: network(batch) - batch["target"], network.trainable_variables)

    start = [variable.numpy() for variable in network.trainable_variables]
    state = [variable.numpy() for variable in optimizer.variables]
    for sizes in ([3, 1, 5, 2, 4], [2, 0, 6]):
        for change in (dict, joined_by_an_edge):
            for variable, value in zip((*network.trainable_variables, *optimizer.variables), (*start, *state)):
                variable.assign(value)
            batch = change(batch_of_graphs(rng, sizes))
            before = flat_values(network.trainable_variables)
            expected = damped_step(lambda: network(batch) - batch["target"], network.trainable_variables)  # noqa: B023
            step({name: tf.constant(value) for name, value in batch.items()})
            np.testing.assert_allclose(
                flat_values(network.trainable_variables) - before, expected, rtol=1e-4, atol=1e-7
            )


@pytest.mark.by_day(None)
def test_fit(rng):
    """Batches of graphs in a data set: a plain Keras model, sample weights and an L2 penalty included."""
    keras.utils.set_random_seed(3)
    model = Network("float32")
    model.update.kernel_regularizer = keras.regularizers.L2(1e-3)
    batch = batch_of_graphs(rng, rng.integers(1, 7, 40))
    weights = rng.uniform(0.5, 2.0, 40)
    batch = {name: np.float32(value) if value.dtype == np.float64 else value for name, value in batch.items()}
    model(batch)
    model.compile(optimizer=LevenbergMarquardt(), loss="mse")
    inputs = {name: tf.constant(value) for name, value in batch.items()}
    data = tf.data.Dataset.from_tensors((inputs, tf.constant(batch["target"]), tf.constant(weights, tf.float32)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        logs = model.fit(data.repeat(30), steps_per_epoch=1, epochs=30, verbose=0, shuffle=False).history
    assert logs["loss"][-1] < 0.02 * logs["loss"][0]


def means(weights, x, ids, count):
    return tf.math.unsorted_segment_mean(tf.tanh(x @ weights), ids, count) - 1.0


def padded(weights, x, ids, count):
    """Groups as rows of one tensor, as long as the longest: its size is a constant that the trial in a loop reads."""
    rows = tf.RaggedTensor.from_value_rowids(tf.tanh(x @ weights), ids, count).to_tensor()
    return tf.reduce_sum(tf.tanh(rows), axis=1) - 1.0


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("pooled", [means, padded])
def test_a_weight_for_each_group_of_a_batch_of_any_size(pooled, rng):
    weights, x = tf.Variable(rng.normal(size=(3, 2))), rng.normal(size=(6, 3))
    ids, weight = np.array([0, 0, 1, 2, 2, 2], np.int32), np.array([0.5, 1.0, 2.0])
    expected = damped_step(lambda: np.sqrt(weight)[:, None] * pooled(weights, x, ids, 3), [weights])
    start, optimizer = weights.numpy(), LevenbergMarquardt(NielsenDamping(1e-2), solver="cholesky")
    optimizer.build([weights])
    specs = [tf.TensorSpec([None, 3], tf.float64), tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.float64)]

    @tf.function(input_signature=specs, autograph=False)
    def step(x, ids, weight):
        squares = tf.square(tf.reshape(pooled(weights, x, ids, tf.size(weight)), [-1, 2]))
        loss = optimizer.scale_loss(tf.reduce_sum(squares * weight[:, None]) / 2)
        optimizer.apply(tf.gradients(loss, [weights]), [weights])

    step(x, ids, weight)
    np.testing.assert_allclose((weights.numpy() - start).ravel(), expected, rtol=1e-6)
