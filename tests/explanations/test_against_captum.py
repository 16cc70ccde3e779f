"""Each method against Captum's values for the same weights, in float64."""

import keras
import numpy as np
import pytest

from tests.interception.test_explanations import data, of_keras
from tests.precision import floating
from tfjac import explanations

RELUS = ["mlp/relu", "cnn/relu", "pooling/relu"]
ALL = [*RELUS, "mlp/sigmoid", "mlp/tanh"]


@pytest.fixture(autouse=True)
def double_precision():
    with floating("float64"):
        yield


def explained(method, name, **options):
    kind = name.split("/")[0]
    return getattr(explanations, method)(of_keras(name), data()[f"{kind}/x"], class_index=data()["target"], **options)


def reference(name):
    return data()[f"{name.split('/')[0]}/reference"]


def assert_close(found, name, rtol=1e-9):
    np.testing.assert_allclose(found, data()[name], rtol=rtol, atol=rtol * np.abs(data()[name]).max(), err_msg=name)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name", ALL)
def test_integrated_gradients(name):
    """Captum rounds its quadrature weights to float32."""
    found = explained("integrated_gradients", name, baseline=reference(name))
    assert_close(found.attributions, f"{name}/integrated", 1e-6)
    assert found.explained == "logits, before Softmax"
    target = data()["target"]
    np.testing.assert_allclose(found.scores, data()[f"{name}/scores"][np.arange(4), target], rtol=1e-12)
    if "relu" not in name:
        np.testing.assert_allclose(found.gap, 0, atol=1e-9)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name", ALL)
def test_smooth_grad(name):
    found = explained("smooth_grad", name, samples=3, noise=0.15, seed=0)
    assert_close(found.attributions, f"{name}/smooth")


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("name", RELUS)
def test_guided_backprop(name):
    assert_close(explained("guided_backprop", name).attributions, f"{name}/guided")


@pytest.mark.by_day(None)
def test_gradient_shap():
    """To the error of 20,000 samples there, and of 4,000 here."""
    name = "mlp/tanh"
    found = explained("gradient_shap", name, background=reference(name), samples=4000, batch_size=4000)
    expected = data()[f"{name}/gradient_shap"]
    np.testing.assert_allclose(found.attributions, expected, atol=0.04 * np.abs(expected).max())
    change = np.abs(found.scores - found.baseline_scores)
    assert np.all(np.abs(found.gap) < 0.05 * change.max()) and np.abs(found.gap).max() > 0


@pytest.mark.parametrize("call", [0, 1])
def test_grad_cam(call):
    found = explained("grad_cam", "cnn/relu", layer=f"act[{call}]")
    maps = data()[f"cnn/relu/act_{call}/grad_cam"][..., 0]
    np.testing.assert_allclose(found.details["maps"], np.maximum(maps, 0), rtol=1e-9, atol=1e-12)
    assert found.attributions.shape == (4, 12, 12) and np.ptp(found.details["maps"]) > 0


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name", [*RELUS, "mlp/sigmoid", "mlp/tanh"])
def test_deep_lift(name):
    found = explained("deep_lift", name, baseline=reference(name))
    assert_close(found.attributions, f"{name}/deep_lift")
    np.testing.assert_allclose(found.gap, 0, atol=1e-12)


@pytest.mark.by_day(one_in=6)
@pytest.mark.parametrize("name", [*RELUS, "mlp/tanh"])
@pytest.mark.parametrize("rule", ["epsilon", "epsilon_0.3", "gamma"])
def test_lrp(name, rule):
    options = {"rule": rule.split("_")[0], "epsilon": 0.3 if "_" in rule else 1e-9}
    assert_close(explained("lrp", name, **options).attributions, f"{name}/lrp/{rule}", 1e-7)


def of_tokens():
    layers, tokens = keras.layers, keras.Input((6,), dtype="int32")
    embedded = layers.Embedding(9, 4, name="embedding")(tokens)
    hidden = layers.GlobalAveragePooling1D()(layers.Activation("tanh")(embedded))
    hidden = layers.Dense(5, "tanh", name="first")(hidden)
    model = keras.Model(tokens, layers.Dense(3, name="head")(hidden))
    model.get_layer("embedding").set_weights([data()["tokens/embedding/kernel"]])
    for name in ("first", "head"):
        model.get_layer(name).set_weights([data()[f"tokens/{name}/{part}"] for part in ("kernel", "bias")])
    return model


def test_integrated_gradients_of_tokens():
    found = explanations.integrated_gradients(
        of_tokens(), data()["tokens/x"], data()["target"], baseline=data()["tokens/reference"]
    )
    assert_close(found.attributions, "tokens/integrated", 1e-6)
    np.testing.assert_allclose(found.gap, 0, atol=1e-9)
