"""What a fit of a curve found: parameters by name, and the curve with its bands."""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.arguments import positive
from tfjac.graph import call_converted, quiet_function
from tfjac.jacobians import jacobian
from tfjac.optimizers.results.least_squares_result import LeastSquaresResult
from tfjac.optimizers.results.statistics import Statistics
from tfjac.types import Array, ArrayLike, Function, Nest, TensorLike


@dataclasses.dataclass(frozen=True, eq=False)
class Deviations:
    """The standard deviations of data.

    Attributes:
        scale: one number, an array of the shape of the data, or the Cholesky factor `[values, values]` of their
            covariance.
        correlated: whether it is the latter.
    """

    scale: np.ndarray
    correlated: bool

    def divide(self, values: Array) -> Array:
        """Return values of the shape of the data in units of their deviations, uncorrelated, as a vector."""
        if self.correlated:
            return np.linalg.solve(self.scale, values.ravel())
        return (values / self.scale).ravel()

    def of_each(self, shape: Sequence[int]) -> Array:
        """Return the standard deviation of each of the data, which are of `shape`."""
        return np.linalg.norm(self.scale, axis=1).reshape(shape) if self.correlated else self.scale


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class CurveFitResult(LeastSquaresResult):
    """The result of `curve_fit`, a `LeastSquaresResult` with `x` `[p]`; it unpacks to `popt, pcov`.

    Attributes:
        f: the function that was fitted.
        xdata, ydata: the data, as they were fitted.
        sigma: `Deviations` of the data.
        absolute_sigma: whether these are meant as they are.
    """

    f: Callable
    xdata: Any
    ydata: np.ndarray
    sigma: "Deviations"
    absolute_sigma: bool

    @classmethod
    def of_fit(
        cls,
        result: LeastSquaresResult,
        names: Sequence[str],
        f: Function,
        xdata: Any,
        ydata: Array,
        sigma: Deviations,
        absolute_sigma: bool,
    ) -> "CurveFitResult":
        """Return the result of a fit from that of the minimisation."""
        fields = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
        fields["names"] = tuple(names)
        return cls(**fields, f=f, xdata=xdata, ydata=ydata, sigma=sigma, absolute_sigma=bool(absolute_sigma))

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
        """The covariance of the parameters `[p, p]`; infinite, with a warning, where it cannot be estimated."""
        try:
            return self.covariance()
        except ValueError as error:
            warnings.warn(f"tfjac.curve_fit: {error}", stacklevel=3)
            return np.full([self.x.size, self.x.size], np.inf)

    def __iter__(self) -> Iterator[Array]:
        return iter((self.popt, self.pcov))

    # -------------------------------------------------------------- statistics

    @functools.cached_property
    def statistics(self) -> Statistics:
        """The `Statistics` of the fit; with `absolute_sigma`, the variance of a residual is one."""
        return self._statistics(self.absolute_sigma)

    def r_squared(self, observed: ArrayLike | None = None) -> float:
        """Return R², which part of the variance of the data is explained, data weighted as they were in the fit."""
        if observed is not None:
            return super().r_squared(observed)
        values, ones = self.sigma.divide(self.ydata), self.sigma.divide(np.ones_like(self.ydata))
        mean = (ones @ values) / (ones @ ones)
        return 1 - self.statistics.chi_square / np.sum(np.square(values - mean * ones))

    # -------------------------------------------------------------- the curve

    def predict(self, x: Nest[TensorLike] | None = None) -> Array:
        """Return f(x, *parameters), NumPy; at the data where `x` is left out."""
        return self._curve(self.xdata if x is None else _like(x, self.xdata), tf.constant(self.x))[0].numpy()

    def confidence_band(self, x: Nest[TensorLike] | None = None, level: float = 0.95) -> tuple[Array, Array]:
        """Return the lower and the upper end of the band that holds the true curve at `x`, in a fraction `level`."""
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
            deviations = self.sigma.of_each(self.ydata.shape)
            sigma = deviations if x is None else np.sqrt(np.mean(np.square(deviations)))
        return self._band(x, level, self.statistics.variance * np.square(sigma))

    def _band(self, x, level, variance):
        values, slopes = self._curve(self.xdata if x is None else _like(x, self.xdata), tf.constant(self.x))
        spread = np.einsum("...i,ij,...j", slopes.numpy(), self.covariance(), slopes.numpy()) + variance
        reach = self.statistics.quantile(positive("level", level, below=1)) * np.sqrt(spread)
        return values.numpy() - reach, values.numpy() + reach

    @functools.cached_property
    def _curve(self):
        """A function of x and the parameters, to the curve and its derivatives `[…, p]`."""

        def curve(x, parameters):
            values = tf.convert_to_tensor(call_converted(self.f, x, *tf.unstack(parameters)), tf.float64)
            return values, jacobian(values, parameters)

        return quiet_function(curve, reduce_retracing=True)


def _like(x, data):
    """Return `x` as what the function was fitted with: float64, but for tensors of integers."""
    keep = lambda item: tf.is_tensor(item) and not item.dtype.is_floating  # noqa: E731
    return tf.nest.map_structure(lambda item: item if keep(item) else tf.cast(item, tf.float64), x)
