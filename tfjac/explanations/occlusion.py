"""By how much a score falls if a part of the inputs is covered: a feature, or a window wherever it fits."""

import itertools

import numpy as np

from tfjac.explanations.explanation import Explanation
from tfjac.explanations.masking import Features, scores_where_hidden
from tfjac.explanations.scores import Explained
from tfjac.types import Function, Nest, NestLike, Selector, TensorLike


def feature_ablation(
    model: Function,
    x: NestLike,
    class_index: int | TensorLike | None = None,
    groups: Nest[TensorLike] | None = None,
    baseline: Nest[TensorLike] | None = None,
    score_at: Selector | None = None,
    batch_size: int = 64,
) -> Explanation:
    """Hide one feature at a time, and attribute to it by how much the score falls.

    Args:
        model, x, class_index: as in `grad_cam`.
        groups: as in `shapley_values`.
        baseline: as in `shapley_values`.
        score_at: as in `grad_cam`.
        batch_size: so many rows are computed at once.

    Returns:
        An `Explanation`. Each element has the value of its feature, and `details["features"]` are the values `[n, m]`.
        They add up to nothing in particular, see `shapley_values`.

    Raises:
        TypeError, ValueError: as in `grad_cam`; and for groups that do not fit.

    Cost: one evaluation for each feature and example.
    """
    explained = Explained(model, x, class_index, score_at, batch_size)
    features = Features(explained, groups, baseline)
    without = features.scores(~np.eye(features.count, dtype=bool))
    return features.explanation("feature_ablation", (explained.scores - without).T)


def occlusion(
    model: Function,
    x: NestLike,
    class_index: int | TensorLike | None = None,
    window: Nest[int] | None = None,
    strides: Nest[int] | None = None,
    baseline: Nest[TensorLike] | None = None,
    score_at: Selector | None = None,
    batch_size: int = 64,
) -> Explanation:
    """Cover a window of the inputs, wherever it fits, and attribute to it by how much the score falls.

    An element has the mean of all windows that it is in. No gradient is taken: integers are covered too.

    Args:
        model: as in `grad_cam`.
        x: as in `grad_cam`.
        class_index: as in `grad_cam`.
        window: the size of the window along the axes after the batch axis: an integer for all but the channels of
            images, or a tuple; a list or dict like x of these for several inputs. If None, 1 for `[n, columns]` and
            `[n, steps, columns]`, a step of all columns, and a quarter of height and width for images.
        strides: by so much the window moves, in the form of `window`; half the window if None. The last window is cut
            off at the edge.
        baseline: what covers: zeros if None, else as in `integrated_gradients`; for tokens a token.
        score_at: as in `grad_cam`.
        batch_size: so many rows are computed at once.

    Returns:
        An `Explanation`. If there are several inputs, one is covered at a time.

    Raises:
        TypeError, ValueError: as in `grad_cam`; and for windows that are larger than the inputs, and strides that leave
            elements out.

    Cost: one evaluation for each window and example.
    Reference: M. D. Zeiler, R. Fergus, "Visualizing and understanding convolutional networks", 2014.
    """
    explained = Explained(model, x, class_index, score_at, batch_size)
    arrays, covers = explained.inputs.arrays, explained.inputs.baseline(baseline)
    several = len(arrays) > 1
    sizes = [_sizes(each, array.shape[1:]) for each, array in zip(_each(window, explained, several), arrays)]
    moves = [
        _moves(each, size, array.shape[1:])
        for each, size, array in zip(_each(strides, explained, several), sizes, arrays)
    ]
    found = [
        _falls(explained, index, _windows(sizes[index], moves[index], array.shape[1:]), covers)
        for index, array in enumerate(arrays)
    ]
    return explained.explanation("occlusion", explained.inputs.pack(found))


def _falls(explained, index, windows, covers):
    """The mean fall of the score over the windows that each element of one input is in."""
    array = explained.inputs.arrays[index]

    def hidden(number):
        return [windows[number] if each == index else None for each in range(len(covers))]

    falls = explained.scores - scores_where_hidden(explained, len(windows), hidden, covers)
    totals, counts = np.zeros(array.shape, falls.dtype), np.zeros(array.shape[1:], falls.dtype)
    for window, fall in zip(windows, falls):
        totals[(slice(None), *window)] += fall.reshape(-1, *(1 for _ in window))
        counts[window] += 1
    return totals / counts


def _each(option, explained, several):
    """A flat list of an option for each input."""
    if not several:
        return [option]
    if option is None or isinstance(option, int):
        return [option] * len(explained.inputs.arrays)
    values = [option[key] for key in sorted(option)] if isinstance(option, dict) else list(option)
    if len(values) != len(explained.inputs.arrays):
        raise ValueError(
            "window and strides must be an integer, or a list or dict like the inputs. "
            f"Received: {option!r} for {len(explained.inputs.arrays)} inputs"
        )
    return values


def _sizes(window, shape):
    """The size of the window along each axis of `shape`."""
    channels = shape[-1:] if len(shape) > 1 else ()
    if window is None:
        window = [max(1, size // 4) for size in shape[:-1]] if len(channels) and len(shape) > 2 else 1
    sizes = _along(window, shape, channels)
    if len(sizes) != len(shape) or any(not 0 < size <= limit for size, limit in zip(sizes, shape)):
        raise ValueError(
            f"window must be positive, and fit into one example, {tuple(shape)}: an integer, or one for each axis. "
            f"Received: window={window!r}"
        )
    return sizes


def _moves(strides, sizes, shape):
    """By how much the window moves along each axis."""
    if strides is None:
        return tuple(max(1, size // 2) for size in sizes)
    moves = _along(strides, shape, sizes[-1:] if len(shape) > 1 else ())
    if len(moves) != len(shape) or any(not 0 < move <= size for move, size in zip(moves, sizes)):
        raise ValueError(
            f"strides must be positive, and at most the window, {sizes}, so that every element is covered. "
            f"Received: strides={strides!r}"
        )
    return moves


def _along(option, shape, channels):
    """An option for each axis, from an integer, or from one for each axis, or for each but the channels."""
    if isinstance(option, (int, np.integer)):
        option = [int(option)] * (len(shape) - len(channels))
    option = tuple(int(each) for each in option)
    return (*option, *channels) if len(option) == len(shape) - len(channels) else option


def _windows(sizes, moves, shape):
    """All windows, as tuples of slices."""
    along = [
        [slice(k * move, min(k * move + size, limit)) for k in range(-(-(limit - size) // move) + 1)]
        for size, move, limit in zip(sizes, moves, shape)
    ]
    return list(itertools.product(*along))
