"""Gradients at inner nodes, against those of the model's parts put together by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.interception.networks import X, above, below, gradients, network


def test_gradients_and_values_at_several_nodes():
    model = network()
    hidden = below(model, X)
    _, (expected,) = gradients(lambda: above(model, hidden)[:, 1], [hidden])
    score = lambda: model(X)[:, 1]  # noqa: E731
    got, values = tfjac.node_gradients(score, {"low": "relu[0]", "both": "relu", "high": model.layers[-1]}, values=True)
    np.testing.assert_allclose(got["low"], expected, rtol=1e-6)
    np.testing.assert_array_equal(values["low"], hidden)
    assert isinstance(got["both"], list) and len(got["both"]) == 2, "one for each call of a shared layer"
    np.testing.assert_allclose(got["both"][0], expected, rtol=1e-6)
    np.testing.assert_array_equal(got["high"], np.tile([[0, 1, 0]], [6, 1]))


def test_inside_a_function_with_tensors_and_cotangents():
    model, u = network(), np.random.default_rng(1).normal(size=(6, 3)).astype("float32")

    @tf.function
    def traced(x):
        first = tfjac.tap(tf.identity(x), "input")
        y = model(first)
        return tfjac.node_gradients(y, [x, first, "input", "gate", "relu[1]"], cotangents=u)

    x = tf.constant(X)
    _, (expected,) = gradients(lambda: tf.reduce_sum(model(x) * u), [x])
    by_tensor, by_tap_tensor, by_name, _, second = traced(x)
    for each in (by_tensor, by_tap_tensor, by_name):
        np.testing.assert_allclose(each, expected, rtol=1e-5, atol=1e-7)
    hidden = below(model, X)
    middle = model.get_layer("relu")(model.get_layer("second")(hidden))
    rest = lambda: model.get_layer("head")(model.get_layer("inner")(model.get_layer("norm")(middle)))  # noqa: E731
    _, (expected,) = gradients(lambda: tf.reduce_sum(rest() * u), [middle])
    np.testing.assert_allclose(second, expected, rtol=1e-5, atol=1e-7)


def test_one_backward_pass():
    model = network()
    several = ["first", "relu", "second", "norm", "gate", "inner", "head"]

    def products(nodes):
        traced = tf.function(lambda x: tfjac.node_gradients(model(x), nodes)).get_concrete_function(X)
        return sum(op.type == "MatMul" for op in traced.graph.get_operations())

    assert products(several) == products(["first"]), "as many products for all nodes as for the lowest alone"


@pytest.mark.by_day(None)
def test_through_functions_and_saved_models(tmp_path):
    model = network()
    expected = tfjac.node_gradients(lambda: model(X)[:, 0], "relu[0]")
    inner = tf.function(lambda x: model(x))
    inner(X)
    tf.saved_model.save(model, tmp_path)
    kept = tf.saved_model.load(tmp_path)  # its variables live as long as it does
    loaded = kept.signatures["serving_default"]
    for function in (inner, lambda x: next(iter(loaded(x).values()))):
        got = tfjac.node_gradients(lambda function=function: function(tf.constant(X))[:, 0], "relu[0]")
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.by_day(None)
def test_nodes_as_sources_and_results_of_jacobians():
    model = network()
    hidden = below(model, X)
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        y = above(model, hidden)
    expected = tape.batch_jacobian(y, hidden)
    np.testing.assert_allclose(tfjac.batch_jacobian(lambda: model(X), "relu[0]"), expected, rtol=1e-5, atol=1e-7)
    full, weights = tfjac.jacobian(lambda: model(X), ["relu[0]", model.get_layer("head").kernel])
    np.testing.assert_allclose(tf.einsum("nmnj->nmj", full), expected, rtol=1e-5, atol=1e-7)
    assert weights.shape == (6, 3, 6, 3)
    u = np.ones((6, 3), "float32")
    np.testing.assert_allclose(
        tfjac.vjp(lambda: model(X), "relu[0]", u), tf.reduce_sum(expected, 1), rtol=1e-5, atol=1e-6
    )
    v = np.ones((6, 8), "float32")
    np.testing.assert_allclose(
        tfjac.jvp(lambda: model(X), "relu[0]", v), tf.reduce_sum(expected, 2), rtol=1e-5, atol=1e-6
    )
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = below(model, x)
    got = tfjac.batch_jacobian(lambda: tfjac.values_at(model, "relu[0]")(x), x)
    np.testing.assert_allclose(got, tape.batch_jacobian(value, x), rtol=1e-5, atol=1e-7)


@pytest.mark.by_day(None)
def test_second_derivatives_at_nodes():
    model, v = network(), np.random.default_rng(2).normal(size=(6, 8)).astype("float32")
    hidden = below(model, X)
    loss = lambda y: tf.reduce_sum(y**2, 1)  # noqa: E731
    with tf.GradientTape() as outer:
        outer.watch(hidden)
        with tf.GradientTape() as inner:
            inner.watch(hidden)
            total = tf.reduce_sum(loss(above(model, hidden)))
        slope = tf.reduce_sum(v * inner.gradient(total, hidden))
    expected = outer.gradient(slope, hidden)
    got = tfjac.hvp(lambda: loss(model(X)), "relu[0]", v)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        y = above(model, hidden)
    rows = tape.batch_jacobian(y, hidden)
    expected = 2 * tf.einsum("nmi,nmj,nj->ni", rows, rows, v)
    got = tfjac.ggnvp(lambda: model(X), loss, "relu[0]", v)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)

    inner_call = tf.function(lambda x: model(x))

    @tf.function
    def with_tensors(x):
        z = inner_call(x)
        return tfjac.ggnvp(z, loss(z), "net/relu[0]", v)

    np.testing.assert_allclose(with_tensors(tf.constant(X)), expected, rtol=1e-4, atol=1e-6)


def test_second_derivatives_through_edits():
    """As by a tape in a tape where the backward is linear, where it is not, there is no Hessian."""
    kernel, v = tf.Variable(X[:5, :4].astype("float64")), tf.constant(X[1:, :4], tf.float64)
    gate = lambda d, value: d * tf.cos(value)  # noqa: E731

    def loss(gated):
        return tf.reduce_sum(tf.exp(0.1 * gated(tf.sin(X.astype("float64") @ kernel))) ** 2, 1)

    @tf.custom_gradient
    def by_hand(value):
        return tf.identity(value), lambda d: gate(d, value)

    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            total = tf.reduce_sum(loss(by_hand))
        slope = tf.reduce_sum(v * inner.gradient(total, kernel))
    edited = lambda handler: tfjac.intercept(lambda: loss(lambda x: tfjac.tap(x, "gate")), {"gate": handler})  # noqa: E731
    np.testing.assert_allclose(tfjac.hvp(edited(gate), kernel, v), outer.gradient(slope, kernel), rtol=1e-9)
    with pytest.raises(LookupError, match=r"There is no Hessian here: a custom gradient is not linear.*Received: op"):
        tfjac.hvp(edited(tfjac.handlers.clip_by_value(-0.1, 0.1)), kernel, v)

    outputs, edits = lambda: tf.sin(X.astype("float64") @ kernel), tfjac.handlers.clip_by_value(-0.1, 0.1)
    losses = tfjac.intercept(lambda z: tfjac.tap(tf.exp(z), "top") ** 2, {"top": edits})
    with pytest.raises(LookupError, match=r"There is no Hessian here: a custom gradient is not linear.*Received: op"):
        tfjac.ggnvp(outputs, losses, kernel, v)


def test_forward_mode_through_edits():
    """Zeros through a stopped gradient; none through what is not linear, or adds its own, and reverse mode instead."""
    kernel = tf.Variable(X[:5, :3])
    clipped = tfjac.intercept(
        lambda: tfjac.tap(tf.sin(X @ kernel), "top") * 2.0, {"top": tfjac.handlers.clip_by_value(-0.5, 0.5)}
    )
    with pytest.raises(LookupError, match=r"There is no forward mode here.*Take reverse mode. Received: .*not linear"):
        tfjac.jvp(clipped, kernel, X[:5, :3])
    with tf.GradientTape() as tape:
        y = tf.sin(X @ kernel)
    np.testing.assert_allclose(tfjac.jacobian(clipped, kernel), 0.5 * tape.jacobian(y, kernel), rtol=1e-5, atol=1e-7)
    replaced = tfjac.intercept(lambda: tfjac.tap(X @ kernel, "top"), {"top": tfjac.handlers.replace(1.0)})
    with pytest.raises(LookupError, match=r"There is no forward mode here.*adds something of its own"):
        tfjac.jvp(replaced, kernel, X[:5, :3])
    stopped = tfjac.intercept(lambda: tfjac.tap(tf.sin(X @ kernel), "top") + 0.0, {"top": tfjac.handlers.stop()})
    np.testing.assert_array_equal(tfjac.jacobian(stopped, kernel, mode="forward"), np.zeros([6, 3, 5, 3]))


@pytest.mark.by_day(None)
def test_shared_nodes_as_weights_of_per_example_functions():
    """What is computed of weights, for which examples have gradients as for a weight."""
    kernel, mask = tf.Variable(np.random.default_rng(3).normal(size=(5, 2)).astype("float32")), np.eye(5, 2)

    def compute(weight):
        return tf.tanh(X @ weight)

    def losses():
        return tf.reduce_sum(compute(tfjac.tap(kernel * mask, "masked")) ** 2, 1)

    def outputs():
        return compute(tfjac.tap(kernel * mask, "masked"))

    weight = tf.convert_to_tensor(kernel * mask)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(weight)
        y = compute(weight)
        loss = tf.reduce_sum(y**2, 1)
    rows, gradients = tape.jacobian(y, weight).numpy(), tape.jacobian(loss, weight).numpy()
    norms = np.linalg.norm(gradients.reshape(6, -1), axis=1)
    clipped = np.einsum("n,nij->ij", np.minimum(1, 0.5 / norms), gradients)
    weights = np.arange(6, dtype="float32") - 2
    segments = lambda: tf.math.unsorted_segment_sum(losses(), [0, 0, 1, 1, 2, 2], 3)  # noqa: E731
    for got, expected in [
        (tfjac.per_example_gradients(losses, "masked"), gradients),
        (tfjac.per_example_gradient_norms(losses, ["masked"]), norms),
        (tfjac.clipped_gradients(losses, "masked", 0.5), clipped),
        (tfjac.weighted_gradients(losses, {"w": "masked"}, weights)["w"], np.einsum("n,nij->ij", weights, gradients)),
        (tfjac.per_example_jacobian(outputs, "masked"), rows),
        (tfjac.jacobian_operator(outputs, "masked").to_dense(), rows.reshape(12, 10)),
        (tfjac.per_segment_gradients(segments, "masked"), gradients.reshape(3, 2, 5, 2).sum(1)),
        (
            tfjac.segment_operator(segments, "masked").row_norms(),
            np.linalg.norm(gradients.reshape(3, -1, 10).sum(1), axis=1),
        ),
        (tf.sparse.to_dense(tfjac.sparse_jacobian(outputs, "masked")), rows.reshape(12, 10)),
    ]:
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
    assert tfjac.sparsity(outputs, "masked").num_entries == 60
    with pytest.raises(ValueError, match=r"a part of its own for each example.*batch_jacobian and node_gradients"):
        tfjac.per_example_gradients(lambda: tf.reduce_sum(network()(X), 1), "relu[0]")


def test_nodes_at_both_ends():
    model = network()
    hidden, relu = below(model, X), model.get_layer("relu")
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        second = relu(model.get_layer("second")(hidden))
    got = tfjac.batch_jacobian(lambda: tfjac.values_at(model, "relu[1]")(X), "relu[0]")
    np.testing.assert_allclose(got, tape.batch_jacobian(second, hidden), rtol=1e-5, atol=1e-7)


def test_what_has_no_gradient():
    x = tf.constant(X)
    compute = lambda: tf.stop_gradient(tfjac.tap(tf.sin(x), "stopped")) + tfjac.tap(x, "kept")  # noqa: E731
    assert tfjac.node_gradients(compute, "stopped") is None
    zeros, ones = tfjac.node_gradients(compute, ["stopped", "kept"], unconnected_gradients="zero")
    np.testing.assert_array_equal(zeros, 0 * X)
    np.testing.assert_array_equal(ones, 0 * X + 1)


def test_nodes_that_cannot_be():
    model = keras.Sequential([keras.Input((4, 3)), keras.layers.LSTM(2)])
    x = np.ones((2, 4, 3), "float32")
    with pytest.raises(ValueError, match=r"inside a loop.*tfjac.intercept.*Received: 'lstm_cell:0'.*'.*while'"):
        tfjac.node_gradients(lambda: model(x), "lstm_cell:0")
    with pytest.raises(TypeError, match=r"no floating-point tensor. Received: .*int64"):
        tfjac.node_gradients(lambda: tf.cast(tfjac.tap(tf.argmax(X, 1), "index"), tf.float32), "index")
    with pytest.raises(ValueError, match="ys is an eager tensor"):
        tfjac.node_gradients(tf.constant(X), "relu")
    with pytest.raises(ValueError, match=r"Each of xs must be one node.*Received: 'relu', which selects 2"):
        tfjac.batch_jacobian(lambda: network()(X), "relu")
