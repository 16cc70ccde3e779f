"""Models of every kind: with models inside, layers used twice, several inputs, reloaded; one tape as oracle."""

import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac import explanations

LAYERS = keras.layers
METHODS = ["integrated_gradients", "smooth_grad", "guided_backprop", "deep_lift"]


def images(count=3, size=12):
    return np.random.default_rng(0).normal(size=(count, size, size, 3)).astype("float32")


def nested():
    """A backbone in a Sequential in a functional model, with one ReLU layer for all activations."""
    keras.utils.set_random_seed(0)
    act, x = LAYERS.ReLU(name="act"), keras.Input((12, 12, 3))
    hidden = act(LAYERS.Conv2D(5, 3, name="second")(act(LAYERS.Conv2D(4, 3, name="first")(x))))
    backbone = keras.Model(x, LAYERS.AveragePooling2D(2)(hidden), name="backbone")
    body = keras.Sequential([keras.Input((12, 12, 3)), LAYERS.Rescaling(2.0, 0.1), backbone], name="body")
    x = keras.Input((12, 12, 3))
    return keras.Model(x, LAYERS.Dense(4, "softmax", name="head")(LAYERS.Flatten()(body(x))))


def by_hand(model, x, classes):
    """Grad-CAM at the second convolution's activation, and the gradient at the inputs, by a tape over the layers."""
    backbone = model.get_layer("body").get_layer("backbone")
    first, second, head = backbone.get_layer("first"), backbone.get_layer("second"), model.get_layer("head")
    x = tf.constant(x)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        value = tf.nn.relu(second(tf.nn.relu(first(2 * x + 0.1))))
        pooled = tf.nn.avg_pool2d(value, 2, 2, "VALID")
        scores = tf.reshape(pooled, [len(x), -1]) @ head.kernel.value + head.bias.value
        chosen = tf.gather(scores, classes, axis=1, batch_dims=1)
    weights = tf.reduce_mean(tape.gradient(chosen, value), [1, 2], keepdims=True)
    return tf.nn.relu(tf.reduce_sum(weights * value, -1)).numpy(), chosen.numpy(), tape.gradient(chosen, x).numpy()


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("layer", [None, "act[1]", "backbone/act[1]"])
def test_grad_cam_inside_of_nested_models(layer):
    model, x = nested(), images()
    found = explanations.grad_cam(model, x, layer)
    classes = model(x).numpy().argmax(axis=1)
    maps, scores, _ = by_hand(model, x, classes)
    np.testing.assert_array_equal(found.classes, classes)
    np.testing.assert_allclose(found.scores, scores, rtol=1e-5)
    if layer is None:  # behind the pooling
        assert found.details["maps"].shape == (3, 4, 4)
    else:
        np.testing.assert_allclose(found.details["maps"], maps, rtol=1e-4, atol=1e-6)
    assert found.attributions.shape == (3, 12, 12)


def test_a_saved_model_is_explained_alike(tmp_path):
    model, x = nested(), images()
    model.export(tmp_path / "saved", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "saved")
    for method in ("integrated_gradients", "deep_lift", "lrp", "grad_cam"):
        wanted = getattr(explanations, method)(model, x, class_index=2)
        forms = (loaded, loaded.serve, loaded.signatures["serving_default"])
        for restored in forms if method == "grad_cam" else forms[:1]:
            found = getattr(explanations, method)(restored, x, class_index=2)
            np.testing.assert_allclose(found.attributions, wanted.attributions, rtol=1e-3, atol=1e-5, err_msg=method)
            assert found.explained == "logits, before Softmax"


def test_a_saved_module_takes_other_dtypes(tmp_path):
    class Module(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(np.random.default_rng(0).normal(size=(8, 3)).astype("float32"))

        @tf.function(input_signature=[tf.TensorSpec([None, 8])])
        def __call__(self, x):
            return tf.nn.softmax(x @ self.w)

    module, x = Module(), np.random.default_rng(0).normal(size=(4, 8))
    tf.saved_model.save(module, tmp_path / "saved")
    found = explanations.integrated_gradients(tf.saved_model.load(tmp_path / "saved"), x, 1)
    np.testing.assert_allclose(found.attributions, x * module.w.numpy()[:, 1], rtol=1e-4, atol=1e-6)


@pytest.mark.by_day(None)
def test_an_application_inside_a_sequential():
    keras.utils.set_random_seed(0)
    inner = keras.applications.MobileNet((32, 32, 3), alpha=0.25, include_top=False, weights=None)
    head = [LAYERS.GlobalAveragePooling2D(), LAYERS.Dense(5, activation="softmax")]
    model, x = keras.Sequential([keras.Input((32, 32, 3)), inner, *head]), images(2, 32)
    found = explanations.grad_cam(model, x, class_index=[1, 4])
    assert found.details["maps"].shape == (2, 2, 2) and found.attributions.shape == (2, 32, 32)
    found = explanations.deep_lift(model, x, class_index=[1, 4])
    np.testing.assert_allclose(found.gap, 0, atol=1e-4 * np.abs(found.attributions).sum())


def test_several_inputs_of_a_subclassed_model():
    class Two(keras.Model):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.head = LAYERS.Dense(4, "tanh"), LAYERS.Dense(4), LAYERS.Dense(3)

        def call(self, inputs):
            return self.head(self.a(inputs["left"]) * self.b(inputs["right"]))

    keras.utils.set_random_seed(0)
    rng, model = np.random.default_rng(1), Two()
    x = {"right": rng.normal(size=(4, 2)).astype("float32"), "left": rng.normal(size=(4, 5)).astype("float32")}
    model(x)
    for method in ("integrated_gradients", "deep_lift"):
        found = getattr(explanations, method)(model, x, baseline={"left": 0.0, "right": x["right"][0]})
        assert {key: value.shape for key, value in found.attributions.items()} == {"left": (4, 5), "right": (4, 2)}
        change = found.scores - found.baseline_scores
        sums = sum(each.sum(axis=1) for each in found.attributions.values())
        np.testing.assert_allclose(sums, change, atol=1e-5)
        assert np.abs(change).max() > 0.01


@pytest.mark.by_day(None)
def test_tokens_beside_numbers_and_a_mask():
    """Two embeddings of the same tokens, one masked; a second input of numbers; a third that no gradient reaches."""
    keras.utils.set_random_seed(0)
    tokens, numbers, kind = keras.Input((6,), dtype="int32"), keras.Input((3,)), keras.Input((1,), dtype="int32")
    summed = LAYERS.LSTM(4)(LAYERS.Embedding(10, 5, mask_zero=True)(tokens))
    other = LAYERS.GlobalAveragePooling1D()(LAYERS.Embedding(10, 4)(tokens))
    gate = LAYERS.Lambda(lambda k: tf.cast(k > 1, tf.float32))(kind)
    joined = LAYERS.Concatenate()([summed, LAYERS.Multiply()([other, gate]), numbers])
    model = keras.Model([tokens, numbers, kind], LAYERS.Dense(3)(joined))
    rng = np.random.default_rng(0)
    x = [rng.integers(1, 10, (4, 6)), rng.normal(size=(4, 3)).astype("float32"), np.array([[0], [1], [2], [3]])]
    x[0][:, 4:] = 0
    found = explanations.integrated_gradients(model, x, class_index=1)
    assert found.attributions[0].shape == (4, 6) and found.attributions[2] is None
    assert not found.attributions[0][:2, 4:].any(), "masked, and the other embedding is gated"
    assert found.attributions[0][2:, 4:].all()
    np.testing.assert_allclose(found.gap, 0, atol=1e-5)
    np.testing.assert_allclose(found.scores, model(x).numpy()[:, 1], rtol=1e-5)


def test_integers_beside_numbers():
    """They had None, and the sum was complete all the same: that of a linear model is x times its weights."""
    keras.utils.set_random_seed(0)
    kind, number = keras.Input((3,), dtype="int64", name="kind"), keras.Input((1,), name="number")
    model = keras.Model({"kind": kind, "number": number}, LAYERS.Dense(1)(LAYERS.Concatenate()([kind, number])))
    x = {"kind": np.array([[0, 1, 0], [2, 0, 3]]), "number": np.array([[1.5], [2.5]], "float32")}
    found = explanations.integrated_gradients(model, x).attributions
    weights = model.get_weights()[0][:, 0]
    np.testing.assert_allclose(found["kind"], x["kind"] * weights[:3], rtol=1e-5)
    np.testing.assert_allclose(found["number"], x["number"] * weights[3:], rtol=1e-5)


@pytest.mark.by_day(None)
def test_a_function_of_tensors_and_a_node_as_the_score():
    model, x = nested(), images()
    scaled = lambda inputs: 3.0 * model(inputs)[:, 1]  # noqa: E731
    found = explanations.integrated_gradients(scaled, x)
    assert found.explained == "the result of the model"
    with_softmax = explanations.integrated_gradients(model, x, 1, score_at="head")
    np.testing.assert_allclose(found.attributions, 3 * with_softmax.attributions, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(with_softmax.scores, model(x).numpy()[:, 1], rtol=1e-5)
    assert np.all(with_softmax.scores != explanations.integrated_gradients(model, x, 1).scores)


@pytest.mark.by_day(one_in=7)
@pytest.mark.parametrize("method", [*METHODS, "grad_cam", "lrp"])
def test_batch_size_changes_nothing(method):
    model, x = nested(), images(5)
    options = {"steps": 7} if method == "integrated_gradients" else {}
    whole, parts = (getattr(explanations, method)(model, x, batch_size=size, **options) for size in (64, 2))
    np.testing.assert_allclose(parts.attributions, whole.attributions, rtol=1e-3, atol=1e-5)


@pytest.mark.by_day(one_in=7)
@pytest.mark.parametrize("method", [*METHODS, "grad_cam", "lrp"])
def test_no_more_rows_than_the_batch_size_at_once(method):
    model = nested()

    def few(x):
        with tf.control_dependencies([tf.debugging.assert_less_equal(tf.shape(x)[0], 4)]):
            return model(tf.identity(x))

    found = getattr(explanations, method)(few, images(7), class_index=1, batch_size=4)
    assert found.attributions.shape[0] == 7
    with pytest.raises(tf.errors.InvalidArgumentError):
        getattr(explanations, method)(few, images(7), class_index=1, batch_size=5)


def test_grad_cam_of_one_of_two_images():
    """Two branches: the layer tells which input the map belongs to."""
    keras.utils.set_random_seed(0)
    x = [keras.Input((8, 8, 3)), keras.Input((10, 10, 3)), keras.Input((2,))]
    maps = [LAYERS.Conv2D(4, 3, activation="relu", name=name)(each) for name, each in zip("ab", x)]
    pooled = [LAYERS.GlobalAveragePooling2D()(each) for each in maps]
    model = keras.Model(x, LAYERS.Dense(3)(LAYERS.Concatenate()([*pooled, x[2]])))
    rng = np.random.default_rng(0)
    given = [rng.normal(size=(2, *each.shape[1:])).astype("float32") for each in x]
    first = explanations.grad_cam(model, given, "a").attributions
    second = explanations.grad_cam(model, given, "b").attributions
    assert first[0].shape == (2, 8, 8) and first[1] is None and first[2] is None
    assert second[1].shape == (2, 10, 10) and second[0] is None


@pytest.mark.by_day(None)
@pytest.mark.parametrize("method", [*METHODS, "grad_cam", "lrp"])
def test_a_second_call_traces_nothing_and_a_model_is_forgotten(method):
    calls = []

    class Counted(LAYERS.Layer):
        def call(self, x):
            calls.append(x.shape)
            return tf.nn.relu(x)

    model = keras.Sequential(
        [keras.Input((8, 8, 3)), LAYERS.Conv2D(4, 3), Counted(), LAYERS.Flatten(), LAYERS.Dense(2)]
    )
    explain = getattr(explanations, method)
    explain(model, images(3, 8))
    traced = len(calls)
    explain(model, images(5, 8), class_index=1)
    assert len(calls) == traced
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_a_selector_that_is_a_function_is_traced_once_for_each_call():
    calls = []

    def model(x):
        calls.append(x.shape)
        return tf.nn.softmax(tf.nn.relu(x))

    rows, chosen = np.ones((20, 3), "float32"), lambda node: node.op_type == "Relu"
    counts = []
    for batch_size in (64, 4):
        calls.clear()
        explanations.integrated_gradients(model, rows, score_at=chosen, batch_size=batch_size)
        counts.append(len(calls))
    assert counts[0] == counts[1] < 10


def test_weights_are_read_at_each_call():
    model, x = nested(), images()
    before = explanations.integrated_gradients(model, x, 0)
    model.get_layer("head").kernel.assign(2 * model.get_layer("head").kernel)
    after = explanations.integrated_gradients(model, x, 0)
    np.testing.assert_allclose(after.attributions, 2 * before.attributions, rtol=1e-4, atol=1e-6)


def test_a_model_that_changes_is_traced_again():
    """A hook that is put on, one that is taken off, and another layer at the end."""
    model, x = nested(), images()
    plain = explanations.integrated_gradients(model, x, 0)
    layer = model.get_layer("body").get_layer("backbone").get_layer("second")
    with tfjac.hook(layer, backward=tfjac.handlers.scale(2.0)):
        hooked = explanations.integrated_gradients(model, x, 0)
    np.testing.assert_allclose(hooked.attributions, 2 * plain.attributions, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(explanations.integrated_gradients(model, x, 0).attributions, plain.attributions)
    grown = keras.Sequential([keras.Input((4,)), LAYERS.Dense(3, use_bias=False)])
    rows = np.ones((2, 4), "float32")
    explanations.integrated_gradients(grown, rows, 0)
    grown.add(LAYERS.Rescaling(3.0))
    found = explanations.integrated_gradients(grown, rows, 0)
    np.testing.assert_allclose(found.attributions, [3 * grown.get_weights()[0][:, 0]] * 2, rtol=1e-5)


def test_mixed_precision():
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        model = nested()
    finally:
        keras.mixed_precision.set_global_policy("float32")
    for method in ("integrated_gradients", "deep_lift", "lrp"):
        found = getattr(explanations, method)(model, images(), class_index=1)
        exact = getattr(explanations, method)(nested(), images(), class_index=1)
        differences = np.abs(found.attributions - exact.attributions)
        assert differences.mean() < 0.1 * np.abs(exact.attributions).mean(), method
