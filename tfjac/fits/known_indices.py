"""Minimisations for any data, or for the integers among them that say what the residuals read."""

from collections.abc import Callable

from tfjac.fits.traced import TracedMinimisation
from tfjac.jacobians.rows import IndicesWanted, noting_structure
from tfjac.objective.tracing.traced_residuals import TracedResiduals
from tfjac.types import Tensor

SIZE = 8
"""How many minimisations to keep, each for integers among the data."""


class OpenOrKnown:
    """What is traced of residuals: one minimisation for any data, or one for each of the integers among them.

    The second is where the structure of J follows from integers, as which cameras see which points, and is sparse. Else
    they would be traced once more for each batch of labels, and nothing would be gained.

    Args:
        residuals: `TracedResiduals`. They are not kept.
        make: from `TracedResiduals` to a `TracedMinimisation`.
    """

    def __init__(self, residuals: TracedResiduals, make: Callable) -> None:
        self._known: dict[bytes, TracedMinimisation] = {}
        try:
            with noting_structure(asks=True):
                self._open = make(residuals)
        except IndicesWanted:
            self._open = None

    def choose(
        self, residuals: TracedResiduals, data: list[Tensor], make: Callable
    ) -> tuple[TracedResiduals, TracedMinimisation]:
        """Return the `TracedResiduals` and the `TracedMinimisation` for some data.

        Args:
            residuals, make: as of the constructor; residuals may be others of the same fingerprint.
            data: list of eager tensors.
        """
        if self._open is not None:
            return residuals, self._open
        known = residuals.knowing(data)
        key = known.known_numbers()
        if key not in self._known:
            with noting_structure(asks=False) as noted:
                made = make(known)
            if not noted.is_compressed:
                self._open = make(residuals)
                return residuals, self._open
            self._known = dict([*self._known.items(), (key, made)][-SIZE:])
        return known, self._known[key]
