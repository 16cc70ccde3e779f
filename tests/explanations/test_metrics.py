"""What tells good explanations from bad ones: Captum's values, and the definitions in NumPy."""

import keras
import numpy as np
import pytest

from tests.explanations.test_shapley import captum
from tests.interception.test_explanations import data, of_keras
from tests.precision import floating
from tfjac import explanations


@pytest.fixture(autouse=True)
def double_precision():
    with floating("float64"):
        yield


def of_rows():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(2)])
    w1, b1, w2, b2 = (each.astype("float64") for each in model.get_weights())
    return model, lambda x: (np.tanh(x @ w1 + b1) @ w2 + b2)[:, 1], np.random.default_rng(3).normal(size=(4, 5))


def test_infidelity_and_sensitivity_have_the_values_of_captum():
    model, x, target = of_keras("mlp/tanh"), data()["mlp/x"], data()["target"]

    def explain(x):
        return explanations.integrated_gradients(model, x, class_index=target)

    found = explain(x)
    np.testing.assert_allclose(found.attributions, captum()["mlp/tanh/integrated"], rtol=1e-6, atol=1e-7)
    bad = explanations.infidelity(model, found, "noise", noise=0.1, samples=50, seed=0)
    np.testing.assert_allclose(bad, captum()["mlp/tanh/infidelity"], rtol=1e-4)
    moved = explanations.sensitivity_max(explain, x, radius=0.02, samples=10, seed=0)
    np.testing.assert_allclose(moved, captum()["mlp/tanh/sensitivity_max"], rtol=1e-3)


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("method", ["feature_ablation", "occlusion", "kernel_shap", "integrated_gradients"])
@pytest.mark.parametrize("groups", [None, [0, 1, 1, 2, 0]])
def test_infidelity_of_hidden_features_by_hand(method, groups):
    if groups and method in ("occlusion", "integrated_gradients"):
        return
    model, of, x = of_rows()
    options = {"groups": groups} if groups else {}
    found = getattr(explanations, method)(model, x, class_index=1, baseline=0.5, **options)
    numbers = np.array(groups or range(5))
    values = found.details.get("features", found.attributions)
    rng, expected = np.random.default_rng(7), np.zeros(4)
    for _ in range(30):
        hides = rng.random((4, numbers.max() + 1)) < 0.5
        fall = of(x) - of(np.where(hides[:, numbers], 0.5, x))
        expected += ((hides * values).sum(axis=1) - fall) ** 2 / 30
    bad = explanations.infidelity(model, found, samples=30, seed=7, baseline=0.5, batch_size=3)
    np.testing.assert_allclose(bad, expected, rtol=1e-9)
    gap = explanations.completeness_gap(model, found, baseline=0.5)
    np.testing.assert_allclose(gap, values.sum(axis=1) - (of(x) - of(np.full_like(x, 0.5))), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("perturb", ["hide", "noise"])
def test_slopes_count_in_the_units_of_the_inputs(perturb):
    """The gradient of a linear model is perfect, if it is taken as a slope."""
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(2)])
    x = np.random.default_rng(0).normal(size=(3, 5))
    found = explanations.smooth_grad(model, x, class_index=0, samples=1, noise=0.0)
    np.testing.assert_allclose(explanations.infidelity(model, found, perturb, baseline=0.3), 0, atol=1e-20)
    exact = explanations.kernel_shap(model, x, class_index=0, baseline=0.3)
    np.testing.assert_allclose(explanations.infidelity(model, exact, perturb, baseline=0.3), 0, atol=1e-20)
    wrong = explanations.infidelity(model, exact, perturb, baseline=1.0)
    assert wrong.min() > 1e-4


def test_shapley_values_have_less_infidelity_than_ablation():
    model, _, x = of_rows()
    bad = [
        explanations.infidelity(model, getattr(explanations, method)(model, 3 * x, class_index=1)).mean()
        for method in ("shapley_values", "feature_ablation")
    ]
    assert bad[0] < bad[1]


def test_what_has_no_metric_is_refused():
    model, _, x = of_rows()
    grouped = explanations.kernel_shap(model, x, groups=[0, 0, 1, 1, 2])
    with pytest.raises(TypeError, match=r"Noise is for inputs of floating-point numbers.*kernel_shap"):
        explanations.infidelity(model, grouped, "noise")
    with pytest.raises(ValueError, match=r"Did you mean 'noise'|perturb must be"):
        explanations.infidelity(model, grouped, "nois")
    maps = explanations.grad_cam(of_keras("cnn/relu"), data()["cnn/x"])
    for metric in explanations.infidelity, explanations.completeness_gap:
        with pytest.raises(ValueError, match=r"units of the score.*Received: an explanation by grad_cam"):
            metric(of_keras("cnn/relu"), maps)
    squares = explanations.smooth_grad(model, x, combine="squares")
    with pytest.raises(ValueError, match=r"units of the score.*Received: an explanation by smooth_grad"):
        explanations.infidelity(model, squares)
    with pytest.raises(ValueError, match=r"Another class is explained of inputs near by"):
        explanations.sensitivity_max(lambda x: explanations.feature_ablation(model, x), x, radius=9.0)
