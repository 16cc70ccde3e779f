"""What a fit of a curve found: parameters by name, and the curve with its bands."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac._warn import warn
from tfjac.arguments import check_eager, positive
from tfjac.fits.results.least_squares_result import LeastSquaresResult
from tfjac.fits.results.pictures import draw_curve
from tfjac.graph import quiet_function
from tfjac.jacobians import jacobian
from tfjac.objective.curve import Curve, Model
from tfjac.objective.curve_data import arrays_of
from tfjac.objective.deviations import Deviations, of_parts, parts_of
from tfjac.steps.statuses import Status
from tfjac.types import Array, ArrayLike, Axes, Nest, Tensor, TensorLike

_UNPACKED = ("popt", "pcov", "infodict", "mesg", "ier")
"""What the result unpacks to, in SciPy's words."""

_MINPACK = {
    Status.COST_TOLERANCE: 1,
    Status.STEP_TOLERANCE: 2,
    Status.GRADIENT_TOLERANCE: 4,
    Status.MAX_STEPS: 5,
}


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class CurveFitResult(LeastSquaresResult):
    """The result of `curve_fit`, a `LeastSquaresResult` with `x` `[p]`; it unpacks to `popt, pcov`.

    With `full_output` it unpacks to `popt, pcov, infodict, mesg, ier`, as SciPy's does. It can be indexed likewise.

    Attributes:
        ydata: the data, as they were fitted.
        absolute_sigma: whether the deviations are meant as they are.
        full_output: whether it unpacks to all five.
    """

    ydata: np.ndarray
    full_output: bool
    _fitted: Curve

    _may_be_masked = False  # each of the data is a measurement, also one that is met exactly

    @classmethod
    def of_fit(
        cls,
        result: LeastSquaresResult,
        names: Sequence[str],
        curve: Curve,
        ydata: Array,
        absolute_sigma: bool,
        full_output: bool,
    ) -> CurveFitResult:
        fields = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
        fields |= {"names": tuple(names), "absolute_sigma": bool(absolute_sigma)}
        return cls(**fields, ydata=ydata, full_output=bool(full_output), _fitted=curve)

    @property
    def xdata(self) -> Any:
        """What `f` was given, as it was fitted."""
        return self._fitted.x

    @property
    def sigma(self) -> Deviations:
        """`Deviations` of the data; of the parts `[..., 2]` of complex data."""
        return self._fitted.deviations

    @property
    def _model(self) -> Model:
        return self._fitted.model

    @property
    def curve(self) -> Curve:
        """What was fitted: model, data and deviations."""
        return self._fitted

    def parameter_names(self) -> list[str]:
        """Return a list of what `f` calls each parameter."""
        return list(self.names)

    # -------------------------------------------------------------- as SciPy has it

    @property
    def popt(self) -> Array:
        """The parameters, `[p]`."""
        return self.x

    @functools.cached_property
    def pcov(self) -> Array:
        """The covariance of the parameters `[p, p]` as SciPy has it; infinite where it cannot be estimated.

        As if no bound held a parameter; `covariance()` is that where parameters at a bound count as known.
        """
        statistics = self._statistics_of(~self._fixed())
        try:
            covariance = statistics.covariance()
            statistics.refuse_undetermined()
            self._warn_of_run_off(covariance)
            return covariance
        except ValueError as error:
            warn(f"tfjac.curve_fit: {error}")
            return np.full([self.x.size, self.x.size], np.inf)

    @property
    def infodict(self) -> dict[str, Any]:
        """A dict of `nfev`, how many evaluations there were, and `fvec`, the residuals (f(x) − y)/sigma found."""
        return {"nfev": self.evaluations, "fvec": self.residuals()}

    @property
    def mesg(self) -> str:
        """One sentence on why it stopped, `message`."""
        return self.message

    @property
    def ier(self) -> int:
        """Why it stopped by MINPACK's numbers: 1 to 4 where a tolerance was met, 5 for `max_steps`, else 0."""
        return _MINPACK.get(self.status, 4 if self.success else 0)

    def __len__(self) -> int:
        return 5 if self.full_output else 2

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in _UNPACKED[: len(self)])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            return super().__getitem__(index)
        names = _UNPACKED[: len(self)][index]
        return getattr(self, names) if isinstance(names, str) else tuple(getattr(self, name) for name in names)

    # -------------------------------------------------------------- statistics

    def r_squared(self, observed: ArrayLike | None = None) -> float:
        """Return R², which part of the variance of the data is explained, data weighted as they were in the fit."""
        if observed is not None:
            return super().r_squared(observed)
        values = self.sigma.divide(self._fitted.y)
        means = np.stack([self.sigma.divide(each) for each in self._constants()], axis=1)
        left = values - means @ np.linalg.lstsq(means, values)[0]
        return 1 - self.statistics.chi_square / np.sum(np.square(left))

    def _constants(self) -> list[Array]:
        """Arrays of the shape of the data that stand for a constant: one, or of complex data one for each part."""
        shape = self._fitted.y.shape
        if not self._model.is_complex:
            return [np.ones(shape)]
        return [np.broadcast_to(part, shape) for part in np.eye(2)]

    # -------------------------------------------------------------- the curve

    def predict(self, x: Nest[TensorLike] | None = None) -> Array:
        """Return f(x, *parameters), NumPy; at the data, without what they miss, where `x` is left out."""
        return self._shown(self._curve(x)[0])

    def confidence_band(self, x: Nest[TensorLike] | None = None, level: float = 0.95) -> tuple[Array, Array]:
        """Return the lower and the upper end of the band that holds the true curve at `x`, in a fraction `level`.

        Of complex data, the band of the real part and that of the imaginary part, as one complex number.
        """
        return self._band(x, level, 0.0)

    def prediction_band(
        self, x: Nest[TensorLike] | None = None, level: float = 0.95, sigma: TensorLike | None = None
    ) -> tuple[Array, Array]:
        """Return the lower and the upper end of the band that holds another measurement at `x`, in a fraction `level`.

        Args:
            x: where; at the data where left out.
            level: a number between 0 and 1.
            sigma: the standard deviation of such a measurement, in the units that the fit was given its own; that of
                the data where left out, their root mean square where they differ and `x` is elsewhere.
        """
        if sigma is None:
            deviations = self.sigma.of_each(self._fitted.y.shape)
            sigma = deviations if x is None else np.sqrt(np.mean(np.square(deviations)))
        elif self._model.is_complex:
            sigma = np.asarray(sigma)
            sigma = parts_of(sigma) if np.iscomplexobj(sigma) else sigma[..., None]
        return self._band(x, level, self.statistics.variance * np.square(sigma))

    def plot(self, axes: Axes = None, level: float = 0.95, points: int = 200, x: ArrayLike | None = None) -> Axes:
        """Draw data, curve and bands, as `plot_fit`; `history.plot()` draws the steps."""
        return draw_curve(self, axes, level, points, x)

    def _band(self, x: Any, level: float, variance: Any) -> tuple[Array, Array]:
        values, slopes = self._curve(x)
        spread = np.einsum("...i,ij,...j", slopes, self.covariance(), slopes) + variance
        reach = self.statistics.quantile(positive("level", level, below=1)) * np.sqrt(spread)
        return self._shown(values - reach), self._shown(values + reach)

    def _shown(self, values: Array) -> Array:
        """Values of the curve as the user knows them: complex numbers rather than their parts."""
        return of_parts(values) if self._model.is_complex else values

    def _curve(self, x: Any) -> tuple:
        """Return the curve at `x`, or at the data, and its derivatives `[…, p]`, NumPy."""
        check_eager("The curve of a fit")
        at_data = x is None
        given, parameters = self._model.data(self.xdata if at_data else arrays_of(x)), tf.constant(self.x)
        if self._model.takes_arrays:
            found = quiet_function(lambda parameters: self._traced_curve(given, parameters, at_data))(parameters)
        else:
            ranks = tuple(getattr(each, "shape", tf.TensorShape(None)).rank for each in tf.nest.flatten(given))
            found = self._functions[ranks](given, parameters, at_data)
        return tuple(each.numpy() for each in found)

    def _traced_curve(self, x: Any, parameters: Any, at_data: bool) -> tuple[Tensor, Tensor]:
        model = self._model if at_data else dataclasses.replace(self._model, places=None)
        values = model(x, tf.unstack(parameters))
        return values, jacobian(values, parameters)

    @functools.cached_property
    def _functions(self) -> Any:
        """`_traced_curve` of tensors, by their ranks: a trace for numbers and for arrays would know no rank."""
        return collections.defaultdict(lambda: quiet_function(self._traced_curve, reduce_retracing=True))
