"""Guided backpropagation, Grad-CAM and DeepLIFT, against PyTorch and Captum, and against networks unrolled by hand."""

import functools
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.precision import floating

DATA = pathlib.Path(__file__).parents[1] / "data" / "interception" / "captum_attributions.npz"
"""Made by the script beside it."""

NONLINEAR = {"Relu", "Sigmoid", "Tanh", "MaxPool", "Max", "Mul"}


@functools.cache
def data():
    return dict(np.load(DATA))


def of_keras(name):
    """The network of that name, with one layer object for both activations, and a softmax behind the scores."""
    kind, activation = name.split("/")
    layers = keras.layers
    act = layers.Activation(activation, name="act")
    if kind == "mlp":
        x = keras.Input((6,))
        hidden = act(layers.Dense(8, name="second")(act(layers.Dense(8, name="first")(x))))
    else:
        x, second = keras.Input((12, 12, 2)), layers.Conv2D(5, 3, name="second")
        hidden = act(layers.Conv2D(4, 3, name="first")(x))
        cnn = kind == "cnn"
        hidden = act(second(layers.AveragePooling2D(2)(hidden))) if cnn else layers.MaxPooling2D(2)(second(hidden))
        hidden = layers.Flatten()(hidden)
    scores = layers.Dense(3, name="scores")(hidden)
    model = keras.Model(x, layers.Softmax(name="probabilities")(scores), name="net")
    for layer, stored in (("first", "first"), ("second", "second"), ("scores", "head")):
        model.get_layer(layer).set_weights([data()[f"{kind}/{stored}/{part}"] for part in ("kernel", "bias")])
    return model


@pytest.fixture(autouse=True)
def double_precision():
    with floating("float64"):
        yield


def score(function, x, target):
    """The sum over examples of the target's score, with its gradient with respect to x."""
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        chosen = tf.gather(function(x)[: len(target)], target, axis=1, batch_dims=1)
    return chosen, tape.gradient(chosen, x)


def contributions(function, x, reference, target, selector=lambda node: node.op_type in NONLINEAR):
    """DeepLIFT: what each input contributes to the change of the target's score, and that change."""
    ruled = tfjac.intercept(function, rules={selector: tfjac.rules.rescale})
    _, multipliers = score(ruled, np.concatenate([x, reference]), target)
    scores = function(tf.constant(np.concatenate([x, reference])))
    change = tf.gather(scores[: len(x)] - scores[len(x) :], target, axis=1, batch_dims=1)
    return multipliers[: len(x)] * (x - reference), change


def assert_adds_up(contributed, change):
    total = np.reshape(contributed, [len(change), -1]).sum(axis=1)
    np.testing.assert_allclose(total, change, rtol=1e-12, atol=1e-12)
    assert np.abs(change).max() > 0.01, "there is something to explain"


def assert_close(got, name):
    np.testing.assert_allclose(got, data()[name], rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name", ["mlp/relu", "mlp/sigmoid", "mlp/tanh", "cnn/relu", "pooling/relu"])
def test_deep_lift_as_in_captum(name):
    """A ReLU layer used twice, of which Captum needs two, and a softmax that the scores stand before."""
    kind, model, target = name.split("/")[0], of_keras(name), data()["target"]
    x, reference = data()[f"{kind}/x"], data()[f"{kind}/reference"]
    scores = tfjac.values_at(model, "scores")
    assert_close(scores(tf.constant(x)), f"{name}/scores")
    contributed, change = contributions(scores, x, reference, target)
    assert_close(contributed, f"{name}/deep_lift")
    assert_adds_up(contributed, change)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("name", ["mlp/relu", "cnn/relu", "pooling/relu"])
def test_guided_backpropagation_as_in_captum(name):
    model = of_keras(name)
    guided = tfjac.intercept(tfjac.values_at(model, "scores"), rules={"Relu": tfjac.rules.guided})
    _, gradient = score(guided, data()[f"{name.split('/')[0]}/x"], data()["target"])
    assert_close(gradient, f"{name}/guided")


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("name", ["mlp/relu", "mlp/sigmoid", "mlp/tanh", "cnn/relu"])
def test_gradients_at_activations_as_in_captum(name):
    """Gradient × activation, and Grad-CAM, at each call of the layer."""
    kind, model, target = name.split("/")[0], of_keras(name), data()["target"]
    scores = tfjac.values_at(model, "scores")
    compute = lambda: tf.gather(scores(tf.constant(data()[f"{kind}/x"])), target, axis=1, batch_dims=1)  # noqa: E731
    gradients, values = tfjac.node_gradients(compute, ["act[0]", "act[1]"], values=True)
    for call, (gradient, value) in enumerate(zip(gradients, values)):
        assert_close(gradient * value, f"{name}/act_{call}/gradient_x_activation")
        if kind == "cnn":
            assert_close(grad_cam(gradient, value)[..., None], f"{name}/act_{call}/grad_cam")


def grad_cam(gradient, value):
    return tf.einsum("nhwc,nc->nhw", value, tf.reduce_mean(gradient, [1, 2]))


@pytest.mark.by_day(None)
def test_grad_cam_inside_of_a_nested_application():
    keras.utils.set_random_seed(0)
    inner = keras.applications.MobileNet((64, 64, 3), alpha=0.25, include_top=False, weights=None, name="mobilenet")
    average, head = keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(5, activation="softmax", name="head")
    model = keras.Sequential([keras.Input((64, 64, 3)), keras.layers.Rescaling(1 / 127.5, -1.0), inner, average, head])
    images = np.random.default_rng(0).uniform(0, 255, [2, 64, 64, 3])
    classes = lambda: tfjac.values_at(model, "head/BiasAdd")(images)[:, 3]  # noqa: E731
    gradient, value = tfjac.node_gradients(classes, "mobilenet/conv_pw_11_relu", values=True)

    cut = inner.get_layer("conv_pw_11_relu").output
    hidden = keras.Model(inner.input, cut)(model.layers[0](images))
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        logits = average(keras.Model(cut, inner.output)(hidden)) @ head.kernel.value + head.bias.value
        scores = logits[:, 3]
    np.testing.assert_allclose(value, hidden, rtol=1e-9, atol=1e-12)
    expected = grad_cam(tape.gradient(scores, hidden), hidden)
    np.testing.assert_allclose(grad_cam(gradient, value), expected, rtol=1e-8, atol=1e-10 * np.abs(expected).max())
    assert np.abs(expected).max() > 0


@pytest.mark.parametrize("head", ["sigmoid", "softmax"])
def test_deep_lift_of_probabilities(head):
    """An activation that is used again as the head, and one whose elements depend on each other."""
    keras.utils.set_random_seed(1)
    act = keras.layers.Activation("sigmoid")
    last, x = act if head == "sigmoid" else keras.layers.Softmax(), keras.Input((6,))
    model = keras.Model(x, last(keras.layers.Dense(3)(act(keras.layers.Dense(8)(x)))))
    rng = np.random.default_rng(0)
    x, reference = 3 * rng.normal(size=(2, 5, 6))
    selector = lambda node: node.kind == "op" and node.op_type in {"Sigmoid", "Softmax"}  # noqa: E731
    contributed, change = contributions(model, x, reference, [0, 1, 2, 0, 1], selector)
    assert_adds_up(contributed, change)


@tf.custom_gradient
def times(a, b):
    return a * b, lambda d: (d * mean_of_pair(b), d * mean_of_pair(a))


def mean_of_pair(x):
    half = len(x) // 2
    return tf.tile((x[:half] + x[half:]) / 2, [2, 1])


def rescaled(function):
    """A function on pairs with the rescale rule, written out."""

    @tf.custom_gradient
    def activation(x):
        y, half = function(x), len(x) // 2
        slope = (y[:half] - y[half:]) / (x[:half] - x[half:])
        return y, lambda d: d * tf.tile(slope, [2, 1])

    return activation


@pytest.mark.by_day(None)
def test_deep_lift_through_the_loop_of_an_lstm():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4, 3)), keras.layers.LSTM(5), keras.layers.Dense(2)])
    (lstm, dense), rng = model.layers, np.random.default_rng(1)
    x, reference = 2 * rng.normal(size=(2, 3, 4, 3))
    kernel, recurrent, bias = map(tf.convert_to_tensor, (lstm.cell.kernel, lstm.cell.recurrent_kernel, lstm.cell.bias))

    sigmoid, tanh = rescaled(tf.sigmoid), rescaled(tf.tanh)

    def unrolled(x, times=times):
        h = c = tf.zeros([len(x), 5], x.dtype)
        for k in range(4):
            i, f, g, o = tf.split(x[:, k] @ kernel + h @ recurrent + bias, 4, 1)
            c = times(sigmoid(f), c) + times(sigmoid(i), tanh(g))
            h = times(sigmoid(o), tanh(c))
        return dense(h)

    target = [0, 1, 0]
    for selected, by_hand in [
        (NONLINEAR, unrolled),
        ({"Sigmoid", "Tanh"}, functools.partial(unrolled, times=tf.multiply)),
    ]:
        contributed, change = contributions(model, x, reference, target, lambda node, s=selected: node.op_type in s)
        _, multipliers = score(by_hand, np.concatenate([x, reference]), target)
        np.testing.assert_allclose(contributed, multipliers[:3] * (x - reference), rtol=1e-9, atol=1e-12)
        if "Mul" in selected:
            assert_adds_up(contributed, change)
        else:
            assert np.abs(contributed.numpy().sum((1, 2)) - change).max() > 0.01, "products need the rule"


def test_deep_lift_where_pooling_follows_an_activation():
    """Captum's do not add up here."""
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.MaxPooling2D(3, 2, "same")]
    layers += [keras.layers.ReLU(), keras.layers.GlobalMaxPooling2D(), keras.layers.Dense(3)]
    model, rng = keras.Sequential([keras.Input((9, 9, 2)), *layers]), np.random.default_rng(0)
    assert_adds_up(*contributions(model, *rng.normal(size=(2, 4, 9, 9, 2)), [0, 1, 2, 0]))


@pytest.mark.by_day(None)
def test_rescaling_of_ops():
    """Contributions add up op by op, also where example and reference are the same, and in compiled programs."""
    rng = np.random.default_rng(0)
    x, reference = rng.normal(size=(2, 4, 6))
    x[0] = reference[0]
    w = tf.constant(rng.normal(size=(6, 3)))
    cases = {
        "Elu": lambda x: tf.nn.elu(x) @ w,
        "LeakyRelu": lambda x: tf.nn.leaky_relu(x, 0.3) @ w,
        "Max": lambda x: tf.reduce_max(tf.reshape(x, [-1, 2, 3]), axis=1),
        "Mul": lambda x: x[:, :3] * x[:, 3:] * w[0],
        "BatchMatMulV2": lambda x: tf.reshape(tf.matmul(x[:, :, None], x[:, None, :]), [-1, 36]),
    }
    for op_type, function in cases.items():
        for compiled in (function, tf.function(function, jit_compile=True)):
            contributed, change = contributions(compiled, x, reference, [0, 1, 2, 0], tfjac.op_type(op_type))
            assert_adds_up(contributed, change)
    ruled = tfjac.intercept(tf.nn.elu, rules={"Elu": tfjac.rules.rescale})
    _, slopes = score(ruled, np.concatenate([x[:1], x[:1]]), [0])
    _, derivatives = score(tf.nn.elu, x[:1], [0])
    np.testing.assert_allclose(slopes[:1], derivatives)


@pytest.mark.parametrize(
    "op_type, function, rows, message",
    [
        ("Relu", tf.nn.relu, 3, r"a batch of examples with a reference for each.*Received: op '.*Relu' .* \(3, 2\)"),
        ("Relu", lambda x: tf.nn.relu(tf.reduce_sum(x)) * x, 4, r"a reference for each.*Received: op '.*shape \(\)"),
        ("RealDiv", lambda x: x / (1 + x**2), 4, r"ops of one input.*Mul.*Received: op '.*' of type RealDiv"),
    ],
)
def test_what_cannot_be_rescaled(op_type, function, rows, message):
    with pytest.raises(ValueError, match=message):
        score(tfjac.intercept(function, rules={op_type: tfjac.rules.rescale}), np.ones([rows, 2]), [0])
