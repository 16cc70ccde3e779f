"""How good an explanation is: whether it adds up, foretells what perturbations do, and stays for inputs near by."""

from collections.abc import Callable
from typing import Literal

import numpy as np
import tensorflow as tf

from tfjac.arguments import choice, positive, positive_integer
from tfjac.explanations.explanation import Explanation
from tfjac.explanations.inputs import Inputs
from tfjac.explanations.scores import Explained, of_classes
from tfjac.types import Array, Function, Nest, NestLike, Selector, TensorLike


def completeness_gap(
    model: Function,
    explanation: Explanation,
    baseline: Nest[TensorLike] | None = None,
    score_at: Selector | None = None,
    batch_size: int = 64,
) -> Array:
    """Return by how much attributions miss the change of the score from that of a baseline.

        Σ attributions − (score(x) − score(baseline)), a feature of several elements counted once

    Args:
        model: the model that was explained.
        explanation: of a method whose attributions are in units of the score.
        baseline: as in `occlusion`.
        score_at: as it was in the explanation.
        batch_size: so many rows are computed at once.

    Returns:
        `[n]`. Divided by the change, it tells methods apart whose attributions are contributions.

    Raises:
        ValueError: for an explanation in no units of the score, as those of `grad_cam`.
    """
    _refuse_places(explanation)
    explained = Explained(model, explanation.inputs, explanation.classes, score_at, batch_size)
    everything = explained.inputs.baseline(baseline)
    change = explained.scores - of_classes(explained.all_scores(everything), explained.classes)
    return _sum(each for each in _of_elements(explanation) if each is not None) - change


def infidelity(
    model: Function,
    explanation: Explanation,
    perturb: Literal["hide", "noise"] = "hide",
    noise: float = 0.1,
    baseline: Nest[TensorLike] | None = None,
    samples: int = 100,
    seed: int = 0,
    score_at: Selector | None = None,
    batch_size: int = 64,
) -> Array:
    """Return how badly attributions foretell what perturbations do to the score; zero is perfect.

        mean over perturbations I of (Iᵀ φ − (score(x) − score(x − I)))²

    With contributions, as of `integrated_gradients` or `kernel_shap`, I counts in parts of x − baseline: what is hidden
    counts as one. With slopes, as of `smooth_grad`, it counts in the units of x.

    Args:
        model: the model that was explained.
        explanation: of a method whose attributions are in units of the score.
        perturb: "hide" puts the baseline in the place of each feature with probability ½: the groups of the
            explanation, if it has any, else each element. "noise" adds normal noise to floating-point inputs.
        noise: its standard deviation, in the units of x.
        baseline: as in `occlusion`.
        samples: so many perturbations for each example.
        seed: of the perturbations.
        score_at: as it was in the explanation.
        batch_size: so many rows are computed at once.

    Returns:
        `[n]`. To compare explanations of one model, take the same perturbations.

    Raises:
        TypeError, ValueError: for an explanation in no units of the score; for noise on integers, or on groups of
            several elements; for slopes of integers.

    Cost: `samples` evaluations for each example.
    Reference: C.-K. Yeh et al., "On the (in)fidelity and sensitivity of explanations", 2019.
    """
    _refuse_places(explanation)
    choice("perturb", perturb, ("hide", "noise"))
    positive("noise", noise)
    explained = Explained(model, explanation.inputs, explanation.classes, score_at, batch_size)
    covers, rng = explained.inputs.baseline(baseline), np.random.default_rng(seed)
    perturbed = {"hide": _hidden, "noise": _noisy}[perturb](explanation, explained.inputs.arrays, covers, noise)
    count, total = positive_integer("samples", samples), np.zeros(explained.inputs.count)
    attributions = _of_elements(explanation)
    for _ in range(count):
        given, units = zip(*(perturbed(number, rng) for number in range(len(covers))))
        fall = explained.scores - of_classes(explained.all_scores(given), explained.classes)
        total += (_sum(a * unit for a, unit in zip(attributions, units) if a is not None) - fall) ** 2 / count
    return total


def sensitivity_max(
    explain: Callable[[NestLike], Explanation],
    x: NestLike,
    radius: float = 0.02,
    samples: int = 10,
    seed: int = 0,
) -> Array:
    """Return by how much an explanation changes, at most, for inputs near by, relative to its norm.

        max over ‖δ‖∞ ≤ radius of ‖φ(x + δ) − φ(x)‖ / ‖φ(x)‖

        sensitivity_max(lambda x: lrp(model, x, class_index=classes), x)

    Args:
        explain: function of inputs like x that returns an `Explanation`. It must fix the class.
        x: the inputs, a batch. Integers stay as they are.
        radius: in the units of x.
        samples: so many δ are drawn, uniformly.
        seed: of δ.

    Returns:
        `[n]`. The difference itself where the explanation is zero.

    Raises:
        ValueError: if another class is explained of inputs near by.

    Cost: `samples` + 1 explanations.
    Reference: as of `infidelity`.
    """
    positive("radius", radius)
    arrays, rng = Inputs(None, x).arrays, np.random.default_rng(seed)
    first = explain(x)
    norms = np.linalg.norm(_flat(first), axis=1)
    most = np.zeros(len(norms))
    for _ in range(positive_integer("samples", samples)):
        moved = [
            a + rng.uniform(-radius, radius, a.shape).astype(a.dtype) if a.dtype.kind == "f" else a for a in arrays
        ]
        near = explain(Inputs(None, x).pack(moved))
        if not np.array_equal(near.classes, first.classes):
            raise ValueError(
                "Another class is explained of inputs near by, so that the explanations cannot be compared: fix "
                "class_index in explain. Received: an explanation of the predicted class"
            )
        most = np.maximum(most, np.linalg.norm(_flat(near) - _flat(first), axis=1))
    return most / np.where(norms > 0, norms, 1)


def _hidden(explanation, arrays, covers, _):
    """A function of an input and a generator that hides features by chance: the input, and I in the units of φ."""
    groups, drawn = _groups(explanation, arrays), {}
    number_of = 1 + max(int(group.max(initial=0)) for group in groups)
    slopes = explanation.units == "slopes"
    if slopes and any(array.dtype.kind != "f" for array in arrays):
        raise TypeError(
            "What is hidden of integers is no distance, which slopes could be multiplied by: use contributions, such "
            f"as those of integrated_gradients. Received: an explanation by {explanation.method}"
        )

    def hide(number, rng):
        if number == 0:
            drawn["hides"] = rng.random((len(arrays[0]), number_of)) < 0.5
        array, cover, mask = arrays[number], covers[number], drawn["hides"][:, groups[number]]
        if _flat_attributions(explanation)[number] is None:
            return array, None
        return np.where(mask, cover, array), (mask * (array - cover) if slopes else mask)

    return hide


def _noisy(explanation, arrays, covers, noise):
    """The same of normal noise."""
    sizes = np.bincount(np.concatenate([group.ravel() for group in _groups(explanation, arrays)]))
    if any(array.dtype.kind != "f" for array in arrays) or sizes.max() > 1:
        raise TypeError(
            "Noise is for inputs of floating-point numbers, each with an attribution: use perturb='hide' for integers "
            f"and for groups of elements. Received: an explanation by {explanation.method}"
        )

    def move(number, rng):
        array, distance = arrays[number], arrays[number] - covers[number]
        step = (noise * rng.normal(size=array.shape)).astype(array.dtype)
        parts = np.divide(step, distance, out=np.zeros_like(step), where=distance != 0)
        return array - step, (step if explanation.units == "slopes" else parts)

    return move


def _groups(explanation, arrays):
    """A flat list like one example of each input: the number of what each element is hidden with."""
    if "groups" in explanation.details:
        return tf.nest.flatten(explanation.details["groups"])
    sizes = [int(np.prod(array.shape[1:])) for array in arrays]
    starts = np.cumsum([0, *sizes])
    return [start + np.arange(size).reshape(a.shape[1:]) for start, size, a in zip(starts, sizes, arrays)]


def _flat_attributions(explanation):
    return tf.nest.flatten(explanation.attributions)


def _of_elements(explanation):
    """The attributions as a flat list, the value of a feature shared out among its elements."""
    found = _flat_attributions(explanation)
    if "groups" not in explanation.details:
        return found
    groups = tf.nest.flatten(explanation.details["groups"])
    sizes = np.bincount(np.concatenate([group.ravel() for group in groups]))
    return [each / sizes[group] for each, group in zip(found, groups)]


def _sum(parts):
    """The sum over all but the examples, `[n]`."""
    return sum(part.reshape(len(part), -1).sum(axis=1, dtype=np.float64) for part in parts)


def _flat(explanation):
    """All attributions of each example, `[n, elements]`."""
    return np.concatenate([a.reshape(len(a), -1) for a in _flat_attributions(explanation) if a is not None], axis=1)


def _refuse_places(explanation):
    if explanation.units == "places":
        raise ValueError(
            "The attributions must be in units of the score, or of its change for a unit of the inputs: use another "
            f"method, or sensitivity_max, which needs no units. Received: an explanation by {explanation.method}"
        )
