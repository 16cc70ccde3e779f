"""What the parameters would have been for other data like these: fits of data drawn again, all at once."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from tfjac.arguments import choice, positive, positive_integer
from tfjac.optimizers import Status
from tfjac.progress import shown
from tfjac.tables import aligned, without_empty_columns
from tfjac.types import Array


class Bootstrap:
    """Parameters of fits of data drawn again. Printed, it is a table.

    Attributes:
        values: dict from the names of all parameters to `[fits]`, of the fits that converged.
        best: dict from names to the values that the data as they are gave.
        failed: how many fits did not converge.
    """

    def __init__(self, values: Mapping[str, Array], best: Mapping[str, float], failed: int) -> None:
        self.values, self.best, self.failed = dict(values), dict(best), failed

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

    def bias(self) -> dict[str, float]:
        """Return the mean of the values less the value found, by name."""
        return {name: float(np.mean(each) - self.best[name]) for name, each in self.values.items()}

    def summary(self, level: float = 0.95) -> str:
        """Return a table."""
        errors, bias, ends = self.standard_errors(), self.bias(), self.confidence_intervals(level)
        rows = [["parameter", "value", "standard error", "bias", f"{100 * level:.4g} % interval"]]
        for name, value in self.best.items():
            if errors[name] > 0:
                low, high = ends[name]
                shown = f"{errors[name]:.4g}", f"{bias[name]:+.3g}", f"[{low:.6g}, {high:.6g}]"
                rows.append([name, f"{value:.8g}", *shown])
        count = len(next(iter(self.values.values())))
        return "\n".join(
            [
                f"{count} fits of data drawn again, {self.failed} more did not converge",
                *aligned(without_empty_columns(rows)),
            ]
        )

    def __repr__(self):
        return self.summary()


def bootstrapped(fit, refits, count, kind, seed):
    """Return the `Bootstrap` of a `NamedFit`; arguments as of `NamedFit.bootstrap`."""
    count = positive_integer("count", count)
    if count < 2:
        raise ValueError(f"A bootstrap needs at least two fits. Received: count={count}")
    choice("kind", kind, ("residuals", "pairs"))
    residuals, rng = fit.residuals(), np.random.default_rng(seed)
    rows = residuals.size
    if kind == "pairs":
        measurements = refits.measurements()
        if measurements is None:
            raise ValueError(
                "Data with a covariance matrix cannot be drawn one by one: use kind='residuals'. "
                "Received: kind='pairs', sigma of a matrix"
            )
        size = measurements.max() + 1
        times = np.stack([np.bincount(row, minlength=size) for row in rng.integers(size, size=[count, size])])
        changes = {"weights": np.sqrt(times[:, measurements])}
    else:
        if fit.degrees_of_freedom <= 0:
            raise ValueError("There are no residuals to draw from. Received: no degrees of freedom")
        wider = residuals * np.sqrt(rows / fit.degrees_of_freedom)
        changes = {"offsets": _drawn(wider, refits.losses(), count, rng) - residuals}
    best = np.asarray(fit.fit.x, np.float64)
    with shown("bootstrap") as progress:
        progress.at(count, of="fits")
        found = refits.run(np.tile(best, [count, 1]), **changes)
    converged = np.isin(found.status, [int(each) for each in Status if each.converged])
    if converged.sum() < 2:
        raise ValueError(f"Hardly any of the fits converged. Received: {converged.sum()} of {count}")
    vectors = tf.constant(np.asarray(found.x)[converged], tf.float64)
    named = refits.layout.named(tf.unstack(vectors, axis=1))
    values = {name: np.broadcast_to(named[name], [vectors.shape[0]]) for name in refits.layout.names}
    return Bootstrap(values, fit.values, count - int(converged.sum()))


def _drawn(residuals, losses, count, rng):
    """Return residuals `[count, rows]`: for each row one of those with its loss, centred.

    Args:
        residuals: `[rows]`.
        losses: list of a loss, or None, for each row.
        count: how many times they are drawn.
        rng: NumPy's generator.
    """
    found = np.empty([count, residuals.size])
    for loss in dict.fromkeys(losses):
        rows = np.flatnonzero([each is loss for each in losses])
        alike = residuals[rows]
        found[:, rows] = (alike - _centre(alike, loss))[rng.integers(rows.size, size=[count, rows.size])]
    return found


def _centre(residuals, loss):
    """Return c with Σψ(r − c) = 0, ψ = ρ′r: the mean for squares.

    So the curve that was found is the one that the residuals drawn lead to on average. The mean itself follows the
    outliers, which a robust fit does not.
    """
    centre = residuals.mean() if loss is None else 0.0
    for _ in range(_ROUNDS if loss is not None else 0):  # least squares, reweighted: each round lowers Σρ
        weights = loss.slopes(tf.square((residuals - centre) / loss.scale))[0].numpy()
        last, centre = centre, np.average(residuals, weights=weights) if weights.sum() > 0 else centre
        if abs(centre - last) <= 1e-12 * loss.scale:
            break
    return centre


_ROUNDS = 1000
"""At most so many of them to find a centre."""
