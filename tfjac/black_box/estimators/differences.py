"""Finite differences: one input of each point at a time, exact up to truncation and rounding."""

import keras
import numpy as np

from tfjac.black_box.estimators.base import Estimator, Probe, checked_sizes, checked_step, steps
from tfjac.types import Array, ArrayLike


@keras.saving.register_keras_serializable("tfjac")
class CentralDifferences(Estimator):
    """(f(x + h·e_j) − f(x − h·e_j)) / 2h, 2i evaluations for i inputs; the error is of order h².

    Args:
        step: h as a part of max(|x_j|, typical_j); default ∛ε, where truncation and rounding balance. A noisy
            measurement needs a far larger one: about ∛(noise / curvature).
        typical: the size that inputs typically have, one number or one for each, below which steps do not shrink.

    Reference: J. E. Dennis, R. B. Schnabel, "Numerical methods for unconstrained optimization", 1983, section 5.6.
    """

    def __init__(self, step: float | None = None, typical: ArrayLike = 1.0) -> None:
        self.step, self.typical = checked_step(step), checked_sizes(typical)

    def estimate(self, probe: Probe) -> tuple[Array, Array | None]:
        """Return Jᵀ `[n, i, o]`, and None."""
        h = steps(probe, probe.resolution ** (1 / 3) if self.step is None else self.step, self.typical)
        ahead, behind = (probe.rounded(_along_each(probe.points, sign * h)) for sign in (1, -1))
        k = ahead.shape[1]
        results = probe.evaluate(np.concatenate([ahead, behind], axis=1))
        distance = np.diagonal(ahead - behind, axis1=1, axis2=2)
        return (results[:, :k] - results[:, k:]) / _nonzero(distance)[:, :, None], None


@keras.saving.register_keras_serializable("tfjac")
class OneSidedDifferences(Estimator):
    """(f(x + h·e_j) − f(x)) / h, i evaluations for i inputs: f(x) is the value of the forward pass.

    Args:
        step: h as a part of max(|x_j|, typical_j); default √ε; a negative one goes backwards.
        typical: as for `CentralDifferences`.

    Reference: J. E. Dennis, R. B. Schnabel, "Numerical methods for unconstrained optimization", 1983, section 5.4.
    """

    def __init__(self, step: float | None = None, typical: ArrayLike = 1.0) -> None:
        self.step, self.typical = checked_step(step, negative=True), checked_sizes(typical)

    def estimate(self, probe: Probe) -> tuple[Array, Array | None]:
        """Return Jᵀ `[n, i, o]`, and None."""
        h = steps(probe, probe.value_resolution**0.5 if self.step is None else self.step, self.typical)
        ahead = probe.rounded(_along_each(probe.points, h))
        distance = np.diagonal(ahead, axis1=1, axis2=2) - probe.points
        return (probe.evaluate(ahead) - probe.values[:, None]) / _nonzero(distance)[:, :, None], None


def _along_each(points, h):
    """Move each point `[n, i]` along each of its inputs by h `[n, i]`: `[n, i, i]`."""
    return points[:, None] + h[:, None] * np.eye(points.shape[1])


def _nonzero(distance):
    """Refuse steps that rounding has undone: the quotient would be 0/0."""
    if not np.all(distance):
        raise ValueError(
            "The step of the differences is lost in rounding: give a larger step, or call the function in float64 by "
            "call_dtype. Received: a step of zero"
        )
    return distance
