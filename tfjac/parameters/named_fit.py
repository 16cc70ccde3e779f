"""What a fit of named parameters found."""

import copy
import dataclasses
import functools
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tfjac.arguments import as_numbers, positive
from tfjac.fits.results.statistics import correlation_of
from tfjac.optimizers import Status
from tfjac.parameters.bootstrap import Bootstrap, bootstrapped
from tfjac.parameters.layout import Layout
from tfjac.parameters.lmfit_names import OF_FITS, SaysNames
from tfjac.parameters.profiles import ConfidenceIntervals, probability_of, profiled
from tfjac.parameters.refits import Refits
from tfjac.parameters.report import drawn_fit, frame_of_parameters, summary_of
from tfjac.parameters.starts import MultiStart
from tfjac.types import Array, ArrayLike, Axes, Nest, TensorLike


class NamedFit(SaysNames):
    """The result of a fit of `Parameters`. Printed, it is its `summary()`.

    What `fit` says of errors holds for it, by name: errors of tied parameters are carried over by the derivatives of
    their ties; parameters that are fixed, or held by a bound, count as known. Matrices are about all parameters, in
    the order of `names`. It unpacks to `popt, pcov`, in this order, as SciPy's `curve_fit` does.

    Attributes:
        fit: the `CurveFitResult` or `LeastSquaresResult` of the parameters that are not tied, `fit.x` in the order of
            `fit.names`.
        names: tuple of the names of all parameters.
        values: dict from names to the values found.
        starts: the `MultiStart` of a fit with `n_starts`; else None.
    """

    _lmfits = OF_FITS

    def __init__(
        self,
        parameters: Any,
        layout: Layout,
        fit: Any,
        refits: Refits,
        f: Any = None,
        starts: MultiStart | None = None,
        source: Any = None,
    ) -> None:
        self.fit, self.names, self.starts = fit, layout.names, starts
        self.values = layout.values(fit.x)
        self._given, self._layout, self._refits, self._f = parameters.copy(), layout, refits, f
        self._source = source

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what was fitted, and where it ended: the graph is traced again when it is loaded."""
        told = ("x", "cost", "gradient_norm", "status", "steps", "evaluations", "jacobians", "damping", "history")
        return _restored, (self._given, self._source, {name: getattr(self.fit, name) for name in told}, self.starts)

    def __copy__(self) -> "NamedFit":
        made = object.__new__(type(self))
        made.__dict__ = dict(self.__dict__)
        return made

    def __deepcopy__(self, memo: Any) -> "NamedFit":
        made = object.__new__(type(self))
        made.__dict__ = copy.deepcopy(self.__dict__, memo)
        return made

    # -------------------------------------------------------------- how it ended

    @property
    def status(self) -> Status:
        """A `Status`: why it stopped."""
        return self.fit.status

    @property
    def success(self) -> bool:
        """Whether a tolerance was met, and no peak became so narrow that it lies between the data."""
        return self.fit.success and not self._vanished

    @property
    def message(self) -> str:
        """One sentence on why it stopped."""
        if self._vanished:
            return (
                f"The width {', '.join(self._vanished)} is below the distance of the data, and the peak lies between "
                "them: start from other values, or give the width a min."
            )
        return self.fit.message

    @functools.cached_property
    def _vanished(self):
        """The names of the widths that the fit made so small that at most one of the data is above half the height."""
        widths = getattr(self._f, "widths", {})
        if not widths:
            return []
        places, given = np.unique(np.ravel(self.fit.xdata)), self._given.valuesdict()
        distance = np.diff(places).min() if places.size > 1 else 0.0
        small = [name for name, least in widths.items() if self.values[name] <= least * distance]
        return [name for name in small if self.values[name] != given[name]]

    @property
    def cost(self) -> float:
        """F = ½‖r‖² at the values found, and the priors' part."""
        return self.fit.cost

    def to_dataframe(self) -> Any:
        """Return a `pandas.DataFrame`, a row for each parameter; standard errors that are not known are NaN."""
        return frame_of_parameters(self.params)

    def summary(self, min_correlation: float = 0.1) -> str:
        """Return a report for people: statistics of the fit, a table of the parameters, and correlations.

        Args:
            min_correlation: weaker correlations are left out.
        """
        return summary_of(self, min_correlation)

    def __repr__(self):
        return self.summary()

    # -------------------------------------------------------------- parameters

    @functools.cached_property
    def params(self) -> Any:
        """`Parameters` as they were given, with the values found, standard errors, and the values at the start."""
        found, errors = self._given.copy(), self._errors_or_none()
        for name, each in found.items():
            each.stderr = errors.get(name)
            if each.expr is None:
                each.init_value, each.value = each.value, self.values[name]
        return found

    def _errors_or_none(self):
        try:
            return self.standard_errors()
        except (ValueError, np.linalg.LinAlgError):
            return {}

    @functools.cached_property
    def _derivatives(self):
        return self._layout.derivatives(self.fit.x)

    def covariance(self) -> Array:
        """Return the covariance of all parameters `[p, p]`: G C Gᵀ with C that of those that are not tied.

        Raises:
            ValueError: where errors cannot be estimated, as `LeastSquaresResult.covariance` does.
        """
        return self._derivatives @ self.fit.covariance() @ self._derivatives.T

    def standard_errors(self) -> dict[str, float]:
        """Return a dict from names to standard errors; zero for parameters that count as known.

        Raises:
            ValueError: as `covariance`.
        """
        return dict(zip(self.names, np.sqrt(np.maximum(np.diag(self.covariance()), 0)).tolist()))

    def correlation(self) -> Array:
        """Return the correlations of all parameters `[p, p]`; zero beside parameters that count as known."""
        return correlation_of(self.covariance())

    def correlations(self) -> dict[str, dict[str, float]]:
        """Return the correlations of the free parameters: `correlations()["a"]["b"]`."""
        matrix, names = self.correlation(), self.free_names()
        of = {name: k for k, name in enumerate(self.names)}
        return {one: {other: float(matrix[of[one], of[other]]) for other in names if other != one} for one in names}

    def free_names(self) -> list[str]:
        """Return the names of the parameters that the fit could change: neither tied nor fixed."""
        return [name for name, held in zip(self._layout.independent, self._layout.fixed) if not held]

    def confidence_intervals(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Return a dict from names to the ends of intervals by the linear model, x ∓ t·s with t of Student's t.

        Args:
            level: a number between 0 and 1. `conf_interval` needs no linear model.
        """
        reach = float(self.fit.statistics.quantile(positive("level", level, below=1)))
        errors = self.standard_errors()
        return {
            name: (value - reach * errors[name], value + reach * errors[name]) for name, value in self.values.items()
        }

    # -------------------------------------------------------------- the fit as a whole

    @property
    def num_residuals(self) -> int:
        """How many residuals count."""
        return self.fit.statistics.rows

    @property
    def chi_square(self) -> float:
        """χ² = ‖r‖²."""
        return self.fit.statistics.chi_square

    @property
    def degrees_of_freedom(self) -> float:
        """Number of residuals less that of the parameters that they determine."""
        return self.fit.degrees_of_freedom

    @property
    def reduced_chi_square(self) -> float:
        """χ² over the degrees of freedom."""
        return self.fit.reduced_chi_square

    @property
    def aic(self) -> float:
        """Akaike's criterion, N·log(χ²/N) + 2k for N residuals and k free parameters."""
        return self._twice_minus_log() + 2 * len(self.free_names())

    @property
    def bic(self) -> float:
        """The Bayesian criterion, N·log(χ²/N) + k·log(N)."""
        return self._twice_minus_log() + np.log(self.num_residuals) * len(self.free_names())

    def _twice_minus_log(self):
        return float(self.num_residuals * np.log(max(self.chi_square, np.finfo(float).tiny) / self.num_residuals))

    def r_squared(self, observed: ArrayLike | None = None) -> float:
        """Return R², which part of the variance of what was observed is explained.

        Args:
            observed: y; of curves, ydata where left out.
        """
        if observed is None and self._f is None:
            raise ValueError("R² compares the residuals with what was observed: pass it. Received: observed=None")
        return self.fit.r_squared(*([] if observed is None else [observed]))

    def residuals(self) -> Array:
        """Return r `[rows]` at the values found; of curves (f(x) − y)/sigma."""
        return self.fit.residuals()

    # -------------------------------------------------------------- intervals without the linear model

    def conf_interval(
        self, names: Sequence[str] | None = None, sigmas: float | Sequence[float] = (1, 2, 3), max_steps: int = 30
    ) -> ConfidenceIntervals:
        """Return intervals by profile likelihood: where the others, fitted again, leave χ² too large by an F-test.

        All ends of all parameters are sought at once, each round of fits in one call.

        Args:
            names: of free parameters; all of them where left out.
            sigmas: a level each: as many standard deviations of a normal distribution, or below 1, the probability.
            max_steps: at most so many rounds.

        Raises:
            ValueError: for names that are not free, robust losses, or where errors cannot be estimated.
        """
        return profiled(self, self._refits, names, sigmas, max_steps)

    def bootstrap(self, count: int = 200, kind: str = "residuals", seed: int = 0) -> Bootstrap:
        """Fit data drawn again `count` times, all in one call, and return the parameters found.

        Args:
            count: how many.
            kind: `"residuals"` draws residuals, centred and scaled by √(rows/degrees of freedom), and adds them to the
                curve; `"pairs"` draws rows, data with what they were measured at. Centred is as the loss counts: the
                mean for squares, c with Σψ(r − c) = 0 for robust losses, each among the residuals with its loss.
            seed: of the draws.
        """
        return bootstrapped(self, self._refits, count, kind, seed)

    def log_probability(self, values: ArrayLike) -> Array:
        """Return the logarithm of the posterior of the free parameters, up to a constant: what samplers call.

        With `absolute_sigma=True` it is −χ²/2. Else σ times a common factor is unknown, with a prior 1/σ, whose
        integral leaves −(N/2) log χ² for N residuals: of linear models, Student's t. `prior=` counts, and bounds do.

        Args:
            values: `[free]`, or `[draws, free]` for many at once, in the order of `free_names()`.

        Returns:
            A scalar, or `[draws]`: −∞ outside of the bounds, and where the residuals are not finite.

        Raises:
            ValueError: for robust losses, another number of parameters, and where residuals say nothing of the scale.
        """
        if not self._refits.absolute and not (self.degrees_of_freedom > 0 and self.chi_square > 0):
            raise ValueError(
                "Residuals that are all zero, or no more than the parameters, say nothing of the deviations: give them "
                f"by sigma and absolute_sigma=True. Received: chi-square {self.chi_square:.6g}, "
                f"{self.degrees_of_freedom} degrees of freedom"
            )
        return self._refits.log_probability(as_numbers("values", values), self.num_residuals)

    # -------------------------------------------------------------- the curve

    def predict(self, x: Nest[TensorLike] | None = None) -> Array:
        """Return the curve at `x`, NumPy; at the data where left out."""
        return self._curve().predict(x)

    def confidence_band(self, x: Nest[TensorLike] | None = None, level: float = 0.95) -> tuple[Array, Array]:
        """Return the ends of the band that holds the true curve, as `CurveFitResult.confidence_band`."""
        return self._curve().confidence_band(x, level)

    def prediction_band(self, x: Nest[TensorLike] | None = None, level: float = 0.95) -> tuple[Array, Array]:
        """Return the ends of the band that holds another measurement, as `CurveFitResult.prediction_band`."""
        return self._curve().prediction_band(x, level)

    def eval_uncertainty(self, x: Nest[TensorLike] | None = None, sigma: float = 1.0) -> Array:
        """Return half the width of `confidence_band` at `x`, as lmfit's function of this name.

        Args:
            x: where; at the data where left out.
            sigma: the level, as so many standard deviations of a normal distribution, or below 1, the probability.
        """
        low, high = self.confidence_band(x, probability_of(sigma))
        return (high - low) / 2

    def components(self, x: ArrayLike | None = None) -> dict[str, Array]:
        """Return the parts of a composite model at `x`, by their names; at the data where left out."""
        curve = self._curve()
        if not hasattr(self._f, "components"):
            raise ValueError(
                f"Only models, such as models.gaussian() + models.linear(), have parts. Received: {self._f!r}"
            )
        return self._f.components(curve.xdata if x is None else x, self.values)

    def plot(
        self,
        axes: Axes = None,
        level: float = 0.95,
        points: int = 200,
        residuals: bool | None = None,
        components: bool = True,
        x: ArrayLike | None = None,
    ) -> Axes:
        """Draw data, curve and bands, as `plot_fit`, with the residuals below them; needs Matplotlib.

        Args:
            axes, level, points, x: as of `plot_fit`.
            residuals: whether to draw (f(x) − y)/sigma in a panel of the same figure; by default, where `axes` is left
                out.
            components: whether to draw the parts of a composite model.

        Returns:
            The axes of the curve; `axes.figure.axes[1]` are those of the residuals.
        """
        return drawn_fit(self, self._curve(), axes, level, points, residuals, components, x)

    def _curve(self):
        if self._f is None:
            raise ValueError("least_squares knows residuals, and no curve: use curve_fit. Received: a fit of residuals")
        return self.fit

    def __iter__(self) -> Iterator[Array]:
        yield np.array([self.values[name] for name in self.names])
        yield self.covariance()


def _restored(parameters, source, found, starts):
    """Return a `NamedFit` again, of the point where it ended.

    Args:
        parameters: as they were given.
        source: a function that returns the `Problem` of parameters, and its arguments after these.
        found: dict of what its result said.
        starts: its `MultiStart`, or None.
    """
    make, arguments = source
    problem = make(parameters, *arguments)
    with warnings.catch_warnings():  # it takes no steps
        warnings.simplefilter("ignore")
        fit = dataclasses.replace(problem.fitted(found["x"], max_steps=0), **found)
    return NamedFit(parameters, problem.layout, fit, problem.refits(fit), problem.f, starts, source)
