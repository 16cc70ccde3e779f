"""What a minimisation found."""

import copy
import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.arguments import positive
from tfjac.fits.results.history import History
from tfjac.fits.results.manifold_normals import normals_of
from tfjac.fits.results.meaningless import reach_of, warn_of_run_off, without_meaning
from tfjac.fits.results.not_finite import not_finite
from tfjac.fits.results.scipy_names import SciPyNames
from tfjac.fits.results.statistics import Statistics, correlation_of, plane_across
from tfjac.fits.results.summary import active_sides, parameter_names, summary_of
from tfjac.fits.results.undetermined_rows import undetermined_rows
from tfjac.objective.conditions.manifolds import Manifold
from tfjac.steps.statuses import Status
from tfjac.types import Array, ArrayLike, Axes, NestLike

_LARGEST = 2**33
"""Bytes of a Jacobian that is formed, in float64."""


@dataclasses.dataclass(frozen=True, repr=False)
class LeastSquaresResult(SciPyNames):
    """The result of `least_squares`. Printed, it is its `summary()`.

    SciPy's `fun`, `jac`, `grad`, `optimality`, `active_mask`, `nfev` and `njev` are there too, also as `result["fun"]`.

    What it says of errors holds for residuals that are independent and of equal variance, in a model that is nearly
    linear within the errors. Parameters that a bound holds, or that are fixed, count as known: their errors are zero;
    so are those of combinations that equations determine, and across a manifold.
    Matrices are about all parameters, one after the other: the variables flattened in the order of the nest.

    Attributes:
        x: the values found, NumPy arrays in the nest of the variables; the variables hold them too.
        cost: F = ½‖r‖² there, and the prior's part.
        gradient_norm: max |∂F/∂x| there.
        status: a `Status`, why it stopped.
        steps: number of steps, accepted or not.
        evaluations: number of evaluations of the residuals at trial points.
        jacobians: number of linearisations.
        damping: λ of the last step.
        history: the `History` of its steps.
        num_residuals: how many residuals there are.
        names: tuple of what the variables are called, in the order of the nest.
        absolute_sigma: whether the residuals are in units of their standard deviations, so that s² is one.
    """

    x: Any
    cost: float
    gradient_norm: float
    status: Status
    steps: int
    evaluations: int
    jacobians: int
    damping: float
    history: History = dataclasses.field(compare=False)
    num_residuals: int
    names: tuple[str, ...]
    _start: Any = dataclasses.field(compare=False)
    _vanished: Any = dataclasses.field(compare=False)
    _conditions: Any = dataclasses.field(compare=False)
    _frozen: Any = dataclasses.field(compare=False)
    _manifolds: tuple = dataclasses.field(compare=False)
    absolute_sigma: bool = dataclasses.field(default=False, kw_only=True)

    _may_be_masked = True

    def __deepcopy__(self, memo: Any) -> "LeastSquaresResult":
        """Return a result with other arrays, that shares the graph."""
        names = [field.name for field in dataclasses.fields(self)]
        return type(self)(**{name: copy.deepcopy(getattr(self, name), memo) for name in names})

    @classmethod
    def of(cls, run: Any, frozen: Any, manifolds: Sequence[Any], vanished: Array | None) -> "LeastSquaresResult":
        """Return the result of a `Run` that has ended.

        Args:
            run: a `Run`.
            frozen: a `FrozenPoint`, at the end of it.
            manifolds: list of a `Manifold`, or None, for each variable.
            vanished: `[p]`, bool, which columns of J have vanished at a minimum; None if no step lowered the cost at
                another point.
        """
        outcome = run.progress.outcome.in_units(run.invariants.unit)
        status = Status(int(outcome.status)) if vanished is None else Status.GRADIENT_TOLERANCE
        return cls(
            x=run.x,
            cost=float(outcome.cost),
            gradient_norm=float(outcome.gradient_norm),
            status=status,
            steps=int(outcome.steps),
            evaluations=int(outcome.evaluations),
            jacobians=int(outcome.jacobians),
            damping=float(outcome.damping),
            history=run.history,
            num_residuals=int(run.invariants.number),
            names=tuple(run.names),
            _start=run.start,
            _vanished=None if any(manifolds) else vanished,
            _conditions=tf.nest.map_structure(np.asarray, run.conditions),
            _frozen=frozen,
            _manifolds=tuple(manifolds),
        )

    # -------------------------------------------------------------- how it ended

    @property
    def success(self) -> bool:
        """Whether a tolerance was met."""
        return self.status.converged

    @property
    def message(self) -> str:
        """One sentence on why it stopped; where something is not finite, with the op and the residual."""
        return self._said or self.status.message

    @functools.cached_property
    def _said(self) -> str:
        if self.status is not Status.NOT_FINITE:
            return ""
        try:
            cause = not_finite(self._frozen)
        except Exception:  # the status stands, whatever cannot be differentiated on the way to its cause
            return ""
        return f"{self.status.message} It is {cause}." if cause else ""

    def summary(self, min_correlation: float = 0.1) -> str:
        """Return a report for people: how it ended, and a table of the parameters, their errors and correlations.

        Where there are many parameters, one line for each variable, without errors, which would take J to be formed.

        Args:
            min_correlation: weaker correlations are left out.
        """
        return summary_of(self, min_correlation)

    def plot(self, axes: Sequence[Axes] | None = None) -> tuple[Axes, Axes]:
        """Draw cost, largest gradient, damping and gain ratio of each step; needs Matplotlib.

        Args:
            axes: two `matplotlib.axes.Axes` to draw on; those of a new figure where left out.

        Returns:
            The axes.
        """
        return self.history.plot(axes)

    def __repr__(self) -> str:
        return self.summary()

    # -------------------------------------------------------------- residuals

    def jacobian(self) -> Array:
        """Return the Jacobian of the residuals `[rows, p]`, NumPy, at the values found and for the data then.

        Its rows are the elements of what `residuals` returned, one tensor after the other.

        Raises:
            ValueError: where J would take more than 8 GiB.

        Cost: one Jacobian, formed, when it, or what follows from it, is first asked for; that is then kept.
        """
        return self._linearisation[0]

    def residuals(self) -> Array:
        """Return r `[rows]`, NumPy, at the values found, in the order of the rows of `jacobian()`."""
        return self._linearisation[1]

    def gradient(self) -> Array:
        """Return the gradient of the cost `[p]`, NumPy, in the parameters one after the other: Jᵀψ, and the prior's.

        Without what is across a manifold, and across the plane of equations: no step goes there. So it is zero at a
        minimum, but for parameters that a bound holds.
        """
        jacobian, residuals, influence = self._linearisation
        weighted = residuals if influence is None else influence[-1] * residuals
        found = jacobian.T.astype(np.float64) @ weighted.astype(np.float64)
        prior, free = self._conditions.prior, self._flat_active() == 0
        if prior:
            found = found + prior.weight**2 * (self._flat() - prior.mean)
        if self._normals is not None:
            plane = plane_across(self._normals[:, free])
            found[free] = plane @ (plane.T @ found[free])
        return found

    @functools.cached_property
    def _normals(self) -> Array | None:
        """Orthonormal `[k, p]`: combinations of the parameters that manifolds or equations hold; None without any."""
        if any(self._manifolds):
            return normals_of(self._manifolds, tf.nest.flatten(self.x))
        equality = self._conditions.equality
        return equality.normals.astype(np.float64) if equality and len(equality.normals) else None

    @functools.cached_property
    def _linearisation(self) -> tuple:
        size = 8 * self.num_residuals * self._flat().size
        if size > _LARGEST:
            raise ValueError(
                "The Jacobian, from which errors and statistics come, is too large to be formed. "
                f"Received: {self.num_residuals:,} residuals, {self._flat().size:,} parameters, {size / 2**30:,.1f} GiB"
            )
        return self._frozen.linearised()

    # -------------------------------------------------------------- parameters

    @property
    def active(self) -> NestLike:
        """Nest of `x` of integers: −1 for a parameter at its lower bound, 1 at its upper one or fixed, 0 between."""
        return self._nested(self._flat_active())

    def held(self) -> list[str]:
        """Return what to say of each parameter that does not move, a list of text; empty for the others."""
        names = {-1: "at its lower bound", 0: "", 1: "at its upper bound"}
        return ["fixed" if known else names[side] for known, side in zip(self._fixed(), self._flat_active())]

    def _fixed(self) -> Array:
        box = self._conditions.box
        return box.lower >= box.upper if box else np.zeros(self._flat().size, bool)

    def _flat_active(self) -> Array:
        return active_sides(self._flat(), self._conditions.box)

    @functools.cached_property
    def statistics(self) -> Statistics:
        """The `Statistics` that all below comes from."""
        return self._statistics_of(self._flat_active() == 0)

    def _statistics_of(self, free: Array) -> Statistics:
        jacobian, residuals, influence = self._linearisation
        prior, normals = self._conditions.prior, self._normals
        precision = np.square(prior.weight.astype(np.float64)) if prior else None
        given = self.absolute_sigma, influence, precision, normals, self._may_be_masked
        lost = np.zeros(self._flat().size, bool) if self._vanished is None else self._vanished
        if normals is None and precision is None:
            lost = lost | without_meaning(jacobian, residuals, self._flat(), self._start)
        return Statistics(np.where(lost, 0, jacobian).astype(jacobian.dtype), residuals, free, *given)

    def parameter_names(self) -> list[str]:
        """Return a list of what to call each parameter: the name of its variable, with indices where it has a shape."""
        return parameter_names(self.names, [np.shape(value) for value in tf.nest.flatten(self.x)])

    def covariance(self) -> Array:
        """Return the covariance matrix of the parameters, `[p, p]`, NumPy: s²(JᵀJ)⁻¹ with s² = ‖r‖²/(rows − p).

        With a prior of precision Λ, s²(JᵀJ + Λ)⁻¹ with s² = ‖r‖²/(rows − γ), γ being `effective_parameters`: the
        deviations of the prior are in units of those of the residuals. With robust losses, Huber's: with ψ = ρ′r, s² is
        Σψ²/(rows − p) / (Σψ′/rows)².

        Raises:
            ValueError: where there are no more residuals than parameters, or J does not determine the parameters.

        Cost: one Jacobian, formed, and its singular value decomposition.
        Reference: G. A. F. Seber, C. J. Wild, "Nonlinear Regression", 1989, section 2.1.
        """
        covariance = self.statistics.covariance()
        self.statistics.refuse_undetermined()
        self._warn_of_run_off(covariance)
        return covariance

    def _warn_of_run_off(self, covariance: Array) -> None:
        """Warn of parameters that have run off, see `run_off`."""
        if not any(self._manifolds):
            warn_of_run_off(self.parameter_names(), covariance, reach_of(self._flat(), self._start))

    def standard_errors(self) -> NestLike:
        """Return the standard deviations of the parameters, in the nest of `x`: roots of diag(`covariance()`)."""
        return self._nested(np.sqrt(np.diag(self.covariance())))

    def correlation(self) -> Array:
        """Return the correlation matrix of the parameters, `[p, p]`, NumPy."""
        return correlation_of(self.covariance())

    def confidence_intervals(self, level: float = 0.95) -> NestLike:
        """Return the interval of each parameter that holds the true value in a fraction `level` of all cases.

        Args:
            level: a number between 0 and 1.

        Returns:
            The nest of `x`, arrays with one more axis of two at the end: the lower and the upper end, x ∓ t·s, with t
            of Student's distribution.
        """
        reach = self.statistics.quantile(positive("level", level, below=1)) * np.sqrt(np.diag(self.covariance()))
        middle = self._flat()
        return self._nested(np.stack([middle - reach, middle + reach], axis=-1))

    # -------------------------------------------------------------- the fit as a whole

    @property
    def degrees_of_freedom(self) -> float:
        """Number of residuals less `effective_parameters`."""
        return self.statistics.degrees_of_freedom

    @property
    def rank(self) -> int:
        """Number of combinations of parameters that residuals and prior determine: of all, if all are determined."""
        return self.statistics.rank

    @property
    def effective_parameters(self) -> float:
        """γ = tr JᵀJ(JᵀJ + Λ)⁻¹: how many parameters the residuals determine rather than the prior; else the rank."""
        return self.statistics.effective_parameters

    @property
    def undetermined(self) -> NestLike:
        """Nest of `x` of bool: the parameters with a part in a combination that can change without effect."""
        return self._nested(~self.statistics.determined)

    def undetermined_rows(self) -> dict[str, Array]:
        """Return a dict from names of variables to the rows of theirs that the residuals reading them do not determine.

        Of variables whose rows are read by index: points that no camera sees, or a single one. For problems of any
        size, as J is not formed. What several rows leave open together, such as where a scene stands, is not found
        (see `undetermined`).

        Returns:
            Increasing indices along the first axis, for the variables that have such rows.
        """
        values, found = tf.nest.flatten(self.x), {}
        free = self._split(self._flat_active() == 0)
        prior = self._conditions.prior
        precision = self._split(np.square(prior.weight)) if prior else [None] * len(values)
        grams = self._frozen.row_grams()
        for name, *parts in zip(self.names, values, grams, free, precision, self._manifolds):
            rows = _undetermined_rows(*parts)
            if rows.size:
                found[name] = rows
        return found

    @property
    def reduced_chi_square(self) -> float:
        """‖r‖² over the degrees of freedom: about one, where residuals are in units of their standard deviations.

        NaN if there are none.
        """
        free = self.degrees_of_freedom
        return self.statistics.chi_square / free if free > 0 else math.nan

    def r_squared(self, observed: ArrayLike) -> float:
        """Return R², which part of the variance of what was observed is explained: 1 − ‖r‖²/‖y − mean(y)‖².

        Args:
            observed: y, of any shape: what the residuals are differences to, neither weighted nor masked.

        Raises:
            ValueError: for another number of values than residuals.
        """
        observed = np.asarray(observed, np.float64)
        if observed.size != self.residuals().size:
            raise ValueError(
                "R² compares the residuals with what was observed, one value for each. "
                f"Received: {observed.size} values, {self.residuals().size} residuals"
            )
        return 1 - self.statistics.chi_square / np.sum(np.square(observed - observed.mean()))

    def _flat(self) -> Array:
        """Return `x` as one vector `[p]` of float64."""
        return np.concatenate([np.ravel(value) for value in tf.nest.flatten(self.x)]).astype(np.float64)

    def _split(self, vector: Array) -> list[Array]:
        """Return what is `[p, …]` as a list of what belongs to each variable, in its shape."""
        flat = [np.asarray(value) for value in tf.nest.flatten(self.x)]
        parts = np.split(vector, np.cumsum([value.size for value in flat])[:-1])
        return [part.reshape(value.shape + part.shape[1:]) for part, value in zip(parts, flat)]

    def _nested(self, vector: Array) -> Any:
        """Return what is `[p, …]` in the nest of `x`."""
        return tf.nest.pack_sequence_as(self.x, self._split(vector))


def _undetermined_rows(value: Array, gram: Array, free: Array, precision: Array, manifold: Manifold | None) -> Array:
    if gram is None:
        return np.array([], int)
    basis, shape = None, gram.shape[:2]
    if manifold is not None:
        basis = manifold.basis(tf.constant(np.reshape(value, [-1, manifold.size]))).numpy()
    precision = None if precision is None else precision.reshape(shape)
    return undetermined_rows(gram, free.reshape(shape), precision, basis)
