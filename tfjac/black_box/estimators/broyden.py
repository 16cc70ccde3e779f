"""Broyden's rank-one updates: the Jacobian learned from the values that training asks for anyway."""

from typing import Any

import keras
import numpy as np

from tfjac.black_box.estimators.base import Estimator, Probe
from tfjac.black_box.estimators.differences import CentralDifferences
from tfjac.types import Array, Config


@keras.saving.register_keras_serializable("tfjac")
class Broyden(Estimator):
    """J⁺ = J + (Δy − JΔx) Δxᵀ / ΔxᵀΔx: no evaluation beyond those of the forward passes, but for the first.

    The first Jacobian, and every one after `restart` updates, is measured. It belongs to one place in one program: row
    n of a batch is taken for the example that was row n before, as in training on the whole batch. Where the number of
    rows changes, it is measured afresh.

    Args:
        restart: measure J again after so many updates; None for never.
        start: the `Estimator` that measures, without directions; default `CentralDifferences()`.

    Reference: C. G. Broyden, "A class of methods for solving nonlinear simultaneous equations", Mathematics of
    Computation 19, 1965, equation 4.5.
    """

    _points: Any
    _values: Any
    _transposed: Any

    def __init__(self, restart: int | None = None, start: Estimator | None = None) -> None:
        if restart is not None and (not isinstance(restart, int) or isinstance(restart, bool) or restart < 1):
            raise ValueError(f"restart must be a positive integer, or None. Received: {restart!r}")
        self.restart, self.start = restart, CentralDifferences() if start is None else start
        if not isinstance(self.start, Estimator) or self.start.has_directions:
            raise ValueError(f"start must be an Estimator of the whole Jacobian, by differences. Received: {start!r}")
        self.forget()

    def forget(self) -> None:
        """Have the next Jacobian measured."""
        self._points, self._values, self._transposed, self._updates = None, None, None, 0

    def estimate(self, probe: Probe) -> tuple[Array, Array | None]:
        """Return Jᵀ `[n, i, o]`, and None."""
        if self._points is None or self._points.shape != probe.points.shape:
            self._measure(probe)
        elif not np.array_equal(self._points, probe.points):
            if self._updates == self.restart:
                self._measure(probe)
            else:
                self._update(probe.points - self._points, probe.values - self._values)
        self._points, self._values = probe.points, probe.values
        found = self._transposed.copy()
        if not np.isfinite(found).all():  # a measurement failed: no update would ever mend what it left
            self.forget()
        return found, None

    def _measure(self, probe):
        self._transposed, self._updates = np.array(self.start.estimate(probe)[0]), 0

    def _update(self, s, change):
        """One update for each point that moved, by s `[n, i]`, where its values changed by `change` `[n, o]`."""
        missed = change - np.einsum("nio,ni->no", self._transposed, s)
        squares = np.sum(s * s, axis=1)
        usable = (squares > 0) & np.isfinite(missed).all(1)
        weights = np.where(usable, 1 / np.where(usable, squares, 1), 0)
        self._transposed += np.einsum("ni,no,n->nio", s, np.where(usable[:, None], missed, 0), weights)
        self._updates += 1

    def get_config(self) -> Config:
        return {"restart": self.restart, "start": keras.saving.serialize_keras_object(self.start)}

    @classmethod
    def from_config(cls, config: Config) -> "Broyden":
        return cls(config["restart"], keras.saving.deserialize_keras_object(config["start"]))
