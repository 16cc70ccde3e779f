"""Many starts at once: where each of them ends, and the basins that they show."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjac.optimizers import Status
from tfjac.tables import aligned, without_empty_columns
from tfjac.types import Array, Axes


class MultiStart:
    """Where fits from many starts ended. Printed, it is a table of the basins.

    Attributes:
        names: of the parameters that are not tied.
        starts, ends: `[starts, names]`; the first start is the values given.
        costs: `[starts]`, F = ½‖r‖² at the ends; infinite where the fit failed.
        status: `[starts]`, each a `Status`.
        free: `[names]`, bool: which parameters the fits could change.
    """

    def __init__(
        self, names: Sequence[str], starts: Array, ends: Array, costs: Array, status: Array, free: Array
    ) -> None:
        self.names, self.starts, self.ends = tuple(names), starts, ends
        self.costs, self.status, self.free = costs, status, free

    @classmethod
    def of(cls, refits: Any, count: int, seed: int) -> "MultiStart":
        """Fit from `count` starts in one call.

        Args:
            refits: `Refits`.
            count: how many, the values given among them.
            seed: of the draws.
        """
        layout = refits.layout
        starts = drawn(layout, count, np.random.default_rng(seed))
        found = refits.run(starts)
        costs = np.where(np.isfinite(found.cost), found.cost, np.inf).astype(np.float64)
        return cls(layout.independent, starts, np.asarray(found.x), costs, found.status, ~layout.fixed)

    @property
    def best(self) -> Array | None:
        """`[names]`, the end of least cost; None where all fits failed."""
        return self.ends[np.argmin(self.costs)] if np.isfinite(self.costs).any() else None

    def basins(self, tolerance: float = 1e-4) -> Array:
        """Return `[starts]`, integers: the number of the basin that each start led to, 0 being that of least cost.

        Ends are of one basin where their costs are alike, relative to the spread of the costs at the ends and to the
        least one. −1 for fits that failed.

        Args:
            tolerance: a number between 0 and 1.
        """
        order = np.argsort(self.costs, kind="stable")
        basin, number, last = np.full(self.costs.size, -1), -1, None
        for k in order:
            if not np.isfinite(self.costs[k]):
                continue
            if last is None or self.costs[k] - last > tolerance * max(abs(last), self._unit):
                number, last = number + 1, self.costs[k]
            basin[k] = number
        return basin

    @property
    def _unit(self):
        finite = self.costs[np.isfinite(self.costs)]
        return 1e-6 * np.ptp(finite) + np.finfo(float).tiny if finite.size else 1.0

    def summary(self) -> str:
        """Return a table of the basins: cost, how many starts led there, and where the parameters ended."""
        basins = self.basins()
        rows = [["cost", "starts", *self.names]]
        for number in range(min(basins.max() + 1, 12)):
            members = np.flatnonzero(basins == number)
            best = members[np.argmin(self.costs[members])]
            rows.append([f"{self.costs[best]:.8g}", str(members.size), *(f"{x:.6g}" for x in self.ends[best])])
        failed = int(np.count_nonzero(basins < 0))
        converged = int(np.isin(self.status, [int(each) for each in Status if each.converged]).sum())
        head = f"{self.costs.size} starts, {converged} converged, {failed} failed, {basins.max() + 1} basins"
        return "\n".join([head, *aligned(without_empty_columns(rows))])

    def __repr__(self):
        return self.summary()

    def plot(self, names: Sequence[str] | None = None, axes: Sequence[Axes] | None = None) -> tuple[Axes, Axes]:
        """Draw the costs at the ends in order, and in two parameters a line from each start to its end; Matplotlib.

        Args:
            names: of two parameters; the first two free ones where left out.
            axes: two `matplotlib.axes.Axes`; those of a new figure where left out.

        Returns:
            The axes.

        Raises:
            ValueError: for names that there are not.
        """
        import matplotlib.pyplot as plt

        first, second = self._columns(names)
        if axes is None:
            axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")[1]
        left, right = axes
        basins, order = self.basins(), np.argsort(self.costs)
        colours = np.array([f"C{number % 10}" if number >= 0 else "lightgrey" for number in basins])
        finite = order[np.isfinite(self.costs[order])]
        left.scatter(np.arange(finite.size), self.costs[finite], c=colours[finite], s=18)
        left.set(xlabel="starts, by the cost at their ends", ylabel="cost at the end")
        if finite.size and self.costs[finite].min() > 0:
            left.set_yscale("log")
        for k in order[::-1]:
            ends = np.array([self.starts[k], self.ends[k]])[:, [first, second]]
            right.plot(*ends.T, color=colours[k], lw=0.7, alpha=0.6)
        right.scatter(self.starts[:, first], self.starts[:, second], c=colours, s=10, label="starts")
        right.scatter(
            self.ends[finite, first],
            self.ends[finite, second],
            c=colours[finite],
            s=60,
            marker="*",
            ec="black",
            lw=0.4,
            label="ends",
        )
        right.set(xlabel=self.names[first], ylabel=self.names[second])
        right.legend()
        return left, right

    def _columns(self, names):
        free = np.flatnonzero(self.free)
        if names is None:
            return int(free[0]), int(free[min(1, free.size - 1)])
        if len(names) != 2 or any(name not in self.names for name in names):
            raise ValueError(f"names is a pair of {', '.join(self.names)}. Received: names={names!r}")
        return self.names.index(names[0]), self.names.index(names[1])


def drawn(layout, count, rng):
    """Return starts `[count, k]`: the values given, and draws within bounds or from priors."""
    starts = np.tile(layout.start, [count, 1])
    for k, name in enumerate(layout.independent):
        if layout.fixed[k]:
            continue
        lower, upper, deviation = layout.lower[k], layout.upper[k], layout.deviation[k]
        if np.isfinite(lower) and np.isfinite(upper):
            starts[1:, k] = rng.uniform(lower, upper, count - 1)
        elif np.isfinite(deviation):
            starts[1:, k] = np.clip(rng.normal(layout.mean[k], deviation, count - 1), lower, upper)
        else:
            raise ValueError(
                "n_starts draws starts within bounds, or from priors: give the parameter min and max, or a prior. "
                f"Received: {name!r} with min={lower:.6g}, max={upper:.6g} and no prior"
            )
    return starts
