"""Features that are hidden: Captum's values, brute force over all orders in NumPy, and what adds up."""

import functools
import itertools
import pathlib

import keras
import numpy as np
import pytest

from tests.interception.test_explanations import data, of_keras
from tests.precision import floating
from tfjac import explanations

DATA = pathlib.Path(__file__).parents[1] / "data" / "explanations" / "captum_shapley.npz"
"""Made by the script beside it."""

BY_SHAPLEY = ("shapley_values", "shapley_sampling", "kernel_shap")


@pytest.fixture(autouse=True)
def double_precision():
    with floating("float64"):
        yield


@functools.cache
def captum():
    return dict(np.load(DATA))


def explained(method, name, **options):
    kind = name.split("/")[0]
    given = {"class_index": data()["target"], "baseline": data()[f"{kind}/reference"], **options}
    return getattr(explanations, method)(of_keras(name), data()[f"{kind}/x"], **given)


@pytest.mark.parametrize("name", ["mlp/tanh", "cnn/relu"])
@pytest.mark.parametrize(
    ("method", "key"), [("feature_ablation", "ablation"), ("shapley_values", "shapley"), ("kernel_shap", "shapley")]
)
def test_groups_have_the_values_of_captum(method, key, name):
    """KernelSHAP takes all coalitions, where Captum's own draws some, and is off by a per cent."""
    kind = name.split("/")[0]
    groups = captum()[f"{kind}/groups"]
    found = explained(method, name, groups=groups if kind == "mlp" else groups[..., None])
    expected = captum()[f"{name}/{key}"]
    np.testing.assert_allclose(found.attributions, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    drawn = captum()[f"{name}/kernel_shap"]
    assert method != "kernel_shap" or np.abs(drawn - found.attributions).max() < 0.05 * np.abs(drawn).max()


@pytest.mark.parametrize(("method", "key"), [("feature_ablation", "ablation"), ("shapley_values", "shapley")])
def test_single_features_have_the_values_of_captum(method, key):
    expected = captum()[f"mlp/tanh/single/{key}"]
    np.testing.assert_allclose(explained(method, "mlp/tanh").attributions, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.by_day(None)
def test_gradient_shap_has_the_values_of_captum():
    """To the error of 20,000 samples there, and of 4,000 here."""
    options = {"class_index": data()["target"], "background": data()["mlp/reference"], "samples": 4000}
    found = explanations.gradient_shap(of_keras("mlp/tanh"), data()["mlp/x"], batch_size=4000, **options)
    expected = captum()["mlp/tanh/gradient_shap"]
    np.testing.assert_allclose(found.attributions, expected, atol=0.04 * np.abs(expected).max())
    change = np.abs(found.scores - found.baseline_scores)
    assert np.all(np.abs(found.gap) < 0.05 * change.max()) and np.abs(found.gap).max() > 0


def network():
    keras.utils.set_random_seed(1)
    first, second = keras.layers.Dense(7, "tanh", bias_initializer="normal"), keras.layers.Dense(3)
    model = keras.Sequential([keras.Input((5,)), first, second])
    w1, b1, w2, b2 = (w.astype("float64") for w in model.get_weights())
    return model, lambda x: np.tanh(x @ w1 + b1) @ w2 + b2


def by_all_orders(scores, x, start, groups):
    """The mean over all orders of what each group changes as it is let in, `[n, groups]`."""
    count = groups.max() + 1
    orders = list(itertools.permutations(range(count)))
    values = np.zeros((len(x), count))
    for order in orders:
        present = np.zeros(len(groups), bool)
        for each in order:
            before = scores(np.where(present, x, start))
            present |= groups == each
            values[:, each] += (scores(np.where(present, x, start)) - before) / len(orders)
    return values


@pytest.mark.parametrize("groups", [None, [0, 3, 1, 0, 2], [7, 7, -2, 7, 7]])
@pytest.mark.parametrize("batch_size", [3, 64])
def test_shapley_values_are_means_over_all_orders(groups, batch_size):
    model, of = network()
    x, start = np.random.default_rng(0).normal(size=(2, 4, 5))
    options = {"class_index": 1, "groups": groups, "baseline": start, "batch_size": batch_size}
    found = [getattr(explanations, each)(model, x, **options) for each in BY_SHAPLEY]
    numbers = np.unique(np.arange(5) if groups is None else groups, return_inverse=True)[1]
    expected = by_all_orders(lambda x: of(x)[:, 1], x, start, numbers)
    for each in found:
        np.testing.assert_allclose(each.baseline_scores, of(start)[:, 1], rtol=1e-9)
        np.testing.assert_allclose(each.gap, 0, atol=1e-12)
        np.testing.assert_array_equal(each.attributions, each.details["features"][:, numbers])
    exact, sampled, kernel = found
    np.testing.assert_allclose(exact.details["features"], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(kernel.details["features"], expected, rtol=1e-9, atol=1e-12)
    away = np.abs(sampled.details["features"] - expected)
    assert np.all(away < 5 * sampled.details["standard_errors"] + 1e-12)


def test_few_coalitions_come_near_and_add_up():
    """Ten features: 200 coalitions of 1,022. All of them are the exact values."""
    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.Input((10,)), keras.layers.Dense(9, "tanh"), keras.layers.Dense(1)])
    x = np.random.default_rng(0).normal(size=(3, 10))
    exact = explanations.shapley_values(model, x)
    few, all_of_them = (explanations.kernel_shap(model, x, samples=samples) for samples in (200, 1022))
    np.testing.assert_allclose(all_of_them.attributions, exact.attributions, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(few.gap, 0, atol=1e-12)
    away = np.abs(few.attributions - exact.attributions).max()
    assert 0 < away < 0.05 * np.abs(exact.attributions).max()


def test_a_linear_model_is_its_contributions():
    """One coalition in each pair is enough, as nothing interacts; a feature alone has the whole change."""
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1, use_bias=False)])
    x, w = np.random.default_rng(0).normal(size=(3, 6)), model.get_weights()[0][:, 0]
    for method, options in ("kernel_shap", {"samples": 40}), ("shapley_sampling", {"samples": 1}):
        found = getattr(explanations, method)(model, x, **options)
        np.testing.assert_allclose(found.attributions, x * w, rtol=1e-9, atol=1e-12)
    alone = explanations.kernel_shap(model, x, groups=np.zeros(6, int))
    np.testing.assert_allclose(alone.details["features"][:, 0], x @ w, rtol=1e-9)
    assert np.all(np.isnan(found.details["standard_errors"]))


def test_several_inputs_share_features_and_tokens_are_hidden():
    layers = keras.layers
    tokens, rows = keras.Input((3,), dtype="int32"), keras.Input((2,))
    hidden = layers.Concatenate()([layers.Flatten()(layers.Embedding(5, 2)(tokens)), rows])
    model = keras.Model({"tokens": tokens, "rows": rows}, layers.Dense(1)(layers.Dense(4, "tanh")(hidden)))
    x = {"tokens": np.array([[1, 2, 3], [4, 0, 1]]), "rows": np.random.default_rng(0).normal(size=(2, 2))}

    def of(present):
        given = {"tokens": np.where(present[:3], x["tokens"], 2), "rows": np.where(present[3:], x["rows"], 0.0)}
        return model.predict(given, verbose=0)[:, 0]

    groups = {"tokens": np.array([0, 1, 1]), "rows": np.array([1, 2])}
    options = {"groups": groups, "baseline": {"tokens": 2, "rows": 0.0}}
    found = explanations.shapley_values(model, x, **options)
    numbers = np.array([0, 1, 1, 1, 2])
    full = np.ones(5, bool)
    by_hand = np.zeros((2, 3))
    for order in itertools.permutations(range(3)):
        present = ~full
        for each in order:
            before = of(present)
            present = present | (numbers == each)
            by_hand[:, each] += (of(present) - before) / 6
    np.testing.assert_allclose(found.details["features"], by_hand, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.attributions["tokens"], by_hand[:, [0, 1, 1]], rtol=1e-6, atol=1e-9)
    ablated = explanations.feature_ablation(model, x, **options)
    falls = np.stack([of(full) - of(numbers != each) for each in range(3)], axis=1)
    np.testing.assert_allclose(ablated.attributions["rows"], falls[:, [1, 2]], rtol=1e-6, atol=1e-9)


def test_images_have_sixteen_patches_and_series_their_steps():
    layers = keras.layers
    images = keras.Sequential([keras.Input((9, 8, 2)), layers.Conv2D(2, 3), layers.Flatten(), layers.Dense(2)])
    x = np.random.default_rng(0).normal(size=(2, 9, 8, 2))
    found = explanations.feature_ablation(images, x, class_index=0)
    groups = found.details["groups"]
    assert groups.shape == (9, 8, 2) and groups.max() == 15 and np.all(groups[..., 0] == groups[..., 1])
    np.testing.assert_array_equal(groups[:, 0, 0], [0, 0, 4, 4, 8, 8, 12, 12, 12])
    series = keras.Sequential([keras.Input((5, 3)), layers.Flatten(), layers.Dense(1)])
    groups = explanations.kernel_shap(series, x[:, :5, :3, 0]).details["groups"]
    np.testing.assert_array_equal(groups, np.arange(5)[:, None].repeat(3, axis=1))


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("shapley_values", {"groups": np.arange(20)}, r"more than 16 features are too many.*Received: 20 features"),
        ("kernel_shap", {"groups": [0, 1]}, r"integers like one example.*\(20,\). Received: .*\(2,\)"),
        ("kernel_shap", {"groups": np.linspace(0, 1, 20)}, r"integers like one example.*Received: .*float64"),
        ("kernel_shap", {"samples": 10}, r"Too few coalitions to tell 20 features apart"),
        ("shapley_sampling", {"samples": 0}, "samples must be"),
        ("gradient_shap", {"noise": -1.0}, "noise must be zero or positive"),
        ("gradient_shap", {"background": np.zeros((2, 3))}, "background must be examples like x|incompatible|shape"),
    ],
)
def test_what_does_not_fit_is_refused(method, options, message):
    model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(1)])
    with pytest.raises(ValueError, match=message):
        getattr(explanations, method)(model, np.ones((2, 20)), **options)
