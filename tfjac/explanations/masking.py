"""Scores of inputs of which parts are hidden: what ablation, occlusion and all Shapley values are computed from."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.arguments import described_value
from tfjac.explanations.explanation import Explanation
from tfjac.explanations.inputs import repeated_parts
from tfjac.explanations.scores import Explained, of_classes
from tfjac.types import Array, Nest, TensorLike


def scores_where_hidden(
    explained: Explained, count: int, hidden: Callable[[int], Sequence[Any]], baseline: list[Array]
) -> Array:
    """Return `[count, n]`, the scores of the examples, with `count` ways to hide parts of the inputs.

    Args:
        explained: the examples.
        count: number of ways.
        hidden: function of the number of a way that returns what is hidden, for each input: an array of bool like one
            example, a tuple of slices of one example, or None for nothing.
        baseline: flat list of arrays like the inputs, which stand in the place of what is hidden.
    """
    arrays = explained.inputs.arrays
    found = np.empty((count, explained.inputs.count), explained.scores.dtype)
    for chosen, rows in repeated_parts(explained.inputs.count, count, explained.batch_size):
        ways = [hidden(number) for number in range(chosen.start, chosen.stop)]
        given = [
            np.concatenate([_with_hidden(array[rows], cover[rows], way[index]) for way in ways])
            for index, (array, cover) in enumerate(zip(arrays, baseline))
        ]
        classes = np.concatenate([explained.classes[rows]] * len(ways))
        found[chosen, rows] = of_classes(explained.all_scores(given), classes).reshape(len(ways), -1)
    return found


def _with_hidden(array, cover, hidden):
    if hidden is None:
        return array
    if isinstance(hidden, np.ndarray):
        return np.where(hidden, cover, array)
    copy, place = array.copy(), (slice(None), *hidden)
    copy[place] = cover[place]
    return copy


class Features:
    """The features that are there or hidden, each of them elements of the inputs that go together.

    Attributes:
        count: number of features, m.
        groups: flat list of arrays of integers like one example of each input: the feature of each element.
    """

    def __init__(self, explained: Explained, groups: Nest[TensorLike] | None, baseline: Nest[TensorLike] | None):
        """Check the groups, or choose them."""
        self._explained, self._baseline = explained, explained.inputs.baseline(baseline)
        given = _checked(explained, groups) if groups is not None else _default(explained.inputs.arrays)
        names, numbers = np.unique(np.concatenate([each.ravel() for each in given]), return_inverse=True)
        ends = np.cumsum([each.size for each in given])[:-1]
        flat = np.split(numbers.ravel(), ends)
        self.count, self.groups = len(names), [part.reshape(each.shape) for part, each in zip(flat, given)]

    def scores(self, present: Array) -> Array:
        """Return `[k, n]`, the scores with the features of which `present[k, m]` is true, and the others hidden."""

        def hidden(number: int) -> list[Array]:
            return [np.asarray(~present[number][group]) for group in self.groups]

        return scores_where_hidden(self._explained, len(present), hidden, self._baseline)

    def ends(self) -> tuple[Array, Array]:
        """Return `[n]` and `[n]`: the scores with all features hidden, and with none."""
        return self.scores(np.zeros((1, self.count), bool))[0], self._explained.scores

    def explanation(self, method: str, values: Array, nothing: Array | None = None, **details: Any) -> Explanation:
        """Return the `Explanation` of values `[n, m]`, each of which all elements of a feature get.

        Args:
            method: name of the function.
            values: the values.
            nothing: `[n]`, the scores with all features hidden, if the values add up to the change from these.
            details: more for `details`.
        """
        explained = self._explained
        values = values.astype(explained.scores.dtype)
        pack = explained.inputs.pack
        details = {"features": values, "groups": pack(self.groups), **details}
        gap = None if nothing is None else values.sum(axis=1) - (explained.scores - nothing)
        attributions = pack([values[:, group] for group in self.groups])
        return explained.explanation(method, attributions, baseline_scores=nothing, gap=gap, details=details)


def _checked(explained, groups):
    """A flat list of arrays of integers like one example."""
    arrays = explained.inputs.arrays
    given = tf.nest.flatten(groups) if tf.nest.is_nested(explained.inputs.nest) else [groups]
    given = [np.asarray(each) for each in given]
    try:
        if len(given) != len(arrays) or any(each.dtype.kind not in "iu" for each in given):
            raise ValueError
        return [np.broadcast_to(each, array.shape[1:]) for each, array in zip(given, arrays)]
    except ValueError:
        shapes = ", ".join(str(array.shape[1:]) for array in arrays)
        raise ValueError(
            "groups must be integers like one example, the number of a feature for each element: an array, or a nest "
            f"like the inputs, {shapes}. Received: {', '.join(map(described_value, given))}"
        ) from None


def _default(arrays):
    """Each column; each step of series; sixteen patches of images. Their numbers go on from input to input."""
    found, start = [], 0
    for array in arrays:
        shape = array.shape[1:]
        along = shape[:1] if len(shape) <= 2 else shape[:-1]
        counts = [size if len(shape) <= 2 else min(size, 4) for size in along]
        places = [np.minimum(np.arange(size) // (size // count), count - 1) for size, count in zip(along, counts)]
        number = np.zeros((), int)
        for place, count in zip(places, counts):
            number = number[..., None] * count + place
        number = number.reshape(number.shape + (1,) * (len(shape) - number.ndim))
        found.append(np.broadcast_to(number + start, shape))
        start += int(np.prod(counts))
    return found
