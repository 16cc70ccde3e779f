"""Pictures of gradients that were recorded."""

import collections
from collections.abc import Iterable

import numpy as np

from tfjac.interception.handlers import Record
from tfjac.types import Axes


def plot_gradients(records: Iterable[Record], axes: Axes = None) -> Axes:
    """Draw the norm of the gradient at each node over the steps, on a logarithmic scale.

    Args:
        records: list of `Record`, as `handlers.record` writes: gradients, or their norms (`reduce=tf.norm`).
        axes: the `matplotlib.axes.Axes` to draw on; those of a new figure where left out.

    Returns:
        The axes. What is zero or not finite cannot stand on a logarithmic scale: such steps are marked at the bottom.

    Raises:
        ImportError: where Matplotlib is not installed.
        ValueError: where there is nothing to draw.
    """
    import matplotlib.pyplot as plt

    if not records:
        raise ValueError("There is nothing to draw: no gradient was recorded. Received: an empty list")
    axes = plt.subplots(figsize=(8, 4.5))[1] if axes is None else axes
    lost = []
    for node, (steps, norms) in _norms_of_nodes(records).items():
        drawn = np.isfinite(norms) & (norms > 0)
        axes.plot(steps[drawn], norms[drawn], label=node, marker="." if drawn.sum() < 50 else None)
        lost += list(steps[~drawn])
    if lost:
        low = axes.get_ylim()[0]
        axes.plot(sorted(set(lost)), [low] * len(set(lost)), "x", color="black", label="zero, NaN or infinite")
    axes.set(xlabel="step", ylabel="norm of the gradient", yscale="log")
    axes.legend()
    return axes


def _norms_of_nodes(records):
    """Return a dict from each node to an array of its steps and one of the norms there, of all examples together."""
    found = collections.defaultdict(list)
    for record in records:
        found[record.node].append((record.step, np.linalg.norm(np.ravel(np.asarray(record.value, np.float64)))))
    return {node: tuple(map(np.array, zip(*sorted(pairs)))) for node, pairs in found.items()}
