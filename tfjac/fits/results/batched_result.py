"""What many independent minimisations found."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.fits.results.summary import active_sides, parameter_names
from tfjac.steps.statuses import Status
from tfjac.types import Array, NestLike


@dataclasses.dataclass(frozen=True, repr=False)
class BatchedLeastSquaresResult:
    """The result of `least_squares` with `batch_dims=1`, NumPy arrays with the B fits along their first axis.

    What it says of errors holds for each fit as in `LeastSquaresResult`: residuals that are independent and of equal
    variance, in a model that is nearly linear within the errors. Residuals that are zero and that no parameter moves,
    as masked ones are, do not count. Parameters that a bound holds, or that are fixed, count as known.

    Attributes:
        x: the values found, in the nest of the variables; the variables hold them too.
        cost: `[B]`, F = ½‖r‖².
        gradient_norm: `[B]`, max |∂F/∂x|.
        status: `[B]`, integers, each a `Status`: why it stopped.
        steps, evaluations, jacobians: `[B]`, as in `LeastSquaresResult`; J is taken at every trial point.
        damping: `[B]`, λ of the last step.
        names: tuple of what the variables are called, in the order of the nest; or those of all parameters.
    """

    x: Any
    cost: np.ndarray
    gradient_norm: np.ndarray
    status: np.ndarray
    steps: np.ndarray
    evaluations: np.ndarray
    jacobians: np.ndarray
    damping: np.ndarray
    names: tuple[str, ...]
    _values: Any
    _vanished: Any
    _box: Any
    _rows: int
    _of_squares: bool
    _linearised: Callable[[], list]

    @classmethod
    def of(
        cls,
        found: Any,
        x: Any,
        box: Any,
        names: tuple[str, ...],
        rows: int,
        of_squares: bool,
        linearised: Callable[[], list],
    ) -> "BatchedLeastSquaresResult":
        """Return the result of what fits `Found`.

        Args:
            found: `Found`.
            x: nest of tensors.
            box: a `Box`, or an empty tuple.
            names: what the variables are called.
            rows: how many residuals a fit has.
            of_squares: whether they are squared, rather than put into robust losses.
            linearised: callable without arguments that gives JᵀJ `[B, p, p]`, Σψ², Σψ′, and how many residuals count,
                `[B]` each.
        """
        outcome = {name: value.numpy() for name, value in found.outcome._asdict().items() if name != "x"}
        x, box = tf.nest.map_structure(np.asarray, x), tf.nest.map_structure(np.asarray, box)
        values, vanished = found.values.numpy(), found.vanished.numpy()
        private = {
            "_values": values,
            "_vanished": vanished,
            "_box": box,
            "_rows": rows,
            "_of_squares": of_squares,
            "_linearised": linearised,
        }
        return cls(x, **outcome, names=names, **private)

    @property
    def success(self) -> Array:
        """`[B]`, bool: whether a tolerance was met."""
        return np.isin(self.status, [int(status) for status in Status if status.converged])

    def summary(self) -> str:
        """Return a report for people: how many fits ended how, and how large costs and parameters are."""
        kinds, counts = np.unique(self.status, return_counts=True)
        lines = [f"{self.status.size} fits, {self._values.shape[1]} parameters each, {self._rows} residuals each"]
        lines += [f"  {count:>9}  {Status(kind)}: {Status(kind).message}" for kind, count in zip(kinds, counts)]
        open_ones = np.count_nonzero(self.success & ~self.determined())
        if open_ones:
            lines += [
                f"  {open_ones:>9}  of these do not determine all parameters, which may have run off: determined()"
            ]
        lines += [f"{'':14}{'5 %':>12}{'median':>12}{'95 %':>12}"]
        named = zip(self.parameter_names(), self._values.T)
        for name, column in [("cost", self.cost), ("steps", self.steps), *named]:
            finite = column[np.isfinite(column)]
            marks = np.quantile(finite, [0.05, 0.5, 0.95]) if finite.size else [np.nan] * 3
            lines.append(f"{name:14}" + "".join(f"{mark:>12.5g}" for mark in marks))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.summary()

    def parameter_names(self) -> list[str]:
        """Return a list of what to call each of the p parameters of a fit."""
        if len(self.names) == self._values.shape[1]:
            return list(self.names)
        return parameter_names(self.names, [value.shape[1:] for value in tf.nest.flatten(self.x)])

    # -------------------------------------------------------------- errors

    @property
    def active(self) -> NestLike:
        """Nest of `x` of integers: −1 for a parameter at its lower bound, 1 at its upper one or fixed, 0 between."""
        return self._nested(self._active)

    @functools.cached_property
    def _active(self) -> Array:
        return active_sides(self._values, self._box)

    @functools.cached_property
    def _at_the_end(self) -> list[Array]:
        return self._linearised()

    @property
    def num_residuals(self) -> Array:
        """`[B]`, how many residuals count."""
        return self._at_the_end[-1]

    @functools.cached_property
    def _inverse(self) -> tuple[Array, Array]:
        """(JᵀJ)⁻¹ of the free parameters `[B, p, p]`, zero for the others, and the rank `[B]`.

        Columns are scaled to length one before, and combinations of parameters that change nothing but for rounding
        are left out.
        """
        free = self._active == 0
        gram = self._at_the_end[0]
        gram = np.where(np.isfinite(gram).all(axis=(1, 2), keepdims=True), gram, 0)
        gram = gram * free[:, None] * free[:, :, None]
        norms = np.sqrt(np.diagonal(gram, axis1=1, axis2=2))
        norms = np.where(norms > 0, norms, 1)
        values, vectors = np.linalg.eigh(gram / norms[:, None] / norms[:, :, None])
        kept = values > self._rows * max(np.finfo(self._values.dtype).eps ** 2, np.finfo(np.float64).eps)
        roots = vectors * np.sqrt(np.divide(1, values, out=np.zeros_like(values), where=kept))[:, None]
        roots = roots / norms[:, :, None]
        return roots @ roots.swapaxes(1, 2), kept.sum(axis=1)

    @property
    def rank(self) -> Array:
        """`[B]`, how many combinations of the free parameters the residuals determine."""
        return self._inverse[1]

    @property
    def degrees_of_freedom(self) -> Array:
        """`[B]`, how many residuals count, less `rank`."""
        return self.num_residuals - self.rank

    def determined(self) -> Array:
        """Return `[B]`, bool: whether the residuals determine all free parameters, with some left for their errors."""
        free = (self._active == 0).sum(axis=1)
        free = np.where(self._vanished.any(axis=1), -1, free)
        return (self.rank == free) & (self.degrees_of_freedom > 0) & np.isfinite(self.cost)

    def covariance(self, absolute_sigma: bool = False) -> Array:
        """Return the covariance matrices of the parameters, `[B, p, p]`: s²(JᵀJ)⁻¹ with s² = ‖r‖²/(residuals − p).

        With robust losses Huber's, as `LeastSquaresResult.covariance`. NaN for fits that are not `determined()`, or in
        which most residuals are outliers.

        Args:
            absolute_sigma: whether the residuals are in units of their standard deviations, so that s² is one.

        Cost: one Jacobian, and one eigendecomposition of a matrix `[p, p]` for each fit, when first asked for; the
        columns of J are scaled to length one for it, and parameters count as determined up to a condition number of J
        of some 1e7.
        """
        _, squares, bends, rows = self._at_the_end
        slope = np.divide(bends, rows, out=np.full(rows.shape, np.nan), where=(rows > 0) & (bends > 0))
        variance = squares / np.maximum(self.degrees_of_freedom, 1) / slope**2
        variance = np.ones_like(variance) if absolute_sigma and self._of_squares else variance
        known = self.determined()
        return np.where(known, variance, np.nan)[:, None, None] * np.where(known[:, None, None], self._inverse[0], 0)

    def standard_errors(self, absolute_sigma: bool = False) -> NestLike:
        """Return the standard deviations of the parameters, in the nest of `x`; NaN, and `absolute_sigma`, as above."""
        return self._nested(np.sqrt(np.diagonal(self.covariance(absolute_sigma), axis1=1, axis2=2)))

    def _nested(self, matrix: Array) -> Any:
        """Return `[B, p]` in the nest of `x`."""
        flat = tf.nest.flatten(self.x)
        sizes = [int(np.prod(value.shape[1:])) for value in flat]
        parts = np.split(matrix, np.cumsum(sizes)[:-1], axis=1)
        return tf.nest.pack_sequence_as(self.x, [part.reshape(value.shape) for part, value in zip(parts, flat)])
