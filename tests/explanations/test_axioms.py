"""What attributions add up to, and values by hand: NumPy, and probabilities that Keras returns."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfjac import explanations

LAYERS = keras.layers
RNG = np.random.default_rng


def two_layers(activation, bias=True):
    """A network of two layers, and its weights in float64."""
    keras.utils.set_random_seed(1)
    options = {"use_bias": bias, "bias_initializer": "random_normal"}
    first, second = LAYERS.Dense(7, activation, **options), LAYERS.Dense(3, **options)
    model = keras.Sequential([keras.Input((4,)), first, second])
    return model, [w.astype("float64") for w in model.get_weights()]


@pytest.mark.core
def test_integrated_gradients_by_hand():
    model, (w1, b1, w2, b2) = two_layers("tanh")
    x, start = RNG(0).normal(size=(2, 5, 4)).astype("float32")
    found = explanations.integrated_gradients(model, x, class_index=2, baseline=start, steps=40)
    ways = (np.arange(4000) + 0.5) / 4000
    points = start + ways[:, None, None] * (x - start)
    slopes = (1 - np.tanh(points @ w1 + b1) ** 2) * w2[:, 2] @ w1.T
    np.testing.assert_allclose(found.attributions, (x - start) * slopes.mean(0), rtol=1e-4, atol=1e-6)
    scores = [np.tanh(each @ w1 + b1) @ w2[:, 2] + b2[2] for each in (x, start)]
    np.testing.assert_allclose(found.scores, scores[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.baseline_scores, scores[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.gap, 0, atol=1e-5)
    few = explanations.integrated_gradients(model, x, class_index=2, baseline=start, steps=1)
    np.testing.assert_allclose(few.gap, few.attributions.sum(1) - (scores[0] - scores[1]), atol=1e-5)
    assert np.abs(few.gap).max() > 1e-3


@pytest.mark.core
@pytest.mark.parametrize("rule, epsilon, gamma", [("epsilon", 0.0, 0.0), ("epsilon", 0.2, 0.0), ("gamma", 1e-9, 0.5)])
@pytest.mark.parametrize("bias", [True, False])
def test_lrp_by_hand(rule, epsilon, gamma, bias):
    model, weights = two_layers("relu", bias)
    w1, b1, w2, b2 = weights if bias else (weights[0], 0.0, weights[1], 0.0)
    x, n = RNG(0).normal(size=(5, 4)).astype("float32"), np.arange(5)
    found = explanations.lrp(model, x, class_index=1, rule=rule, epsilon=epsilon, gamma=gamma or 0.25)

    def handed_back(below, w, b, relevance):
        raised = w + gamma * np.maximum(w, 0)
        sums = below @ raised + b
        return below * (relevance / (sums + epsilon * np.where(sums >= 0, 1, -1)) @ raised.T)

    hidden = np.maximum(x @ w1 + b1, 0)
    relevance = np.zeros((5, 3))
    relevance[:, 1] = (hidden @ w2 + b2)[:, 1]
    expected = handed_back(x, w1, b1, handed_back(hidden, w2, b2, relevance))
    np.testing.assert_allclose(found.attributions, expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found.gap, expected.sum(1) - relevance[n, 1], atol=1e-4)
    if not bias and epsilon < 0.1:
        np.testing.assert_allclose(found.gap, 0, atol=1e-4)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("rule, epsilon, gamma", [("epsilon", 0.2, 0.0), ("gamma", 1e-9, 0.5)])
def test_lrp_of_series_by_hand(rule, epsilon, gamma):
    """Products and biases with reshapes between, an open number of steps, and a mean at the end."""
    keras.utils.set_random_seed(1)
    layers = [LAYERS.Dense(7, "relu", bias_initializer="random_normal") for _ in range(2)]
    layers.insert(1, LAYERS.EinsumDense("btf,fg->btg", (None, 5), bias_axes="g", bias_initializer="random_normal"))
    model = keras.Sequential([keras.Input((None, 4)), *layers, LAYERS.GlobalAveragePooling1D()])
    x = RNG(0).normal(size=(5, 6, 4)).astype("float32")
    weights = [w.astype("float64") for w in model.get_weights()]
    values = [x.astype("float64")]
    for number, (w, b) in enumerate(zip(weights[::2], weights[1::2])):
        values.append(values[-1] @ w + b)
        values[-1] = values[-1] if number == 1 else np.maximum(values[-1], 0)
    relevance = np.zeros_like(values[-1])
    relevance[..., 3] = values[-1][..., 3] / 6
    for below, w, b in zip(values[-2::-1], weights[-2::-2], weights[::-2]):
        raised = w + gamma * np.maximum(w, 0)
        sums = below @ raised + b
        relevance = below * (relevance / (sums + epsilon * np.where(sums >= 0, 1, -1)) @ raised.T)
    found = explanations.lrp(model, x, class_index=3, rule=rule, epsilon=epsilon, gamma=gamma or 0.25)
    size = np.abs(relevance).max()
    np.testing.assert_allclose(found.attributions, relevance, rtol=1e-3, atol=1e-4 * size)
    assert size > 1e-4


@pytest.mark.by_day(None)
def test_lrp_through_convolutions_of_all_kinds_is_gradient_times_input():
    """With ReLU and ε = 0, whatever the layers between: biases, normalisation, sums of branches, pooling."""
    keras.utils.set_random_seed(0)
    x = keras.Input((8, 8, 2))
    hidden = LAYERS.Conv2D(4, 3, padding="same", activation="relu", bias_initializer="random_normal")(x)
    hidden = LAYERS.Add()([hidden, LAYERS.BatchNormalization()(LAYERS.DepthwiseConv2D(3, padding="same")(hidden))])
    hidden = LAYERS.MaxPooling2D(2)(LAYERS.LeakyReLU(0.1)(LAYERS.SeparableConv2D(4, 3)(hidden)))
    hidden = LAYERS.Conv1D(3, 2, activation="relu")(LAYERS.Reshape((9, 4))(hidden))
    model = keras.Model(x, LAYERS.Dense(2)(LAYERS.GlobalAveragePooling1D()(LAYERS.Dense(3)(hidden))))
    images = RNG(0).normal(size=(3, 8, 8, 2)).astype("float32")
    found = explanations.lrp(model, images, class_index=[0, 1, 1])
    given = tf.constant(images)
    with tf.GradientTape() as tape:
        tape.watch(given)
        scores = tf.gather(model(given), [0, 1, 1], axis=1, batch_dims=1)
    expected = (tape.gradient(scores, given) * given).numpy()
    np.testing.assert_allclose(found.attributions, expected, rtol=1e-3, atol=1e-5 * np.abs(expected).max())


def transformer(layers=2, causal=False, mask=False, flash=None):
    """Tokens, blocks of attention with residuals and layer normalisation inside a nested model, a mean, a softmax."""
    keras.utils.set_random_seed(2)
    x = keras.Input((6, 8))
    hidden, attentions = x, []
    for number in range(layers):
        attention = LAYERS.MultiHeadAttention(2, 4, name=f"attention_{number}")
        attentions.append(attention)
        hidden = LAYERS.LayerNormalization()(hidden + attention(hidden, hidden, use_causal_mask=causal))
        hidden = LAYERS.LayerNormalization()(hidden + LAYERS.Dense(8, "gelu")(hidden))
    encoder = keras.Model(x, hidden, name="encoder")
    tokens = keras.Input((6,), dtype="int32")
    embedded = LAYERS.Embedding(20, 8, mask_zero=mask, name="embedding")(tokens)
    pooled = LAYERS.GlobalAveragePooling1D()(encoder(embedded))
    return keras.Model(tokens, LAYERS.Dense(3, "softmax")(pooled)), encoder, attentions


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_rollout_by_the_scores_that_keras_returns(causal):
    model, encoder, attentions = transformer(causal=causal)
    tokens = RNG(0).integers(0, 20, (4, 6))
    hidden, rollout = model.get_layer("embedding")(tokens), np.eye(6)
    blocks = [layer for layer in encoder.layers if not isinstance(layer, LAYERS.InputLayer)]
    norms = [layer for layer in blocks if isinstance(layer, LAYERS.LayerNormalization)]
    dense = [layer for layer in blocks if isinstance(layer, LAYERS.Dense)]
    for number, attention in enumerate(attentions):
        added, scores = attention(hidden, hidden, use_causal_mask=causal, return_attention_scores=True)
        hidden = norms[2 * number](hidden + added)
        hidden = norms[2 * number + 1](hidden + dense[number](hidden))
        mixed = 0.5 * scores.numpy().mean(1) + 0.5 * np.eye(6)
        rollout = (mixed / mixed.sum(-1, keepdims=True)) @ rollout
    found = explanations.attention_rollout(model, tokens)
    np.testing.assert_allclose(found.details["rollout"], rollout, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.attributions, rollout.mean(1), rtol=1e-4, atol=1e-6)
    assert found.details["layers"] == 2
    last = explanations.attention_rollout(model, tokens, position=-1)
    np.testing.assert_allclose(last.attributions, rollout[:, -1], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(last.attributions.sum(1), 1, rtol=1e-5)


@pytest.mark.by_day(None)
def test_attention_rollout_of_a_saved_model(tmp_path):
    model, _, _ = transformer()
    tokens = RNG(0).integers(0, 20, (4, 6))
    model.export(tmp_path / "saved", verbose=False)
    found = explanations.attention_rollout(tf.saved_model.load(tmp_path / "saved"), tokens)
    expected = explanations.attention_rollout(model, tokens)
    np.testing.assert_allclose(found.attributions, expected.attributions, rtol=1e-4)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("method", ["deep_lift", "integrated_gradients"])
def test_a_transformer_adds_up(method):
    """Attention, layer normalisation and gelu: products, differences squared and roots of data."""
    model, _, _ = transformer()
    tokens = RNG(0).integers(1, 20, (4, 6))
    found = getattr(explanations, method)(model, tokens, baseline=0)
    assert found.attributions.shape == (4, 6)
    np.testing.assert_allclose(found.gap, 0, atol=1e-5 if method == "deep_lift" else 1e-3)
    assert np.abs(found.scores - found.baseline_scores).max() > 0.01


@pytest.mark.parametrize("function", [tf.nn.softmax, tf.nn.log_softmax])
def test_deep_lift_of_a_softmax_whose_inputs_change_in_part(function):
    """An output changes where its own input stays: attention from a token that is the same in example and baseline."""
    w, v = (tf.constant(RNG(seed).normal(size=size)) for seed, size in ((0, (4, 5)), (1, (5, 3))))
    x, start = RNG(2).normal(size=(2, 6, 4))
    x[:, 2:] = start[:, 2:]
    x[:2] = start[:2] + 1e-12
    keep = tf.constant([[1.0, 1.0, 0.0, 0.0, 1.0]], "float64")
    found = explanations.deep_lift(lambda x: function(3 * (x @ w) * keep) @ v, x, 1, baseline=start)
    np.testing.assert_allclose(found.gap, 0, atol=1e-13)
    assert np.abs(found.scores - found.baseline_scores)[2:].min() > 0.01
    with tf.GradientTape() as tape:
        given = tf.constant(start[:2])
        tape.watch(given)
        scores = (function(3 * (given @ w) * keep) @ v)[:, 1]
    np.testing.assert_allclose(found.attributions[:2], tape.gradient(scores, given) * (x - start)[:2], rtol=1e-3)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("layer", [LAYERS.LSTM(4), LAYERS.GRU(4), LAYERS.LSTM(4, unroll=True)])
def test_deep_lift_of_recurrent_networks(layer):
    layer = type(layer).from_config(layer.get_config())
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((5, 3)), layer, LAYERS.Dense(2)])
    x = 2 * RNG(0).normal(size=(3, 5, 3)).astype("float32")
    found = explanations.deep_lift(model, x, baseline=0.5)
    np.testing.assert_allclose(found.gap, 0, atol=1e-4)
    assert np.abs(found.scores - found.baseline_scores).max() > 0.01


def test_deep_lift_looks_through_custom_gradients():
    """The swish of Keras has one, and computes a product."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), LAYERS.Dense(6, "swish"), LAYERS.Dense(2, "softmax")])
    x = 2 * RNG(0).normal(size=(3, 4)).astype("float32")
    np.testing.assert_allclose(explanations.deep_lift(model, x).gap, 0, atol=1e-5)


@pytest.mark.core
def test_smooth_grad_by_hand():
    model, (w1, b1, w2, _) = two_layers("tanh")
    x = RNG(0).normal(size=(3, 4)).astype("float32")
    rng, deviation = RNG(5), 0.2 * np.ptp(x, axis=1, keepdims=True)
    copies = np.stack([x + deviation * rng.normal(size=x.shape) for _ in range(6)])
    slopes = (1 - np.tanh(copies @ w1 + b1) ** 2) * w2[:, 0] @ w1.T
    wanted = {"mean": slopes.mean(0), "squares": (slopes**2).mean(0), "variance": slopes.var(0)}
    for combine, expected in wanted.items():
        for size in (64, 2):
            found = explanations.smooth_grad(
                model, x, 0, samples=6, noise=0.2, combine=combine, seed=5, batch_size=size
            )
            np.testing.assert_allclose(found.attributions, expected, rtol=1e-3, atol=1e-5)
    plain = explanations.smooth_grad(model, x, 0, samples=2, noise=0.0)
    np.testing.assert_allclose(plain.attributions, (1 - np.tanh(x @ w1 + b1) ** 2) * w2[:, 0] @ w1.T, rtol=1e-4)


def test_guided_backprop_of_capped_relus():
    keras.utils.set_random_seed(0)
    first, second = LAYERS.Dense(9, use_bias=False), LAYERS.Dense(2, use_bias=False)
    model = keras.Sequential([keras.Input((4,)), first, LAYERS.ReLU(max_value=6.0), second])
    x = 10 * RNG(0).normal(size=(5, 4)).astype("float32")
    found = explanations.guided_backprop(model, x, class_index=1)
    w1, w2 = first.get_weights()[0], second.get_weights()[0]
    inside = ((x @ w1 > 0) & (x @ w1 < 6)).astype("float32")
    np.testing.assert_allclose(found.attributions, inside * np.maximum(w2[:, 1], 0) @ w1.T, rtol=1e-4, atol=1e-5)
    assert inside.any() and (x @ w1 > 6).any()


def test_deep_lift_takes_the_rounding_of_two_scores_that_are_near_for_what_it_is():
    model = keras.Sequential([keras.Input((4,)), LAYERS.Dense(64, "relu"), LAYERS.Dense(1, bias_initializer="ones")])
    x = (1e-6 * RNG(0).normal(size=(5, 4))).astype("float32")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = explanations.deep_lift(model, x)
    first, bias, second, _ = (each.astype("float64") for each in model.get_weights())
    change = np.maximum(x @ first + bias, 0) @ second
    np.testing.assert_allclose(found.attributions.sum(axis=1), change[:, 0], atol=1e-11)


ACTIVATIONS = [
    "celu",
    "elu",
    "exponential",
    "gelu",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "leaky_relu",
    "log_sigmoid",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "softsign",
    "squareplus",
    "tanh",
    "tanh_shrink",
]
ZERO_AT_ZERO = ["celu", "elu", "hard_tanh", "leaky_relu", "relu", "relu6", "selu", "softsign", "tanh", "tanh_shrink"]


@pytest.mark.by_day(one_in=10)
@pytest.mark.parametrize(
    ("method", "activation"),
    [*(("deep_lift", each) for each in ACTIVATIONS), *(("lrp", each) for each in ZERO_AT_ZERO)],
)
def test_activations_of_keras_add_up(method, activation):
    model, _ = two_layers(activation, bias=method == "deep_lift")
    x = 3 * RNG(0).normal(size=(5, 4)).astype("float32")
    found = getattr(explanations, method)(model, x, class_index=1)
    start = model(np.zeros_like(x)).numpy()[:, 1] if method == "deep_lift" else 0.0
    np.testing.assert_allclose(found.attributions.sum(axis=1), model(x).numpy()[:, 1] - start, rtol=1e-4, atol=1e-5)
