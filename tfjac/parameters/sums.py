"""How a sum of models is guessed: one part after the other, from what the parts before leave of the data."""

import numpy as np
import tensorflow as tf

from tfjac.parameters.ties import as_float64

_FEW = 50
"""So many curves are computed one by one: to trace them for one call takes longer."""


def both_ends(x, y):
    """Return a tenth of the data from each end, where they have ends."""
    if not isinstance(x, np.ndarray):
        return x, y
    margin = max(2, y.size // 10)
    ends = np.r_[0 : min(margin, y.size), max(0, y.size - margin) : y.size]
    return x[ends], y[ends]


def what_is_left(y, curve, is_background):
    """Return y without the curve of a part, within the range of y for peaks: too high a peak leaves no dip."""
    left = y - curve
    return left if is_background or np.iscomplexobj(y) else np.clip(left, y.min(), y.max())


def curves_of(model, xs, values):
    """Return the curve of a model, NumPy, for each x; all x of one length in one call.

    Args:
        model: `Model`.
        xs: list of arrays `[n]`, or of tuples of them.
        values: list of dicts of numbers by the names of its parameters; others are tied, or at their defaults.
    """
    alike: dict[tuple, list[int]] = {}
    for k, (x, each) in enumerate(zip(xs, values)):
        alike.setdefault((np.shape(x), tuple(each)), []).append(k)
    found = [None] * len(xs)
    for (_, names), members in alike.items():
        if len(members) <= _FEW:
            for k in members:
                numbers = {name: as_float64(values[k][name]) for name in names}
                found[k] = model(xs[k], **numbers).numpy()
            continue
        stacked = tf.nest.map_structure(lambda *rows: tf.constant(np.stack(rows)), *[xs[k] for k in members])
        numbers = {name: as_float64([values[k][name] for k in members]) for name in names}
        curves = tf.vectorized_map(lambda given: model(given[0], **given[1]), (stacked, numbers)).numpy()
        for k, each in zip(members, curves):
            found[k] = each
    return found


def by_position(parts, guesses):
    """Return guesses by the names of parameters, peaks of one shape from left to right.

    Args:
        parts: list of `Model`.
        guesses: dict from them to dicts of numbers by the arguments of their functions.
    """
    found = {}
    for shape in dict.fromkeys(part.name for part in parts):
        alike = [part for part in parts if part.name == shape]
        ordered = [guesses[part] for part in alike]
        if all("center" in each for each in ordered):
            ordered = sorted(ordered, key=lambda each: each["center"])
        for part, guessed in zip(alike, ordered):
            found |= {part.prefix + name: value for name, value in guessed.items()}
    return found
