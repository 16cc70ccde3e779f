"""TCAV against NumPy: directions, derivatives, the test; a concept that decides, and one that does not."""

import warnings

import keras
import numpy as np
import pytest
from scipy import stats

from tests.precision import floating
from tfjac import explanations

LAYERS = keras.layers


@pytest.fixture(autouse=True)
def double_precision():
    with floating("float64"):
        yield


def network():
    """Of which the first score reads the first two columns alone."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((6,)), LAYERS.Dense(8, "tanh", name="hidden"), LAYERS.Dense(2, name="head")])
    w1, b1, w2, b2 = model.get_weights()
    w1[2:] *= 0.02
    w1[0] += np.linspace(0.5, 1.0, 8)
    w2[:, 0] = np.linspace(0.2, 1.0, 8)
    model.set_weights([w1, b1, w2, b2])
    return model, (w1, b1, w2, b2)


def examples(column=None, count=60, seed=0):
    x = np.random.default_rng(seed).normal(size=(count, 6))
    if column is not None:
        x[:, column] += 4.0
    return x


def test_scores_are_shares_of_positive_derivatives_by_hand():
    model, (w1, b1, w2, _) = network()
    x, concept, random = examples(count=17, seed=1), examples(0, 24, seed=2), examples(count=40, seed=3)

    def towards(values, labels):
        return 7 * (values[labels].mean(axis=0) - values[~labels].mean(axis=0))

    found = explanations.tcav(model, x, "hidden", concept, random, 1, sets=4, classifier=towards, seed=5, batch_size=7)
    rng = np.random.default_rng(5)
    shown, others = (np.tanh(each @ w1 + b1) for each in (concept, random))
    slopes = np.repeat(w2[None, :, 1], 17, axis=0)
    groups = np.array_split(others[rng.permutation(40)], 4)
    pairs = [(shown, group) for group in groups] + [(groups[k], groups[(k + 1) % 4]) for k in range(4)]
    scores, vectors = [], []
    for near, far in pairs:
        kept = [a[rng.permutation(len(a))][: -(-2 * len(a) // 3)] for a in (near, far)]
        vector = kept[0].mean(axis=0) - kept[1].mean(axis=0)
        vectors.append(vector / np.linalg.norm(vector))
        scores.append(np.mean(slopes @ vectors[-1] > 0))
    np.testing.assert_allclose(found.vectors, vectors[:4], rtol=1e-9)
    np.testing.assert_allclose(found.derivatives, np.array(vectors[:4]) @ slopes.T, rtol=1e-9)
    np.testing.assert_allclose(found.scores, scores[:4])
    np.testing.assert_allclose(found.random_scores, scores[4:])


def test_a_concept_that_decides_is_told_from_one_that_does_not():
    model, _ = network()
    random = examples(count=400, seed=3)
    x = examples(seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        deciding = explanations.tcav(model, x, "hidden", examples(0, seed=2), random, class_index=0)
    assert deciding.score == 1.0 and deciding.p_value < 0.02 and deciding.accuracies.min() > 0.8
    with pytest.warns(UserWarning, match=r"does not tell the concept from random.*Received: a mean accuracy of 0\.5"):
        explanations.tcav(model, x, "hidden", examples(4, seed=2), random, class_index=0)
    expected = stats.ttest_ind(deciding.scores, deciding.random_scores, equal_var=False).pvalue
    assert deciding.p_value == pytest.approx(expected)
    assert f"TCAV score 1.000 ± 0.000, random {deciding.random_scores.mean():.3f}" in repr(deciding)


def test_the_direction_is_that_of_the_linear_discriminant():
    """For an input as the layer the activations are known: (Σ + λ)⁻¹ (μ₁ − μ₀) by the covariance."""
    from tfjac.explanations.concepts import _discriminant

    values, labels = examples(2, 30), np.arange(30) < 12
    values[labels, 1] += 3.0
    near, far = values[labels], values[~labels]
    centred = np.concatenate([near - near.mean(axis=0), far - far.mean(axis=0)])
    covariance = centred.T @ centred / 30 + 0.1 * np.mean(centred**2) * np.eye(6)
    expected = np.linalg.solve(covariance, near.mean(axis=0) - far.mean(axis=0))
    np.testing.assert_allclose(_discriminant(values, labels), expected, rtol=1e-9)


def test_images_and_what_is_refused():
    keras.utils.set_random_seed(0)
    layers = [keras.Input((8, 8, 1)), LAYERS.Conv2D(3, 3, activation="relu", name="maps"), LAYERS.Flatten()]
    model = keras.Sequential([*layers, LAYERS.Dense(3, "softmax")])
    x = np.random.default_rng(0).normal(size=(60, 8, 8, 1))
    found = explanations.tcav(model, x[:9], "maps", x[10:20], x[20:], sets=3)
    assert found.vectors.shape == (3, 6 * 6 * 3) and found.derivatives.shape == (3, 9) and 0 <= found.p_value <= 1
    with pytest.raises(ValueError, match=r"three random sets.*Received: sets=2, 40 random examples, 10 of"):
        explanations.tcav(model, x[:9], "maps", x[10:20], x[20:], sets=2)
    with pytest.raises(ValueError, match=r"No node is selected by 'mapz'"):
        explanations.tcav(model, x[:9], "mapz", x[10:20], x[20:])
