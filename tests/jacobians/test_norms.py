"""Norms, clipped and weighted sums of per-example gradients, against one gradient per example."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians import networks
from tests.jacobians.oracles_full import assert_all_close, full_jacobian

NETWORKS = {
    "mlp": (networks.mlp, lambda rng: rng.normal(size=(5, 3))),
    "grouped convolution": (networks.grouped_cnn, lambda rng: rng.normal(size=(4, 4, 4, 3))),
    "embedding": (networks.embedding, lambda rng: rng.integers(0, 50, (4, 5)).astype("int32")),
}


@functools.cache
def setting(name, dtype="float64"):
    """A model, its losses `[n]` as a function, and the gradient of each example by itself, `[n, *v.shape]` each."""
    build, draw = NETWORKS[name]
    model, inputs = build(dtype), draw(np.random.default_rng(20260))
    x = tf.constant(inputs, tf.int32 if inputs.dtype == np.int32 else dtype)

    def losses():
        return tf.reduce_sum(tf.square(model(x) - 0.7), axis=1)

    return model, losses, full_jacobian(losses, [v.value for v in model.trainable_variables])


def norms_of(gradients):
    return np.sqrt(sum(np.sum(g.reshape(len(g), -1) ** 2, axis=1) for g in gradients))


IN_TURN = [
    (name, way, ("native", "twin")[(k + j) % 2])
    for k, name in enumerate(NETWORKS)
    for j, way in enumerate(("eager", "function", "jit"))
]
"""Every two of a network, a way to run and an implementation."""


@pytest.mark.by_day(one_in=9)
@pytest.mark.parametrize("name, compiled, implementation", IN_TURN, indirect=["compiled", "implementation"])
def test_norms(name, compiled, implementation):
    model, losses, gradients = setting(name)
    compute = compiled(lambda: tfjac.per_example_gradient_norms(losses, model.trainable_variables))
    assert_all_close(compute(), norms_of(gradients), 1e-11)


@pytest.mark.core
@pytest.mark.parametrize("name", NETWORKS)
def test_clipped(name, compiled):
    model, losses, gradients = setting(name)
    norms = norms_of(gradients)
    bound = float(np.median(norms))  # some are clipped, some are not
    expected = [np.tensordot(np.minimum(1, bound / norms), g, 1) for g in gradients]
    compute = compiled(lambda: tfjac.clipped_gradients(losses, model.trainable_variables, bound, return_norms=True))
    results, their_norms = compute()
    assert_all_close(results, expected, 1e-11)
    assert_all_close(their_norms, norms, 1e-11)


@pytest.mark.core
def test_clipped_far_above_is_the_batch_gradient():
    model, losses, gradients = setting("mlp")
    results = tfjac.clipped_gradients(losses, model.trainable_variables, 1e9)
    assert_all_close(results, [g.sum(0) for g in gradients], 1e-12)
    zero = tfjac.clipped_gradients(losses, model.trainable_variables, 0.0)
    assert_all_close(zero, [np.zeros(v.shape) for v in model.trainable_variables], 0)


def test_a_bound_for_each_example():
    model, losses, gradients = setting("mlp")
    bounds = norms_of(gradients) * np.array([0.5, 2.0, 1.0, 0.1, 0.0])
    expected = [np.tensordot(np.array([0.5, 1.0, 1.0, 0.1, 0.0]), g, 1) for g in gradients]
    assert_all_close(tfjac.clipped_gradients(losses, model.trainable_variables, bounds), expected, 1e-11)


def test_an_example_without_gradient():
    """0/0 must not come up: the first example's gradient is zero."""
    weight = tf.Variable([1.0, 2.0])
    x = tf.constant([[0.0, 0.0], [3.0, 4.0]])
    gradient = tfjac.clipped_gradients(lambda: tf.reduce_sum(x * weight, 1), weight, 1.0)
    assert_all_close(gradient, np.array([0.6, 0.8], "float32"), 1e-6)


@pytest.mark.core
@pytest.mark.parametrize("name", NETWORKS)
def test_weighted(name, compiled, rng):
    model, losses, gradients = setting(name)
    weights = rng.normal(size=len(gradients[0]))
    compute = compiled(lambda: tfjac.weighted_gradients(losses, model.trainable_variables, weights))
    assert_all_close(compute(), [np.tensordot(weights, g, 1) for g in gradients], 1e-11)


@pytest.mark.core
def test_nests_and_single_precision():
    model, losses, gradients = setting("mlp", "float32")
    kernel, bias, *_ = model.trainable_variables
    results = tfjac.weighted_gradients(losses, {"kernel": kernel, "rest": [bias.value]}, np.ones(5))
    assert_all_close(results["kernel"], gradients[0].sum(0), 1e-5)
    assert_all_close(results["rest"][0], gradients[1].sum(0), 1e-5)
    assert_all_close(tfjac.per_example_gradient_norms(losses, [kernel, bias]), norms_of(gradients[:2]), 1e-5)


@pytest.mark.core
@pytest.mark.unverified("the check takes the dense gradient of the table")
def test_embedding_is_not_densified():
    """A table of a million rows: no tensor of the graph has as many entries, other than the table itself."""
    model = networks.embedding("float32", rows=1_000_000)
    ids = tf.constant([[3, 3, 7, 999_999, 3], [0, 1, 2, 3, 4]])
    compute = tf.function(
        lambda: tfjac.per_example_gradient_norms(lambda: tf.reduce_sum(model(ids), 1), model.trainable_variables)
    ).get_concrete_function()
    sizes = {
        op.name: output.shape.num_elements() or 0
        for op in compute.graph.get_operations()
        for output in op.outputs
        if op.type not in ("ReadVariableOp", "Identity") and output.dtype.is_floating and output.shape.rank is not None
    }
    assert max(sizes.values()) < 100_000
    assert np.all(compute().numpy() > 0)


@pytest.mark.core
def test_empty_batch():
    model = networks.mlp()

    @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float64)])
    def compute(x):
        losses, variables = tf.reduce_sum(model(x), axis=1), model.trainable_variables
        return tfjac.per_example_gradient_norms(losses, variables), tfjac.clipped_gradients(losses, variables, 1.0)

    norms, gradients = compute(tf.zeros([0, 3], tf.float64))
    assert norms.shape == (0,)
    assert_all_close(gradients, [np.zeros(v.shape) for v in model.trainable_variables], 0)


def test_the_norm_is_differentiated_again(rng):
    """‖∂L/∂w‖ for L[n] = sin(w·x[n]) is |cos(w·x[n])|·‖x[n]‖; its slope by differences."""
    x, weight = rng.normal(size=(4, 3)), tf.Variable(rng.normal(size=(3, 1)))

    def total(w):
        return np.sum(np.abs(np.cos(x @ w)[:, 0]) * np.linalg.norm(x, axis=1))

    with tf.GradientTape() as tape:
        norms = tf.reduce_sum(tfjac.per_example_gradient_norms(lambda: tf.sin(x @ weight)[:, 0], weight))
    steps = 1e-6 * np.eye(3)[:, :, None]
    expected = [(total(weight.numpy() + s) - total(weight.numpy() - s)) / 2e-6 for s in steps]
    assert_all_close(tape.gradient(norms, weight), np.reshape(expected, (3, 1)), 1e-7)


MIXED_BY_DATA = {
    "batch normalisation": lambda x: tf.nn.batch_normalization(x, *tf.nn.moments(x, [0]), None, None, 1e-3),
    "attention over the batch": lambda x: tf.nn.softmax(x @ tf.transpose(x)) @ x,
    "standardised": lambda x: (x - tf.reduce_mean(x, 0)) / tf.math.reduce_std(x, 0),
    "softmax over the batch": lambda x: tf.nn.softmax(x, 0),
    "a mean without gradient": lambda x: x - tf.stop_gradient(tf.reduce_mean(x, 0)),
}


@pytest.mark.core
@pytest.mark.parametrize("name", MIXED_BY_DATA)
def test_data_that_mix_before_the_first_weight_are_not_clipped(name, compiled):
    """One example then changes the gradients of all, by more than the bound; each row of J is well defined."""
    w, x = tf.Variable(tf.random.stateless_normal([3, 1], [1, 2])), tf.random.stateless_normal([4, 3], [3, 4])

    def losses():
        return tf.square(MIXED_BY_DATA[name](x) @ w)[:, 0]

    with pytest.raises(tfjac.ExamplesMix, match="examples mix at op"):
        compiled(lambda: tfjac.clipped_gradients(losses, w, 1.0))()
    assert_all_close([tfjac.per_example_gradients(losses, w)], full_jacobian(losses, [w]), 1e-5)


@pytest.mark.core
def test_data_that_all_examples_use_are_clipped(compiled):
    """A table of the classes' weights is not a row of the batch, and the batch is drawn from a table."""
    w, table, classes = tf.Variable([[1.0], [2.0]]), tf.constant([[3.0, 4.0], [0.0, 1.0], [1.0, 1.0]]), [1.0, 0.5]

    def losses():
        x, label = tf.gather(table, tf.constant([0, 1])), tf.constant([0, 1])
        return tf.gather(tf.constant(classes), label) * (x @ w)[:, 0]

    clipped = compiled(lambda: tfjac.clipped_gradients(losses, w, 1.0))()
    np.testing.assert_allclose(clipped[:, 0], [0.6, 0.8 + 0.5], rtol=1e-6)
