"""What an explanation consists of."""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.types import Array, Axes, NestLike


@dataclasses.dataclass(frozen=True)
class Explanation:
    """Attributions of scores to inputs, as each function of `tfjac.explanations` returns them.

    Attributes:
        method: name of the function.
        attributions: nest like the inputs of NumPy arrays. For tokens, one number for each token. For `grad_cam`, a map
            `[n, height, width]` of the size of the images. None for an input that nothing is attributed to.
        inputs: the nest that was explained.
        classes: `[n]` integers, the class that is explained of each example.
        scores: `[n]`, the scores of these classes.
        explained: what the scores are, such as "logits, before Softmax".
        baseline_scores: `[n]`, the scores of the baseline, for the methods that have one, else None.
        gap: `[n]`, the sum of the attributions less what they should add up to. None for methods that do not add up.
        details: dict of arrays that one method alone has.
    """

    method: str
    attributions: NestLike
    inputs: NestLike
    classes: Array | None
    scores: Array | None
    explained: str
    baseline_scores: Array | None = None
    gap: Array | None = None
    details: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        lines = [f"Explanation by {self.method} of {self.explained}"]
        for name in ("classes", "scores", "baseline_scores", "gap"):
            value = getattr(self, name)
            if value is not None:
                lines.append(f"  {name}: {_listed(value)}")
        zero = np.flatnonzero(self.zero_everywhere())
        if zero.size:
            lines.append(f"  zero everywhere: {'examples' if zero.size > 1 else 'example'} {_listed(zero)}")
        return "\n".join(lines)

    def plot(self, example: int = 0, tokens: Any = None, names: Any = None, axes: Axes = None) -> Axes:
        """Draw the attributions of one example: images as an overlay, tokens and columns as bars.

        Args:
            example: which row of the batch.
            tokens: the words of that example, for inputs of tokens.
            names: the names of the columns, for inputs `[n, columns]`.
            axes: one `matplotlib.axes.Axes`, or a list with one for each input; those of a new figure if left out.

        Returns:
            The axes; a list if there are several inputs.

        Raises:
            ImportError: if Matplotlib is not installed.
            ValueError: if `axes` are not as many as the inputs.
        """
        from tfjac.explanations.pictures import draw

        return draw(self, example, tokens, names, axes)

    def zero_everywhere(self) -> Array:
        """Return `[n]`, bool: whether all attributions of an example are zero; `[0]` where nothing is attributed."""
        found = [each for each in tf.nest.flatten(self.attributions) if each is not None]
        return np.all([[not np.any(row) for row in each] for each in found], axis=0) if found else np.zeros(0, bool)


_SHOWN = 8
"""So many examples are printed."""


def _listed(values):
    return ", ".join(f"{each:.4g}" for each in values[:_SHOWN]) + (", …" if len(values) > _SHOWN else "")
