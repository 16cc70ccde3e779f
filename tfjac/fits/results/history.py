"""How a minimisation went, step by step."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tfjac.types import Array, Axes


class History(NamedTuple):
    """Numbers of each step, NumPy arrays `[steps]`.

    Attributes:
        cost: F after the step.
        reduction: by how much its last attempt lowered F, or would have, negative where it would have raised F.
        ratio: ρ of the last attempt, actual over predicted reduction; −∞ where that was not finite.
        damping: λ of the last attempt.
        gradient_norm: max |∂F/∂x| before the step, over the parameters that no bound holds.
        attempts: how many attempts it took.
        accepted: bool, whether the variables moved.
    """

    cost: np.ndarray
    reduction: np.ndarray
    ratio: np.ndarray
    damping: np.ndarray
    gradient_norm: np.ndarray
    attempts: np.ndarray
    accepted: np.ndarray

    @classmethod
    def of(cls, rows: Array, unit: float) -> "History":
        """Return the history that `rows` `[steps, 7]` of `row_of` tell of, with residuals measured in `unit`."""
        cost, reduction, ratio, damping, gradient, attempts, accepted = np.reshape(rows, [-1, 7]).T
        square = np.asarray(unit, cost.dtype) ** 2
        with np.errstate(over="ignore", invalid="ignore"):  # of costs that are out of range in their own unit
            cost, reduction, gradient = cost * square, reduction * square, gradient * square
        return cls(cost, reduction, ratio, damping, gradient, attempts.astype(int), accepted > 0)

    def plot(self, axes: Sequence[Axes] | None = None) -> tuple[Axes, Axes]:
        """Draw cost, largest gradient and damping of each step, and its gain ratio; needs Matplotlib.

        Args:
            axes: two `matplotlib.axes.Axes` to draw on; those of a new figure where left out.

        Returns:
            The axes.
        """
        import matplotlib.pyplot as plt

        left, right = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")[1] if axes is None else axes
        steps, accepted = np.arange(1, self.cost.size + 1), self.accepted
        curves = {"cost": self.cost, "largest gradient": self.gradient_norm, "damping": self.damping}
        for name, values in curves.items():
            left.semilogy(steps, np.where(values > 0, values, np.nan), label=name)
        ratio = np.clip(self.ratio, -1, 2)  # far below, it says no more than that the step was rejected
        for name, those, marker in (("accepted", accepted, "o"), ("rejected", ~accepted, "x")):
            right.plot(steps[those], ratio[those], marker, markersize=4, label=name)
        right.axhline(1, color="black", linewidth=0.5)
        right.set(ylabel="gain ratio", ylim=(-1.1, 2.1))
        for panel in (left, right):
            panel.set(xlabel="step")
            panel.legend()
        return left, right
