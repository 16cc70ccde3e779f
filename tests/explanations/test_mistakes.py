"""The most natural mistakes, and what is said of them; what a method cannot do is refused by name."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.explanations.test_axioms import transformer
from tests.explanations.test_models import images, nested
from tfjac import explanations

LAYERS = keras.layers
OTHER = {"Explanation", "ConceptSensitivity", "tcav"}
ALL = [name for name in explanations.__all__ if name not in OTHER]


def of_rows(*layers, size=4):
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((size,)), *layers])


def rows(count=3, size=4):
    return np.random.default_rng(0).normal(size=(count, size)).astype("float32")


# ------------------------------------------------------------------ five natural mistakes


@pytest.mark.core
def test_a_wrong_name_of_a_layer():
    with pytest.raises(ValueError, match=r"No node is selected by 'secnd'\. The nearest names are '.*second'"):
        explanations.grad_cam(nested(), images(), "secnd")
    with pytest.raises(ValueError, match=r"No node is selected by 'haed'\. The nearest names are '.*head'"):
        explanations.integrated_gradients(nested(), images(), score_at="haed")
    with pytest.raises(ValueError, match=r"'act\[0\]' for the first\. Received: 'act', which selects 2"):
        explanations.grad_cam(nested(), images(), "act")


@pytest.mark.by_day(one_in=7)
@pytest.mark.parametrize("method", ALL)
def test_a_class_that_there_is_not(method):
    with pytest.raises(ValueError, match=r"between 0 and 3, as the scores have 4 columns. Received: class_index=4"):
        getattr(explanations, method)(nested(), images(), class_index=4)
    with pytest.raises(ValueError, match=r"an integer, or one for each of the 3 examples.*Received: class_index="):
        getattr(explanations, method)(nested(), images(), class_index=[0, 1])


@pytest.mark.parametrize("method", ALL)
def test_a_model_that_is_not_built(method):
    with pytest.raises(ValueError, match=r"not built, so that its weights would be new.*Received: Sequential 'fresh'"):
        getattr(explanations, method)(keras.Sequential([LAYERS.Dense(2)], name="fresh"), rows())


def test_probabilities_are_explained_by_their_logits():
    """The gradients of a softmax vanish where the model is sure."""
    model = of_rows(
        LAYERS.Dense(3, "softmax", name="probabilities", kernel_initializer=keras.initializers.RandomNormal(0, 30.0))
    )
    sure = explanations.integrated_gradients(model, rows(), 1, score_at="probabilities", steps=1, baseline=rows() * 0.9)
    logits = explanations.integrated_gradients(model, rows(), 1)
    assert logits.explained == "logits, before Softmax" and "logits, before Softmax" in repr(logits)
    np.testing.assert_allclose(logits.attributions, rows() * model.get_weights()[0][:, 1], rtol=1e-4)
    assert np.abs(sure.attributions[0]).max() < 1e-3 * np.abs(logits.attributions[0]).max()
    binary = explanations.integrated_gradients(of_rows(LAYERS.Dense(1, "sigmoid")), rows())
    assert binary.explained == "logits, before Sigmoid" and not binary.classes.any()


@pytest.mark.core
def test_integers_that_are_measurements():
    pixels = np.random.default_rng(0).integers(0, 255, (3, 12, 12, 3)).astype("uint8")
    model = nested()
    found = explanations.integrated_gradients(model, pixels, 1)  # the model declares float32, and converts
    expected = explanations.integrated_gradients(model, pixels.astype("float32"), 1)
    np.testing.assert_array_equal(found.attributions, expected.attributions)
    function = lambda x: model(tf.cast(x, tf.float32))  # noqa: E731
    of_classes = lambda x: model(tf.one_hot(tf.cast(x[..., 0], tf.int32), 3))  # noqa: E731
    for method in ("integrated_gradients", "smooth_grad", "guided_backprop", "deep_lift", "lrp"):
        found = getattr(explanations, method)(function, pixels, 1)  # where they are made floating-point
        expected = getattr(explanations, method)(model, pixels, 1)
        np.testing.assert_allclose(found.attributions, expected.attributions, rtol=1e-4, atol=1e-3)
        with pytest.raises(TypeError, match=r"no embedding looks these up.*x\.astype\('float32'\).*of shape \(3, 12"):
            getattr(explanations, method)(of_classes, pixels)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("method", ALL)
def test_one_example_without_a_batch_axis(method):
    with pytest.raises(ValueError, match=r"pass x\[None\] to explain one\. Received: ndarray of shape \(12, 12, 3\)"):
        getattr(explanations, method)(nested(), images()[0])


# ------------------------------------------------------------------ what cannot be


def test_what_a_method_needs_of_a_model():
    tokens = np.zeros((2, 6), "int32")
    with pytest.raises(ValueError, match=r"no convolution of images.*layer=.*integrated_gradients"):
        explanations.grad_cam(transformer()[0], tokens)
    with pytest.raises(ValueError, match=r"no convolution of images"):
        explanations.grad_cam(of_rows(LAYERS.Dense(2)), rows())
    with pytest.raises(ValueError, match=r"returns \[n, height, width, channels\].*Received: layer='hidden'"):
        explanations.grad_cam(of_rows(LAYERS.Dense(2, name="hidden"), LAYERS.Dense(2)), rows(), "hidden")
    with pytest.raises(ValueError, match=r"needs ReLU.*smooth_grad.*Received: a model with Tanh"):
        explanations.guided_backprop(of_rows(LAYERS.Dense(5, "tanh"), LAYERS.Dense(2)), rows())
    with pytest.raises(ValueError, match=r"no attention between the inputs and the scores.*integrated_gradients"):
        explanations.attention_rollout(nested(), images())
    with pytest.raises(ValueError, match=r"must be one of the 6 steps. Received: position=6"):
        explanations.attention_rollout(transformer()[0], tokens, position=6)
    first = keras.Sequential([keras.Input((3, 8, 8)), LAYERS.Conv2D(2, 3, data_format="channels_first")], name="net")
    with pytest.raises(ValueError, match=r"channels_last.*Received: layer 'conv2d.*channels_first"):
        explanations.grad_cam(first, np.zeros((1, 3, 8, 8), "float32"))


def test_attention_to_another_sequence():
    x, y = keras.Input((4, 8)), keras.Input((6, 8))
    crossed = LAYERS.MultiHeadAttention(2, 4)(x, y)
    model = keras.Model([x, y], LAYERS.Dense(2)(LAYERS.GlobalAveragePooling1D()(crossed)))
    with pytest.raises(ValueError, match=r"one sequence to itself.*Received: attention of shapes \['\(4, 6\)'\]"):
        explanations.attention_rollout(model, [np.zeros((1, 4, 8), "float32"), np.zeros((1, 6, 8), "float32")])


@pytest.mark.parametrize(
    "layer, by_deep_lift, by_lrp",
    [
        (LAYERS.Activation("sigmoid"), None, "Sigmoid"),
        (LAYERS.Activation("gelu"), None, "Mul|Erfc"),
        (LAYERS.LayerNormalization(), None, "SquaredDifference"),
        (LAYERS.UnitNormalization(), None, "Square|Mul"),
        (LAYERS.Lambda(lambda x: tf.where(x > 0.1, x, 0.0)), "SelectV2", "SelectV2"),
        (LAYERS.Lambda(lambda x: x / (1.0 + tf.abs(x))), "RealDiv", "RealDiv|Abs"),
        (LAYERS.Lambda(lambda x: x * tf.cast(x > 0, tf.float32)), "Cast", "Mul|Cast"),
        (LAYERS.Lambda(lambda x: tf.sort(x)), ".", "."),
    ],
)
def test_ops_without_a_rule_are_refused_by_name(layer, by_deep_lift, by_lrp):
    model = of_rows(LAYERS.Dense(4), layer, LAYERS.Dense(2))
    for method, op_type in (("deep_lift", by_deep_lift), ("lrp", by_lrp)):
        if op_type is None:
            found = explanations.deep_lift(model, rows(), baseline=0.1)  # at zero the norm has no inverse
            np.testing.assert_allclose(found.gap, 0, atol=1e-5)
            continue
        with pytest.raises(ValueError, match=f"has no rule.*integrated_gradients.*of type ({op_type})"):
            getattr(explanations, method)(model, rows())


@pytest.mark.by_day(None)
def test_lrp_refuses_what_relevance_cannot_pass():
    recurrent = keras.Sequential([keras.Input((3, 2)), LAYERS.LSTM(2), LAYERS.Dense(2)])
    with pytest.raises(ValueError, match=r"LRP has no rule.*of type (While|TensorList)"):
        explanations.lrp(recurrent, np.ones((2, 3, 2), "float32"))
    with pytest.raises(ValueError, match=r"LRP has no rule.*attention_rollout for transformers"):
        explanations.lrp(transformer()[0], np.ones((2, 6), "int32"))


def test_a_gap_of_deep_lift_is_warned_of():
    """A loop in which a square is no product and no activation."""

    def squares(x):
        return tf.while_loop(lambda k, y: k < 2, lambda k, y: (k + 1, tf.square(y) + tf.sigmoid(y)), [0, x])[1]

    model = of_rows(LAYERS.Lambda(squares), LAYERS.Dense(2))
    with pytest.warns(UserWarning, match=r"do not add up.*Received: a gap of"):
        explanations.deep_lift(model, rows())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explanations.deep_lift(of_rows(LAYERS.Dense(3, "tanh"), LAYERS.Dense(2)), rows())


def test_arguments():
    model = of_rows(LAYERS.Dense(5, "relu"), LAYERS.Dense(2))
    ragged = tf.ragged.constant([[1.0], [1.0, 2.0]])
    for x, error, message in (
        (ragged, TypeError, r"x\.to_tensor\(\).*Received: a RaggedTensor"),
        ([rows(3), rows(2)], ValueError, r"one row for each example. Received: lengths \[3, 2\]"),
        (rows(0), ValueError, "x must hold at least one example"),
        ([1.0, 2.0], TypeError, "x must be an array.*Received: 1.0"),
    ):
        with pytest.raises(error, match=message):
            explanations.integrated_gradients(model, x)
    for options, message in (
        ({"steps": 0}, "steps must be an integer of at least 1"),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1"),
        ({"baseline": np.zeros((3, 2))}, r"baseline must be a number, or an array like one example.*\(3, 2\)"),
        ({"baseline": [0.0, 0.0]}, r"baseline must be a number.*Received: ndarray of shape \(2,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            explanations.integrated_gradients(model, rows(), **options)
    for method, options, message in (
        ("smooth_grad", {"noise": -1.0}, "noise must be zero or positive. Received: noise=-1.0"),
        ("smooth_grad", {"combine": "median"}, "combine must be one of 'mean'"),
        ("lrp", {"rule": "gama"}, "rule must be one of .* Did you mean 'gamma'"),
        ("lrp", {"epsilon": -1.0}, "epsilon must be zero or positive"),
        ("gradient_shap", {"noise": -1.0}, "noise must be zero or positive"),
        ("gradient_shap", {"background": np.zeros((0, 4))}, "background must hold at least one example"),
        ("gradient_shap", {"background": np.zeros((2, 3))}, "background must be examples like x|incompatible|shape"),
    ):
        with pytest.raises(ValueError, match=message):
            getattr(explanations, method)(model, rows(), **options)


def test_scores_that_are_none():
    model = of_rows(LAYERS.Dense(2))
    with pytest.raises(ValueError, match=r"\[n\] or \[n, classes\].*Received: scores of shape \(\)"):
        explanations.integrated_gradients(lambda x: tf.reduce_sum(model(x)), rows())
    x = keras.Input((4,))
    two = keras.Model(x, [LAYERS.Dense(2, name="a")(x), LAYERS.Dense(3, name="b")(x)])
    with pytest.raises(ValueError, match=r"choose one of several by score_at.*Received: 2 results"):
        explanations.integrated_gradients(two, rows())
    assert explanations.integrated_gradients(two, rows(), 2, score_at="b").attributions.shape == (3, 4)
    with pytest.raises(ValueError, match=r"No gradient of the scores reaches the inputs.*explain_gradient"):
        explanations.integrated_gradients(lambda x: model(tf.stop_gradient(x)), rows())
    with pytest.raises(TypeError, match=r"model must be a Keras model.*Received: 3 of type int"):
        explanations.integrated_gradients(3, rows())


def test_maps_of_a_single_place():
    image = images()[:, :4, :4]
    narrow = keras.Sequential([keras.Input((4, 4, 3)), LAYERS.Conv2D(4, 4), LAYERS.Flatten(), LAYERS.Dense(3)])
    with pytest.raises(ValueError, match=r"no places to tell apart: use larger images"):
        explanations.grad_cam(narrow, image)
