"""Hooks on layers of plain Keras models, in training, and what is left of them afterwards: nothing."""

import copy
import gc
import pickle

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.fixtures import ON_GPU
from tests.interception.networks import X, below, gradients, network

Y = np.random.default_rng(5).normal(size=(6, 3)).astype("float32")


def trained(model, start, by_hand=None):
    """The weights after two epochs from these; or the same by a loop of one's own on another function."""
    model.set_weights(start)
    if by_hand is None:
        model.fit(X, Y, batch_size=6, epochs=2, verbose=0)
        return model.get_weights()
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((by_hand(X) - Y) ** 2)
        variables = [variable.value for variable in model.trainable_variables]
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(0.1 * gradient)
    return model.get_weights()


def assert_equal(one, other):
    close = np.allclose if ON_GPU else np.array_equal  # cuBLAS sums in any order
    assert all(close(a, b) for a, b in zip(one, other))


def frozen_norm():
    """The network without moving averages, which only a call in training mode moves."""
    model = network()
    model.get_layer("norm").trainable = False
    return model


@tf.custom_gradient
def halved(x):
    return tf.identity(x), lambda d: 0.5 * d


@pytest.mark.core
@pytest.mark.parametrize("jit_compile", [False, True])
def test_fit_sees_a_hook_and_its_removal(jit_compile):
    model = frozen_norm()
    model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=jit_compile)
    start = model.get_weights()
    plain = trained(model, start)
    hook = tfjac.hook(model.get_layer("first"), backward=lambda d: 0.5 * d)
    hooked = trained(model, start)
    layer = model.get_layer
    rest = lambda h: layer("head")(layer("inner")(layer("norm")(layer("relu")(layer("second")(h)))))  # noqa: E731
    hook.remove()
    hook.remove()
    expected = trained(model, start, lambda x: rest(layer("relu")(halved(layer("first")(x)))))
    for one, other in zip(hooked, expected):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert np.abs(hooked[0] - plain[0]).max() > 1e-4
    assert_equal(trained(model, start), plain)
    assert "call" not in vars(layer("first"))


@pytest.mark.by_day(None)
def test_a_removed_hook_leaves_no_op():
    model = network()

    def op_types():
        spec = tf.TensorSpec(X.shape, tf.float32)
        return [op.type for op in tf.function(lambda x: model(x)).get_concrete_function(spec).graph.get_operations()]

    plain = op_types()
    with tfjac.hook(model.get_layer("relu"), backward=tfjac.handlers.scale(0.5)):
        assert len(op_types()) > len(plain)
    assert op_types() == plain


@pytest.mark.by_day(None)
def test_a_shared_layer_and_a_nested_model():
    model = frozen_norm()
    model.compile(keras.optimizers.SGD(0.1), "mse")
    start = model.get_weights()
    with tfjac.hook(model.get_layer("relu"), backward=tfjac.handlers.scale(0.5)):
        hooked = trained(model, start)
    layer = model.get_layer
    second = lambda h: halved(layer("relu")(layer("second")(h)))  # noqa: E731
    rest = lambda h: layer("head")(layer("inner")(layer("norm")(second(h))))  # noqa: E731
    expected = trained(model, start, lambda x: rest(halved(below(model, x))))
    for one, other in zip(hooked, expected):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    gate = model.get_layer("inner").get_layer("gate")
    with tfjac.hook(gate, backward=tfjac.handlers.stop()):
        stopped = trained(model, start)
    moved = [not np.array_equal(a, b) for a, b in zip(stopped, start)]
    names = [v.path for v, change in zip(model.weights, moved) if change]
    assert sorted(name.split("/")[-2] for name in names) == ["head", "head"], "nothing below the gate is trained"


@pytest.mark.core
def test_values_are_changed_everywhere():
    model = network()
    model.compile("sgd", "mse")
    before, called = model.predict(X, verbose=0), model(X).numpy()
    with tfjac.hook(model.get_layer("relu"), forward=tf.zeros_like):
        expected = above_of_zeros(model)
        np.testing.assert_allclose(model.predict(X, verbose=0), expected, rtol=1e-6)
        np.testing.assert_allclose(model(X), expected, rtol=1e-6)
        clone = keras.models.clone_model(model)
        clone.set_weights(model.get_weights())
        np.testing.assert_allclose(clone(X), called, rtol=1e-6), "a clone knows nothing of the hook"
    np.testing.assert_array_equal(model.predict(X, verbose=0), before)


def above_of_zeros(model):
    layer = model.get_layer
    return layer("head")(layer("inner")(layer("norm")(tf.zeros([6, 8]))))


@pytest.mark.by_day(None)
def test_a_hooked_model_saves(tmp_path):
    model = network()
    expected = model(X)
    with tfjac.hook(model.get_layer("relu"), backward=tfjac.handlers.stop(), forward=lambda v: v + 1):
        model.save(tmp_path / "hooked.keras")
    loaded = keras.models.load_model(tmp_path / "hooked.keras")
    np.testing.assert_array_equal(loaded(X), expected)


@pytest.mark.by_day(None)
def test_several_hooks_and_outputs():
    x = keras.Input((3, 2))
    lstm = keras.layers.LSTM(2, return_state=True, name="lstm")
    model = keras.Model(x, lstm(x))
    seen = []
    one = tfjac.hook(lstm, backward=lambda d, value, node: seen.append(node.name) or 2.0 * d)
    two = tfjac.hook(lstm, backward=tfjac.handlers.scale(5.0))
    data = tf.ones([4, 3, 2])

    def gradient():
        with tf.GradientTape() as tape:
            tape.watch(data)
            total = tf.add_n([tf.reduce_sum(y) for y in model(data)])
        return tape.gradient(total, data).numpy()

    both = gradient()
    assert sorted(set(seen)) == ["lstm:0", "lstm:1", "lstm:2"]
    one.remove()
    np.testing.assert_allclose(both, 2 * gradient(), rtol=1e-6)
    two.remove()
    np.testing.assert_allclose(both, 10 * gradient(), rtol=1e-6)


def test_masks_pass_a_hook():
    tokens = np.array([[1, 2, 0, 0], [3, 0, 0, 0]])
    model = keras.Sequential(
        [keras.Input((4,), dtype="int32"), keras.layers.Embedding(5, 3, mask_zero=True), keras.layers.LSTM(2)]
    )
    expected = model(tokens)
    with tfjac.hook(model.layers[0], backward=tfjac.handlers.scale(2.0)):
        np.testing.assert_array_equal(model(tokens), expected)
    np.testing.assert_array_equal(tfjac.intercept(model, {"embedding*": lambda d: d})(tokens), expected)


@pytest.mark.by_day(None)
def test_put_on_in_the_middle_of_training():
    model = frozen_norm()
    model.compile(keras.optimizers.SGD(0.1), "mse")
    start, weights, put_on = model.get_weights(), [], []

    class PutOn(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            weights.append(self.model.get_layer("first").kernel.numpy())
            if epoch == 0:
                put_on.append(tfjac.hook(self.model.get_layer("first"), backward=tfjac.handlers.stop()))
            elif epoch == 2:
                put_on[0].remove()

    model.set_weights(start)
    model.fit(X, Y, batch_size=6, epochs=4, verbose=0, callbacks=[PutOn()])
    changes = [not np.array_equal(a, b) for a, b in zip([start[0], *weights], weights)]
    assert changes == [True, False, False, True]


def recurrent(kind):
    layers = keras.layers
    return {
        "LSTM": lambda: layers.LSTM(2, return_sequences=True),
        "both ways": lambda: layers.Bidirectional(layers.GRU(2, return_sequences=True)),
        "stacked": lambda: layers.RNN([layers.LSTMCell(2), layers.GRUCell(3)]),
    }[kind]()


@pytest.mark.by_day(None)
@pytest.mark.parametrize("kind", ["LSTM", "both ways", "stacked"])
def test_recurrent_layers(kind):
    """By a hook, and by an edit, what a custom gradient behind the layer does."""
    keras.utils.set_random_seed(1)
    layer, x = recurrent(kind), tf.random.stateless_normal([3, 4, 5], [1, 2])
    model = keras.Sequential([keras.Input((4, 5)), layer, keras.layers.Flatten(), keras.layers.Dense(2)])
    scaled = tf.custom_gradient(lambda v: (tf.identity(v), lambda d: -2.0 * d))
    by_hand = lambda: model.layers[2](model.layers[1](scaled(layer(x))))  # noqa: E731
    sources = [x, *model.trainable_variables]
    _, expected = gradients(by_hand, sources)
    edited = tfjac.intercept(model, {layer: tfjac.handlers.scale(-2.0)})
    _, plain = gradients(lambda: model(x), sources)
    with tfjac.hook(layer, backward=tfjac.handlers.scale(-2.0)):
        _, hooked = gradients(lambda: model(x), sources)
    for found in (hooked, gradients(lambda: edited(x), sources)[1]):
        for one, other in zip(found, expected):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert_equal(gradients(lambda: model(x), sources)[1], plain)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_hooked_model_is_copied_without_its_hook(copied):
    model = network()
    with tfjac.hook(model.get_layer("first"), backward=tfjac.handlers.stop()):
        other = copied(model)
    one, two = (gradients(lambda each=each: each(X), list(each.trainable_variables))[1] for each in (model, other))
    assert_equal(one, two)


@pytest.mark.by_day(None)
def test_a_hook_does_not_keep_a_layer():
    layer = keras.layers.Dense(2)
    layer.build((None, 3))
    gc.collect()
    before = len([each for each in gc.get_objects() if type(each) is keras.layers.Dense])
    tfjac.hook(layer, backward=tfjac.handlers.stop())
    del layer
    gc.collect()
    assert len([each for each in gc.get_objects() if type(each) is keras.layers.Dense]) == before - 1


@pytest.mark.by_day(None)
@pytest.mark.parametrize("first", ["quantize", "hook"])
def test_a_quantised_layer(first):
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, name="hidden"), keras.layers.Dense(2)])
    hidden, head = model.layers
    if first == "quantize":
        hidden.quantize("int8")
    with tfjac.hook(hidden, backward=tfjac.handlers.scale(3.0), forward=lambda value: value + 1.0):
        if first == "hook":
            hidden.quantize("int8")
        value, (gradient,) = gradients(lambda: model(X), [hidden.bias])
    expected, (plain,) = gradients(lambda: head(hidden(X) + 1.0), [hidden.bias])
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_allclose(gradient, 3.0 * plain, rtol=1e-5)
    np.testing.assert_array_equal(model(X), head(hidden(X)))


@pytest.mark.by_day(None)
def test_levenberg_marquardt_with_a_hook():
    dense = keras.layers.Dense
    model = keras.Sequential([keras.Input((5,)), dense(4, activation="tanh", name="a"), dense(3)])
    model.compile(tfjac.LevenbergMarquardt(), "mse")
    start = model.get_weights()
    with tfjac.hook(model.get_layer("a"), backward=tfjac.handlers.scale(1.0)):
        same = model.fit(X, Y, batch_size=6, epochs=3, verbose=0).history["loss"]
    model.set_weights(start)
    model.compile(tfjac.LevenbergMarquardt(), "mse")
    plain = model.fit(X, Y, batch_size=6, epochs=3, verbose=0).history["loss"]
    np.testing.assert_allclose(same, plain, rtol=1e-4)


@pytest.mark.core
def test_what_cannot_be_hooked():
    with pytest.raises(TypeError, match=r"put on a Keras layer, as model.get_layer\('relu'\). Received: 'relu'"):
        tfjac.hook("relu", backward=tfjac.handlers.stop())
    with pytest.raises(ValueError, match=r"was built: call the model.*Received: layer 'dense.*, which was not"):
        tfjac.hook(keras.layers.Dense(2), backward=tfjac.handlers.stop())
    layer = keras.layers.Dense(2)
    layer.build((None, 3))
    with pytest.raises(ValueError, match="An edit needs forward=, backward= or both"):
        tfjac.hook(layer)
    with pytest.raises(TypeError, match=r"backward must be a function.*Received: 0.5"):
        tfjac.hook(layer, backward=0.5)
    assert "call" not in vars(layer)
