"""Shapley values of a network trained on digits: estimates beside the exact ones."""

import keras
import numpy as np
import pytest

from tests.digits import load_digits
from tfjac import explanations

BLOCKS = np.kron(np.arange(12).reshape(4, 3), np.ones((2, 3), int))[:, :8]
"""Twelve features: the images of 8 × 8 in blocks of 2 × 3, the last ones of 2 × 2."""


@pytest.fixture(scope="module")
def digits():
    """A trained network, and images of which it is right."""
    x, y = load_digits()
    keras.utils.set_random_seed(0)
    layers = [keras.Input((8, 8)), keras.layers.Flatten(), keras.layers.Dense(32, "relu"), keras.layers.Dense(10)]
    model = keras.Sequential(layers)
    model.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(x[:1500], y[:1500], epochs=15, batch_size=50, verbose=0)
    right = model.predict(x[1500:], verbose=0).argmax(axis=1) == y[1500:]
    assert right.mean() > 0.85
    return model, x[1500:][right][:8], x[:1500]


@pytest.mark.by_day(None)
def test_estimates_agree_with_exact_shapley_values(digits):
    model, x, background = digits
    options = {"groups": BLOCKS, "baseline": background.mean(axis=0)}
    exact = explanations.shapley_values(model, x, **options, batch_size=4096)
    values = exact.details["features"]
    np.testing.assert_allclose(exact.gap, 0, atol=1e-4)
    away = {}
    for name, method, samples in [
        ("few", "kernel_shap", 256), ("many", "kernel_shap", 2048), ("all", "kernel_shap", 4094),
        ("orders", "shapley_sampling", 200),
    ]:  # fmt: skip
        found = getattr(explanations, method)(model, x, samples=samples, batch_size=4096, **options)
        np.testing.assert_allclose(found.gap, 0, atol=1e-4)
        away[name] = np.linalg.norm(found.details["features"] - values) / np.linalg.norm(values)
    assert away["all"] < 1e-5 < away["many"] < away["few"] < 0.04, away
    assert away["many"] < 0.01 and away["orders"] < 0.04, away


def test_metrics_rank_what_explains_the_digits(digits):
    """Hidden blocks: what contributions foretell, of the exact values, of ablation, and of the exact ones shuffled."""
    model, x, background = digits
    options = {"groups": BLOCKS, "baseline": background.mean(axis=0)}
    exact = explanations.shapley_values(model, x, **options, batch_size=4096)
    ablation = explanations.feature_ablation(model, x, **options)
    bad = {
        name: explanations.infidelity(model, found, baseline=options["baseline"]).mean()
        for name, found in {"shapley": exact, "ablation": ablation}.items()
    }
    assert bad["shapley"] < bad["ablation"], bad
    gaps = [np.abs(explanations.completeness_gap(model, e, options["baseline"])).max() for e in (exact, ablation)]
    assert gaps[0] < 1e-4 and gaps[1] > 1.0
