"""Values of parameters that were drawn, and what they say together."""

from collections.abc import Mapping, Sequence

import numpy as np

from tfjac.arguments import positive
from tfjac.types import Array


class Draws:
    """Values of all parameters, drawn many times.

    Attributes:
        values: dict from the names of all parameters to `[draws]`.
        best: dict from names to the values that the fit found.
    """

    def __init__(self, values: Mapping[str, Array], best: Mapping[str, float]) -> None:
        self.values, self.best = dict(values), dict(best)

    def standard_errors(self) -> dict[str, float]:
        """Return the standard deviations of the values, by name."""
        return {name: float(np.std(each, ddof=1)) for name, each in self.values.items()}

    def confidence_intervals(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Return the intervals between quantiles of the values, by name."""
        tail = (1 - positive("level", level, below=1)) / 2
        ends = {name: np.quantile(each, [tail, 1 - tail]) for name, each in self.values.items()}
        return {name: (float(low), float(high)) for name, (low, high) in ends.items()}

    def correlation(self, names: Sequence[str] | None = None) -> Array:
        """Return the correlations of the parameters `names`, all where left out."""
        return np.corrcoef([self.values[name] for name in (self.values if names is None else names)])
