"""Confidence intervals by profile likelihood: how far a parameter may go while the others are fitted again.

With one parameter held, χ² rises to χ²(v). By the F-test with 1 and N − P degrees of freedom, √F = √((χ²(v)/χ² − 1)
(N − P)) is distributed as Student's t; where σ is meant as it is, √(χ²(v) − χ²) is normal. In a linear model the root
is |v − best|/s. So each end is found by interpolation of the root in v, for all parameters and levels at once.
Reference: D. M. Bates, D. G. Watts, "Nonlinear Regression Analysis and Its Applications", 1988, section 6.1.
"""

import math
from collections.abc import Sequence

import numpy as np

from tfjac._warn import warn
from tfjac.arguments import positive_integer, suggestion
from tfjac.progress import shown
from tfjac.tables import aligned, without_empty_columns
from tfjac.types import Array

_TOLERANCE = 1e-5
"""Of the root, relative to the quantile."""


class ConfidenceIntervals:
    """Intervals of parameters. Printed, it is a table.

    Attributes:
        names: tuple of the parameters.
        levels: `[L]`, probabilities, increasing.
        best: `[names]`, the values found.
        lower, upper: `[names, L]`, the ends; infinite where a bound of the parameter came first, NaN
            where the search took too many rounds.
        fits: how many fits that took.
    """

    def __init__(self, names: Sequence[str], levels: Array, best: Array, lower: Array, upper: Array, fits: int) -> None:
        self.names, self.levels, self.best = tuple(names), levels, best
        self.lower, self.upper, self.fits = lower, upper, fits

    def __getitem__(self, name: str) -> Array:
        """Return the intervals of a parameter `[L, 2]`."""
        if name not in self.names:
            raise KeyError(f"There is no interval of it. Received: {name!r}, parameters {', '.join(self.names)}")
        k = self.names.index(name)
        return np.stack([self.lower[k], self.upper[k]], axis=1)

    def summary(self, differences: bool = True) -> str:
        """Return a table, of the ends as differences to the best value, or as they are."""
        percent = [f"{level:.2%}" for level in self.levels]
        rows = [["", *percent[::-1], "best", *percent]]
        for name, best, lower, upper in zip(self.names, self.best, self.lower, self.upper):
            middle = best if differences else 0.0
            form = "{:+.5g}" if differences else "{:.6g}"
            ends = [form.format(end - middle) for end in (*lower[::-1], *upper)]
            half = len(percent)
            rows.append([name, *ends[:half], f"{best:.6g}", *ends[half:]])
        return "\n".join(aligned(without_empty_columns(rows), indent=""))

    def __repr__(self):
        return self.summary()


def profiled(fit, refits, names, sigmas, max_steps):
    """Return the `ConfidenceIntervals` of a `NamedFit`; arguments as of `NamedFit.conf_interval`."""
    if refits.is_robust:
        raise ValueError(
            "Profiles are of sums of squares: use bootstrap for robust losses. Received: a fit with a robust loss"
        )
    names = _checked(fit, names)
    levels = np.array(sorted(probability_of(sigma) for sigma in np.atleast_1d(sigmas)))
    ends = _Ends(fit, refits, names, fit.fit.statistics.quantile(levels))
    with shown("conf_interval") as progress:
        for _ in range(positive_integer("max_steps", max_steps)):
            if ends.step():
                break
            progress.at(ends.num_found, ends.num_ends, of="ends")
    if ends.lowest < -1e-6 * 2 * fit.cost:
        warn(
            "tfjac.conf_interval: with a parameter held elsewhere the others fit better, so that this is not the best "
            "fit, and its intervals mean little: start from other values, or use n_starts. Received: chi-square "
            f"{2 * fit.cost:.8g}, and lower by {-ends.lowest:.3g} elsewhere",
        )
    shape = [len(names), 2, levels.size]
    found = ends.found().reshape(shape)
    best = np.array([fit.values[name] for name in names])
    return ConfidenceIntervals(names, levels, best, found[:, 0], found[:, 1], ends.fits)


def _checked(fit, names):
    """Return the names of parameters that have profiles: of those that are free, and that no bound holds."""
    held = dict(zip(fit.fit.names, fit.fit.held()))
    free = [name for name in fit.free_names() if not held[name]]
    names = free if names is None else [names] if isinstance(names, str) else list(names)
    for name in names:
        if name not in free:
            reason = f" ({held[name]})" if held.get(name) else ""
            raise ValueError(
                "Only free parameters have profiles: none that are tied, fixed, held by a bound, or unknown."
                f"{suggestion(name, free)} Received: {name!r}{reason}, free parameters {', '.join(free)}"
            )
    return names


def probability_of(sigma):
    """Return the level of so many standard deviations, or sigma itself below 1."""
    if not sigma > 0:
        raise ValueError(f"sigmas are positive numbers. Received: {sigma!r}")
    return float(sigma) if sigma < 1 else math.erf(sigma / math.sqrt(2))


class _Ends:
    """The search for all ends, one row for each: of a parameter, to one side, at one level.

    Each end lies between `inner`, where the root is below its quantile, and `outer`, where it is above, once one is
    known.
    """

    def __init__(self, fit, refits, names, quantiles):
        layout, self._refits, self.fits = refits.layout, refits, 0
        self._best, self._dof = np.asarray(fit.fit.x, np.float64), fit.degrees_of_freedom
        covariance, self._least = fit.fit.covariance(), 2 * fit.cost
        index = [layout.independent.index(name) for name in names]
        grid = [(k, side, quantile) for k in index for side in (-1, 1) for quantile in quantiles]
        self._of = np.array([k for k, _, _ in grid])
        self._side, self._quantile = np.array([row[1:] for row in grid], np.float64).T
        self._slope = covariance[self._of] / np.diag(covariance)[self._of, None]
        self._bound = np.where(self._side > 0, layout.upper[self._of], layout.lower[self._of])
        self._middle, error = self._best[self._of], np.sqrt(np.diag(covariance))[self._of]
        count = self._of.size
        self._inner, self._inner_root = np.zeros(count), np.zeros(count)
        self._outer, self._outer_root = np.full(count, np.inf), np.full(count, np.inf)
        self._reach = self._limited(self._quantile * error)
        self._done, self._end = np.zeros(count, bool), np.full(count, np.nan)
        self._rounds, self.lowest = 0, np.inf

    def _limited(self, reach):
        """Return distances from the best value, not past the bounds."""
        return np.minimum(reach, np.abs(self._bound - self._middle))

    def step(self):
        """Fit once for each end, at where it may be; return whether all are found."""
        root, reach = self._root(self._reach), self._reach
        near = np.abs(root - self._quantile) <= _TOLERANCE * self._quantile
        below = root < self._quantile
        self._inner, self._inner_root = (
            np.where(below, *pair) for pair in ((reach, self._inner), (root, self._inner_root))
        )
        self._outer, self._outer_root = (
            np.where(below, *pair) for pair in ((self._outer, reach), (self._outer_root, root))
        )
        at_bound = below & (reach >= np.abs(self._bound - self._middle))
        settled = np.isfinite(self._outer) & (self._outer - self._inner <= 1e-9 * self._outer)
        now = ~self._done & (near | at_bound | settled)
        self._end = np.where(now, np.where(at_bound & ~near, np.inf, reach), self._end)
        self._done |= now
        self._rounds += 1
        self._reach = np.where(self._done, self._reach, self._limited(self._next(root, reach)))
        return self._done.all()

    def _next(self, root, reach):
        """Return where to look next: by interpolation between inner and outer, or further out."""
        share = (self._quantile - self._inner_root) / (self._outer_root - self._inner_root)
        share = np.clip(share, 0.02, 0.98) if self._rounds % 4 else 0.5
        with np.errstate(invalid="ignore"):
            between = self._inner + share * (self._outer - self._inner)
        further = reach * np.clip(self._quantile / np.maximum(root, 1e-12), 1.05, 3.0)
        return np.where(np.isfinite(self._outer), between, further)

    def _root(self, reach):
        """Return √F, or √Δχ², with each parameter held at `reach` from its best value; infinite where a fit failed."""
        layout, count = self._refits.layout, self._of.size
        rows = np.arange(count)
        held = self._middle + self._side * reach
        starts = self._best + self._slope * (held - self._middle)[:, None]
        starts = np.clip(starts, layout.lower, layout.upper)
        starts[:, layout.fixed] = layout.start[layout.fixed]
        starts[rows, self._of] = held
        fixed = np.tile(layout.fixed, [count, 1])
        fixed[rows, self._of] = True
        found = self._refits.run(starts, fixed)
        self.fits += count
        more = 2 * np.asarray(found.cost, np.float64) - self._least
        self.lowest = min(self.lowest, np.nanmin(more, initial=np.inf))
        if not self._refits.absolute:
            more = more / self._least * self._dof
        return np.where(np.isfinite(more), np.sqrt(np.maximum(more, 0)), np.inf)

    @property
    def num_ends(self):
        """How many ends are sought."""
        return self._done.size

    @property
    def num_found(self):
        """How many of them are found."""
        return int(self._done.sum())

    def found(self):
        """Return the ends; infinite past a bound, NaN where the search did not end."""
        return self._middle + self._side * self._end
