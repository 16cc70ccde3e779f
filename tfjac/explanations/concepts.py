"""TCAV: whether a score depends on a concept that examples show, by directional derivatives at a layer."""

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import tensorflow as tf
from scipy.special import stdtr

from tfjac._warn import warn
from tfjac.arguments import positive_integer
from tfjac.explanations.program import chosen, key_of
from tfjac.explanations.scores import Explained
from tfjac.interception import node_gradients
from tfjac.types import Array, Function, NestLike, Selector, TensorLike

Classifier: TypeAlias = Callable[[Array, Array], Array]
"""Function of activations `[k, a]` and labels `[k]` of bool, that returns the direction `[a]` towards the true ones."""


@dataclasses.dataclass(frozen=True)
class ConceptSensitivity:
    """What `tcav` returns; s is the number of random sets.

    Attributes:
        scores: `[s]`, for the concept against each random set, the share of examples whose score grows towards it.
        random_scores: `[s]`, the same for each random set against the next.
        p_value: two-sided, of Welch's t-test whether both have the same mean.
        accuracies: `[s]`, of the classifiers of the concept, on a third of the examples that they were not fitted to:
            the mean of the shares of both kinds.
        vectors: `[s, a]`, the concept activation vectors, of norm one.
        derivatives: `[s, n]`, the derivatives of the scores of x along these.
    """

    scores: Array
    random_scores: Array
    p_value: float
    accuracies: Array
    vectors: Array
    derivatives: Array

    @property
    def score(self) -> float:
        """The mean of the scores: near one or zero, the concept speaks for the class or against it."""
        return float(self.scores.mean())

    def __repr__(self) -> str:
        return (
            f"TCAV score {self.score:.3f} ± {self.scores.std():.3f}, random {self.random_scores.mean():.3f} ± "
            f"{self.random_scores.std():.3f}: p = {self.p_value:.3g}; the concept is told from random examples with an "
            f"accuracy of {self.accuracies.mean():.2f}"
        )


def tcav(
    model: Function,
    x: NestLike,
    layer: Selector,
    concept: NestLike,
    random: NestLike,
    class_index: int | TensorLike | None = None,
    sets: int = 10,
    classifier: Classifier | None = None,
    seed: int = 0,
    score_at: Selector | None = None,
    batch_size: int = 64,
) -> ConceptSensitivity:
    """Test whether the scores of examples depend on a concept, at a layer.

    The concept activation vector is the direction in which a linear classifier tells the activations of the concept
    from those of random examples. The score is the share of x whose derivative along it is positive.

    Args:
        model, x, class_index: as in `grad_cam`; x are examples of the class.
        layer: a selector of one node with numbers for each example, as in `grad_cam`, of any shape.
        concept: examples like x that show the concept, twenty or more.
        random: examples like x that do not, which are split into `sets` parts.
        sets: number of random sets, three at least, for the test.
        classifier: a function of activations `[k, a]` and labels `[k]` that returns the direction `[a]`, such as
            `lambda a, labels: LogisticRegression().fit(a, labels).coef_[0]`. If None, Fisher's linear discriminant,
            with a tenth of the mean variance added to the covariance.
        seed: of how the random examples are split, and of which a classifier is not fitted to.
        score_at: as in `grad_cam`.
        batch_size: so many rows are computed at once.

    Returns:
        A `ConceptSensitivity`. If its accuracies are near a half, the layer does not show the concept. All its vectors
        are then one direction of chance, which may pass the test, and say nothing: a warning says so.

    Raises:
        TypeError, ValueError: as in `grad_cam`; for several nodes, or one that the scores do not depend on; for fewer
            than three sets, or than three examples in a set.

    Cost: one gradient for each example, and 2 s linear classifiers.
    Reference: B. Kim et al., "Interpretability beyond feature attribution: quantitative testing with concept activation
    vectors (TCAV)", 2018.
    """
    parts, rng = positive_integer("sets", sets), np.random.default_rng(seed)
    slopes, _ = _at_layer(Explained(model, x, class_index, score_at, batch_size), layer)
    shown, others = (
        _at_layer(Explained(model, each, None, score_at, batch_size), layer)[1] for each in (concept, random)
    )
    if parts < 3 or len(others) < 3 * parts or len(shown) < 3:
        raise ValueError(
            "The test needs three random sets at least, and three examples in each and of the concept. "
            f"Received: sets={sets}, {len(others)} random examples, {len(shown)} of the concept"
        )
    groups = np.array_split(others[rng.permutation(len(others))], parts)
    fit = classifier or _discriminant
    found = [_direction(shown, group, fit, rng) for group in groups]
    vectors, accuracies = (np.array(each) for each in zip(*found))
    _check_shown(accuracies, len(shown))
    of_random = np.array([_direction(a, b, fit, rng)[0] for a, b in zip(groups, groups[1:] + groups[:1])])
    derivatives = vectors @ slopes.T
    scores, random_scores = ((v > 0).mean(axis=1) for v in (derivatives, of_random @ slopes.T))
    return ConceptSensitivity(scores, random_scores, _p_value(scores, random_scores), accuracies, vectors, derivatives)


def _at_layer(explained, layer):
    """Gradients of the scores at a layer, and its values, `[n, a]` each, in float64."""

    def both(program, *flat):
        inputs, classes = flat[:-1], flat[-1]
        gradient, value = node_gradients(lambda: chosen(program(*inputs), classes), layer, values=True)
        if isinstance(value, list) or gradient is None:
            raise ValueError(
                "layer must select one node that the scores depend on: choose a call of a layer that is called several "
                f"times, such as 'act[0]' for the first. Received: layer={layer!r}, which selects "
                f"{f'{len(value)} nodes' if isinstance(value, list) else 'a node without a gradient'}"
            )
        return gradient, value

    given = [*explained.inputs.arrays, explained.classes]
    specs = [*explained.inputs.specs(), tf.TensorSpec([None], tf.int64)]
    found = explained.in_parts(explained.compiled(["tcav", key_of(layer)], both, specs).run, given)
    return [each.reshape(len(each), -1).astype(np.float64) for each in found]


def _direction(shown, others, fit, rng):
    """The direction of norm one from `others[k, a]` to `shown`, and how well it tells those left out apart."""
    (near, near_left), (far, far_left) = (
        np.split(a[rng.permutation(len(a))], [-(-2 * len(a) // 3)]) for a in (shown, others)
    )
    labels = np.repeat([True, False], [len(near), len(far)])
    vector = np.asarray(fit(np.concatenate([near, far]), labels), np.float64).ravel()
    vector = vector / np.linalg.norm(vector)
    middle = (near.mean(axis=0) + far.mean(axis=0)) @ vector / 2
    return vector, ((near_left @ vector > middle).mean() + (far_left @ vector <= middle).mean()) / 2


def _check_shown(accuracies, count):
    """Warn if the mean accuracy is within twice the error of chance, of a third of the examples of the concept."""
    if accuracies.mean() < 0.5 + 2 * 0.5 / np.sqrt(2 * (count / 3)):
        warn(
            "The layer does not tell the concept from random examples, so that the TCAV score and its p-value say "
            "nothing: choose another layer, or more and clearer examples of the concept. "
            f"Received: a mean accuracy of {accuracies.mean():.2f}"
        )


def _discriminant(values, labels):
    """(Σ + λ)⁻¹ (μ₁ − μ₀) with the covariance Σ within the classes, by the kernel of the examples."""
    means = [values[labels == each].mean(axis=0) for each in (False, True)]
    centred = values - np.where(labels[:, None], means[1], means[0])
    difference, count = means[1] - means[0], len(values)
    ridge = 0.1 * np.mean(centred**2) + np.finfo(float).tiny
    kernel = centred @ centred.T + count * ridge * np.eye(count)
    return (difference - centred.T @ np.linalg.solve(kernel, centred @ difference)) / ridge


def _p_value(scores, others):
    """Of Welch's two-sided t-test."""
    if np.ptp(scores) == 0 and np.ptp(others) == 0:
        return float(scores[0] == others[0])
    variances = np.array([each.var(ddof=1) / len(each) for each in (scores, others)])
    freedom = variances.sum() ** 2 / (variances**2 / (len(scores) - 1)).sum()
    return float(2 * stdtr(freedom, -abs(scores.mean() - others.mean()) / np.sqrt(variances.sum())))
