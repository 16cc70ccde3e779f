"""Functions with edits and rules inside, against the same model put together by hand with the edit in place."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.interception.networks import X, above, below, gradients, network


def with_gradient(x, function):
    """An identity with a gradient, written independently of what is tested."""
    return tf.custom_gradient(lambda x: (tf.identity(x), function))(x)


def all_gradients(compute, model, x):
    """The value, and the gradient of its sum of squares with respect to x and all weights."""
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = compute(x)
        loss = tf.reduce_sum(value**2)
    return value, tape.gradient(loss, [x, *(v.value for v in model.trainable_variables)])


def assert_same(got, expected, rtol=1e-5):
    """To rounding: which kernels compute a layer differs between graphs, on some processors."""
    for one, other in zip([got[0], *got[1]], [expected[0], *expected[1]]):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-6)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("where", ["eager", "function", "xla"])
def test_a_handler_at_one_call_of_a_shared_layer(where):
    model = network()
    edited = tfjac.intercept(model, {"relu[0]": lambda gradient: tf.clip_by_value(gradient, -0.1, 0.2)})
    run = {"eager": lambda f: f, "function": tf.function, "xla": lambda f: tf.function(f, jit_compile=True)}[where]
    by_hand = lambda x: above(model, with_gradient(below(model, x), lambda d: tf.clip_by_value(d, -0.1, 0.2)))  # noqa: E731
    got = all_gradients(run(edited), model, X)
    expected = all_gradients(run(by_hand), model, X)
    assert_same(got, expected)
    plain = all_gradients(run(model), model, X)
    np.testing.assert_allclose(got[0], plain[0], rtol=1e-5, atol=1e-6)
    assert np.abs(got[1][0] - plain[1][0]).max() > 0.01, "the handler has something to clip"


@pytest.mark.core
def test_handlers_are_given_values_and_nodes():
    model, seen = network(), []

    def gate(gradient, value, node):
        seen.append(str(node))
        return gradient * tf.tanh(value)

    got = all_gradients(tfjac.intercept(model, {"relu[0]": gate}), model, X)
    by_hand = lambda x: above(model, _gated(below(model, x)))  # noqa: E731
    assert_same(got, all_gradients(by_hand, model, X))
    assert set(seen) == {"layer 'net/relu' of type ReLU"}


@tf.custom_gradient
def _gated(x):
    return tf.identity(x), lambda d: d * tf.tanh(x)


@pytest.mark.core
def test_forward_edits_are_seen_by_what_follows():
    model = network()
    seen = []
    patched = tfjac.intercept(
        model,
        {
            "relu[0]": tfjac.Edit(forward=lambda value: value * 0.5, backward=lambda d: 3.0 * d),
            "relu[1]": lambda d, value: seen.append(value) or d * value,
        },
    )
    layer = model.get_layer

    def by_hand(x):
        first = with_gradient(below(model, x) * 0.5, lambda d: 3.0 * d)
        second = layer("relu")(layer("second")(first))
        second = tf.custom_gradient(lambda v: (tf.identity(v), lambda d: d * v))(second)
        return layer("head")(layer("inner")(layer("norm")(second)))

    assert_same(all_gradients(patched, model, X), all_gradients(by_hand, model, X))


@pytest.mark.core
def test_rules_replace_the_backward_of_ops():
    model = network()
    rules = {"Relu": lambda op, d: d * tf.cast((op.inputs[0] > 0) & (d > 0), d.dtype)}
    layer = model.get_layer

    @tf.custom_gradient
    def guided(x):
        return tf.nn.relu(x), lambda d: d * tf.cast((x > 0) & (d > 0), d.dtype)

    def by_hand(x):
        second = guided(layer("second")(guided(layer("first")(x))))
        return layer("head")(guided(layer("inner").get_layer("gate")(layer("norm")(second))))

    expected = all_gradients(by_hand, model, X)
    assert_same(all_gradients(tfjac.intercept(model, rules=rules), model, X), expected)
    assert_same(all_gradients(tfjac.intercept(model, rules={"Relu": tfjac.rules.guided}), model, X), expected)
    for selector in (tfjac.op_type("Relu"), "*/Relu", lambda node: node.op_type.lower() == "relu"):
        assert_same(all_gradients(tfjac.intercept(model, rules={selector: tfjac.rules.guided}), model, X), expected)


def test_a_rule_where_there_is_no_gradient():
    x, w = tf.constant([0.2, 1.7, -2.4]), tf.Variable([1.0, 2.0, 3.0])
    rounded = tfjac.intercept(lambda x: tf.round(x * w), rules={"Round": tfjac.rules.straight_through})
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = rounded(x)
    got = tape.gradient(y, [x, w])
    np.testing.assert_array_equal(y, np.round(x * w))
    np.testing.assert_allclose(got[0], w)
    np.testing.assert_allclose(got[1], x)
    chosen = tfjac.handlers.straight_through(lambda logits: tf.one_hot(tf.argmax(logits, -1), 3))
    hard = tfjac.intercept(lambda x: tfjac.tap(x * w, "logits"), {"logits": chosen})
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(hard(x) * [1.0, 10.0, 100.0])
    np.testing.assert_allclose(y, 10.0)
    np.testing.assert_allclose(tape.gradient(y, x), w * [1.0, 10.0, 100.0])
    with pytest.raises(ValueError, match=r"straight through an op.*Received: op 'ArgMax' of type ArgMax, from "):
        op = tf.function(lambda x: tf.argmax(x)).get_concrete_function(x).graph.get_operations()
        argmax = next(each for each in op if each.type == "ArgMax")
        tfjac.rules.straight_through(argmax, tf.zeros([], tf.float32))


@pytest.mark.by_day(None)
def test_in_loops_and_branches():
    """Rules and edits in the bodies of an LSTM and of a conditional."""
    keras.utils.set_random_seed(0)
    lstm, dense = keras.layers.LSTM(2, activation="silu", dtype="float64"), keras.layers.Dense(1, dtype="float64")
    model = keras.Sequential([keras.Input((4, 3), dtype="float64"), lstm, dense])
    x = tf.random.normal([3, 4, 3], seed=0, dtype=tf.float64)
    cell = model.layers[0].cell

    def by_hand(x, sigmoid=tf.sigmoid, state=tf.identity):
        kernel, recurrent, bias = map(tf.convert_to_tensor, (cell.kernel, cell.recurrent_kernel, cell.bias))
        h = c = tf.zeros([3, 2], tf.float64)
        for k in range(4):
            i, f, g, o = tf.split(x[:, k] @ kernel + h @ recurrent + bias, 4, 1)
            c = sigmoid(f) * c + sigmoid(i) * tf.nn.silu(g)
            h, c = state(sigmoid(o) * tf.nn.silu(c)), c
        return model.layers[1](h)

    @tf.custom_gradient
    def flat(x):
        return tf.sigmoid(x), lambda d: 0.25 * d

    plain = all_gradients(model, model, x)
    ruled = tfjac.intercept(model, rules={"Sigmoid": lambda op, d: 0.25 * d})
    got, expected = all_gradients(ruled, model, x), all_gradients(lambda x: by_hand(x, sigmoid=flat), model, x)
    np.testing.assert_allclose(got[0], plain[0], rtol=1e-9)
    halves = dict.fromkeys(["lstm_cell:0", "lstm_cell:1"], lambda d: 0.5 * d)  # what it returns, and its state
    halved = all_gradients(tfjac.intercept(model, halves), model, x)
    np.testing.assert_allclose(halved[0], plain[0], rtol=1e-9)
    half = lambda h: with_gradient(h, lambda d: 0.5 * d)  # noqa: E731
    for one, other in [
        (got, expected),
        (plain, all_gradients(by_hand, model, x)),
        (halved, all_gradients(lambda x: by_hand(x, state=half), model, x)),
    ]:
        for a, b in zip(one[1], other[1]):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert np.abs(got[1][0] - plain[1][0]).max() > 1e-4 * np.abs(plain[1][0]).max()

    def branching(x):
        up, down = lambda: tfjac.tap(tf.exp(x), "up") * 2, lambda: tfjac.tap(tf.cos(x), "down")
        return tf.cond(tf.reduce_sum(x) > 0, up, down)

    edited = tf.function(tfjac.intercept(branching, {"up": lambda d: 10 * d, "down": tfjac.handlers.stop()}))
    for value, expected in ((0.5, 20 * np.exp(0.5)), (-0.5, 0.0)):
        _, (_gradient,) = gradients(lambda value=value: edited(tf.constant(value)), [tf.constant(value)])
        x = tf.constant(value)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = edited(x)
        np.testing.assert_allclose(tape.gradient(y, x), expected, rtol=1e-6)


@pytest.mark.by_day(None)
def test_compositions_and_derivatives_of_any_kind():
    model = network()
    once = tfjac.intercept(model, {"relu[0]": tfjac.handlers.scale(0.5)})
    twice = tfjac.intercept(once, {"relu[0]": tfjac.handlers.scale(0.5), "inner": tfjac.handlers.reverse()})
    x = tf.constant(X)
    plain, quarter = all_gradients(model, model, X), all_gradients(twice, model, X)
    np.testing.assert_allclose(plain[0], quarter[0], rtol=1e-5, atol=1e-6)
    for factor, one, other in zip([-0.25] * 3 + [-1.0] * 6 + [1.0] * 2, quarter[1], plain[1]):
        np.testing.assert_allclose(one, factor * other, rtol=1e-5, atol=1e-6)
    expected = -0.25 * tfjac.batch_jacobian(lambda: model(x), x)
    np.testing.assert_allclose(tfjac.batch_jacobian(lambda: twice(x), x), expected, rtol=1e-5, atol=1e-7)
    traced = tf.function(lambda x: tf.gradients(twice(x), x)[0])
    np.testing.assert_allclose(traced(x), tf.reduce_sum(expected, 1), rtol=1e-4, atol=1e-6)
    norms = tfjac.per_example_gradient_norms(lambda: tf.reduce_sum(twice(x) ** 2, 1), model.trainable_variables)
    for row in range(len(X)):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(twice(x[row : row + 1]) ** 2)
        parts = tape.gradient(loss, [v.value for v in model.trainable_variables])
        np.testing.assert_allclose(norms[row], np.sqrt(sum(np.sum(np.square(part)) for part in parts)), rtol=1e-4)


@pytest.mark.parametrize("edit", [tfjac.handlers.stop(), lambda gradient: tf.zeros(tf.shape(gradient))])
def test_examples_are_apart_where_nothing_passes_back(edit):
    w = tf.Variable(np.random.default_rng(0).normal(size=(X.shape[1], 2)).astype("float32"))

    def model(x):
        return tfjac.tap(tf.tanh(x @ w), "here") + tf.sin(x[:, :2])

    @tf.function(input_signature=[tf.TensorSpec([None, X.shape[1]])])
    def jacobians(x):
        y = tfjac.intercept(model, {"here": edit})(x)
        return tfjac.batch_jacobian(y, x), tfjac.per_example_jacobian(y, w)

    by_inputs, by_weights = jacobians(tf.constant(X))
    np.testing.assert_allclose(by_inputs, np.eye(2, X.shape[1]) * np.cos(X[:, :2, None]), rtol=1e-6)
    assert not np.any(by_weights)


def test_a_function_intercepted_twice():
    """One that TensorFlow has already has a Python function behind it, which knows nothing of the first edits."""
    x = tf.constant(X)
    once = tfjac.intercept(tf.function(lambda x: tfjac.tap(tf.sin(x), "wave")), {"wave": tfjac.handlers.scale(3.0)})
    twice = tfjac.intercept(once, {"wave": tfjac.handlers.scale(-2.0)})
    np.testing.assert_allclose(tfjac.vjp(lambda: twice(x), x), -6.0 * np.cos(X), rtol=1e-5)
    got = tfjac.vjp(lambda: tfjac.values_at(once, "wave")(x), x)
    np.testing.assert_allclose(got, 3.0 * np.cos(X), rtol=1e-5)


def test_methods_that_would_run_without_the_edits():
    model = network()
    ablated = tfjac.intercept(model, {"relu[0]": tfjac.Edit(forward=tf.zeros_like)})
    assert ablated.layers == model.layers and ablated.fn is model and not hasattr(ablated, "fit")
    with pytest.raises(AttributeError, match=r"would run without the edits. .*tfjac.hook.*Received: 'predict'"):
        ablated.predict(X)


def test_a_tape_inside_a_function():
    model = network()
    edits, rules = {"relu[0]": tfjac.handlers.scale(3.0)}, {"Sigmoid": lambda op, d: d}
    edited = tfjac.intercept(model, edits, rules)
    got = tf.function(lambda: all_gradients(edited, model, X))()
    assert_same(got, all_gradients(edited, model, X))
    assert np.abs(got[1][0] - all_gradients(model, model, X)[1][0]).max() > 0.01


def test_training_a_model_with_an_intercepted_one_inside():
    class Reversed(keras.Model):
        def __init__(self):
            super().__init__()
            self.net = network()
            self.edited = tfjac.intercept(self.net, {"first": tfjac.handlers.scale(-2.0)})

        def call(self, x):
            return self.edited(x)

    model = Reversed()
    model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)
    _, (expected,) = gradients(lambda: tf.reduce_mean(model.net(X) ** 2), [model.net.get_layer("first").kernel])
    before = model.net.get_layer("first").kernel.numpy()
    model.fit(X, np.zeros((6, 3)), batch_size=6, verbose=0)
    moved = model.net.get_layer("first").kernel.numpy() - before
    np.testing.assert_allclose(moved, 0.1 * 2.0 * expected, rtol=1e-4, atol=1e-7)


def test_what_a_function_does_besides_is_done_once():
    model = network()
    norm, counter = model.get_layer("norm"), tf.Variable(0)

    def step(x):
        counter.assign_add(1)
        return model(x, training=True)

    edited = tfjac.intercept(tf.function(step), {"head": tfjac.handlers.scale(2.0)})
    start = norm.moving_mean.numpy()
    model(X, training=True)
    moved = norm.moving_mean.numpy()
    norm.moving_mean.assign(start)
    edited(X)
    np.testing.assert_allclose(norm.moving_mean, moved, rtol=1e-6)
    assert counter.numpy() == 1 and np.abs(moved - start).max() > 0
    assert edited.fn is not None and tfjac.intercept(model).trainable_variables == model.trainable_variables


@pytest.mark.by_day(None)
def test_a_saved_model(tmp_path):
    model = network()
    tf.saved_model.save(model, tmp_path)
    loaded = tf.saved_model.load(tmp_path)
    serve = lambda x: loaded.signatures["serving_default"](x)["output_0"]  # noqa: E731
    guided = tfjac.intercept(serve, rules={"Relu": tfjac.rules.guided})
    expected = all_gradients(tfjac.intercept(model, rules={"Relu": tfjac.rules.guided}), model, X)
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = guided(x)
        loss = tf.reduce_sum(y**2)
    np.testing.assert_allclose(tape.gradient(loss, x), expected[1][0], rtol=1e-4, atol=1e-6)


def test_structures_and_arguments():
    def fn(pair, *, scale=1.0, training=False):
        a, b = pair
        return {"sum": tfjac.tap(a + b, "sum") * scale, "training": training, "none": None}

    edited = tfjac.intercept(fn, {"sum": tfjac.Edit(forward=lambda v: v * 10)})
    result = edited((tf.constant(1.0), tf.constant(2.0)), scale=2.0)
    assert float(result["sum"]) == 60.0 and not result["training"] and result["none"] is None


@pytest.mark.by_day(None)
def test_taps_in_a_vectorised_map():
    """One tensor for all slices there; what a handler is given is the gradient of them all."""
    x, seen = tf.constant(X), []
    mapped = lambda x: tf.vectorized_map(lambda row: tfjac.tap(tf.sin(row), "row") * tf.reduce_sum(row), x)  # noqa: E731
    edited = tfjac.intercept(mapped, {"row": lambda d: seen.append(d.shape) or 3.0 * d})
    got = tfjac.vjp(lambda: edited(x), x)
    total = X.sum(1, keepdims=True)
    expected = 3 * np.cos(X) * total + np.sin(X).sum(1, keepdims=True)
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert {tuple(shape) for shape in seen} == {X.shape}
    shared = lambda x: tf.vectorized_map(lambda row: tfjac.tap(tf.sin(x[0]), "all") * row, x)  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what stands for all slices is no gradient that was taken
        shared = tfjac.intercept(shared, {"all": lambda d: 3.0 * d})
        got = tfjac.vjp(lambda: shared(x), x)
    np.testing.assert_allclose(got[1:], np.tile(np.sin(X[:1]), (5, 1)), rtol=1e-5)
    lost = lambda x: tf.vectorized_map(lambda row: (tfjac.tap(tf.sin(row), "lost"), row)[1], x)  # noqa: E731
    with pytest.raises(ValueError, match=r"Only what the results are computed from can be.*Received: 'lost', and"):
        tfjac.intercept(lost, {"lost": tfjac.handlers.stop()})(x)
    layer = keras.layers.Dense(2, name="inner")
    of_layer = lambda x: tf.vectorized_map(lambda row: layer(row[None])[0], x)  # noqa: E731
    np.testing.assert_allclose(tfjac.values_at(of_layer, layer)(x)[:, 0], layer(x), rtol=1e-5)
    timed = keras.Sequential([keras.Input((4, 5)), keras.layers.TimeDistributed(layer)])
    with pytest.raises(ValueError, match=r"its `call` alone, as TimeDistributed does.*tfjac.hook"):
        tfjac.values_at(timed, layer)(tf.zeros([2, 4, 5]))


@pytest.mark.core
def test_what_cannot_be():
    model = network()
    with pytest.raises(ValueError, match=r"No node is selected by 'relu\[5\]'"):
        tfjac.intercept(model, {"relu[5]": tfjac.handlers.stop()})(X)
    with pytest.raises(TypeError, match=r"fn must be callable. Received: 3"):
        tfjac.intercept(3)
    for wrong in ([], "relu"):
        with pytest.raises(TypeError, match=r"edits must be a dict.*Received: "):
            tfjac.intercept(model, wrong or [1])
    with pytest.raises(TypeError, match=r"backward must be a function of a tensor. Received: 3 of type int"):
        tfjac.intercept(model, {"relu": 3})
    with pytest.raises(ValueError, match=r"An edit needs forward=, backward= or both"):
        tfjac.Edit()
    with pytest.raises(TypeError, match=r"A rule must be a function of an op.*Received: 3"):
        tfjac.intercept(model, rules={"Relu": 3})
    with pytest.raises(ValueError, match=r"A rule is for ops.*Received: 'relu', which selects layer 'net/relu'"):
        tfjac.intercept(model, rules={"relu": tfjac.rules.guided})(X)
    with pytest.raises(ValueError, match=r"forward edit of layer 'net/first'.*shape and dtype.*Received: \(8,\)"):
        tfjac.intercept(model, {"first": tfjac.Edit(forward=lambda v: v[0])})(X)
    with pytest.raises(TypeError, match=r"No gradient passes a node.*Received: .*tap 'index'.*int64"):
        tfjac.intercept(lambda x: tfjac.tap(tf.argmax(x, 1), "index"), {"index": tfjac.handlers.stop()})(X)
    x = tf.constant(X)
    for handler, error, message in [
        (lambda d: d[:1], ValueError, r"The handler of layer 'net/first'.*must return.*Received: \(1, 8\)"),
        (lambda d: tf.cast(d, tf.float64), ValueError, r"The handler of .*Received: .*float64"),
        (lambda d: None, TypeError, r"The handler of .*handlers.stop.*Received: None"),
    ]:
        with pytest.raises(error, match=message):
            tfjac.vjp(lambda handler=handler: tfjac.intercept(model, {"first": handler})(x), x)
    with pytest.raises(ValueError, match=r"A rule must return a gradient, or None, for each input.*Received: 2"):
        tfjac.vjp(lambda: tfjac.intercept(model, rules={"Relu": lambda op, d: (d, d)})(x), x)
    with pytest.raises(ValueError, match=r"A rule must return gradients like the inputs.*Received: \(1, "):
        tfjac.vjp(lambda: tfjac.intercept(model, rules={"Relu": lambda op, d: d[:1]})(x), x)
