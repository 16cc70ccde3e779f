"""What a fit of a curve found: parameters by name, and the curve with its bands."""

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac._warn import warn
from tfjac.arguments import check_eager, positive
from tfjac.graph import asks_for_values, call_converted, quiet_function
from tfjac.jacobians import jacobian
from tfjac.optimizers.results.least_squares_result import LeastSquaresResult
from tfjac.optimizers.results.statistics import Statistics
from tfjac.optimizers.statuses import Status
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


_UNPACKED = ("popt", "pcov", "infodict", "mesg", "ier")
"""What the result unpacks to, in SciPy's words."""

_MINPACK = {
    Status.COST_TOLERANCE: 1,
    Status.STEP_TOLERANCE: 2,
    Status.GRADIENT_TOLERANCE: 4,
    Status.MAX_STEPS: 5,
}


_NO_TENSOR = (
    "f must return a tensor, computed from the parameters by TensorFlow's functions (tf.exp, not np.exp). What "
    "TensorFlow cannot compute, tfjac.external calls, with a gradient by differences or of your own."
)


class ModelFailed(Exception):
    """A model raised the error that is the cause of this one, given tensors."""


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """A function of data and of each parameter, and in which form it is given the data.

    Attributes:
        f: callable.
        takes_arrays: whether it is given NumPy arrays, which are constants of a graph, rather than tensors.
    """

    f: Callable
    takes_arrays: bool = False

    def data(self, x: Any) -> Any:
        """Return a nest of arrays, tensors and others as what `f` is given."""
        return x if self.takes_arrays else tf.nest.map_structure(_as_tensor, x)

    def __call__(self, x: Any, parameters: Sequence[Any]) -> Any:
        """Return f(x, *parameters), a tensor.

        Args:
            x: what `data` returned.
            parameters: list of scalars.

        Raises:
            ModelFailed: if it fails given tensors; given arrays, the user's error is raised as it is.
            TypeError: for anything but a tensor.
        """
        try:
            values = call_converted(self.f, x, *parameters)
        except Exception as error:
            if not self.takes_arrays:
                raise ModelFailed(str(error)) from error
            if asks_for_values(error):
                raise TypeError(f"{_NO_TENSOR} Received: {type(error).__name__}: {error}") from error
            raise
        if not tf.is_tensor(values) and not isinstance(values, tf.Variable):
            raise TypeError(f"{_NO_TENSOR} Received: {values!r} of type {type(values).__name__}")
        return tf.cast(values, tf.float64)


def arrays_of(data):
    """Return a nest of numbers as one of arrays and tensors of float64; what holds no numbers stays as it is."""
    if isinstance(data, dict):
        return {key: arrays_of(each) for key, each in data.items()}
    found = data if isinstance(data, tuple) else _as_float64(data)
    if isinstance(found, (list, tuple)):
        return tf.nest.pack_sequence_as(found, [_as_float64(each) for each in tf.nest.flatten(found)])
    return found


def _as_float64(item):
    if isinstance(item, (tf.Tensor, tf.Variable)):
        return tf.cast(item, tf.float64) if item.dtype.is_floating else item
    try:
        values = np.asarray(item)
        if values.dtype.kind == "O" and values.ndim:  # of numbers, as a column of a table of mixed types is
            values = values.astype(np.float64)
    except (TypeError, ValueError):  # of other lengths, or of no numbers at all
        return item
    return values.astype(np.float64) if values.dtype.kind in "biuf" else item


def _as_tensor(item):
    return tf.constant(item, tf.float64) if isinstance(item, np.ndarray) and item.dtype.kind == "f" else item


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class CurveFitResult(LeastSquaresResult):
    """The result of `curve_fit`, a `LeastSquaresResult` with `x` `[p]`; it unpacks to `popt, pcov`.

    With `full_output` it unpacks to `popt, pcov, infodict, mesg, ier`, as SciPy's does. It can be indexed likewise.

    Attributes:
        xdata, ydata: the data, as they were fitted.
        sigma: `Deviations` of the data.
        absolute_sigma: whether these are meant as they are.
        full_output: whether it unpacks to all five.
    """

    xdata: Any
    ydata: np.ndarray
    sigma: "Deviations"
    absolute_sigma: bool
    full_output: bool
    _model: Model

    _may_be_masked = False  # each of the data is a measurement, also one that is met exactly

    @classmethod
    def of_fit(
        cls,
        result: LeastSquaresResult,
        names: Sequence[str],
        model: Model,
        xdata: Any,
        ydata: Array,
        sigma: Deviations,
        absolute_sigma: bool,
        full_output: bool,
    ) -> "CurveFitResult":
        """Return the result of a fit from that of the minimisation."""
        fields = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
        fields["names"] = tuple(names)
        data, flags = (xdata, ydata, sigma), (bool(absolute_sigma), bool(full_output))
        return cls(
            **fields,
            **dict(zip(("xdata", "ydata", "sigma", "absolute_sigma", "full_output"), (*data, *flags))),
            _model=model,
        )

    @property
    def f(self) -> Function:
        """The function that was fitted."""
        return self._model.f

    @property
    def takes_arrays(self) -> bool:
        """Whether `f` was given the data as NumPy arrays, since it fails with tensors."""
        return self._model.takes_arrays

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
        names = _UNPACKED[: len(self)][index]
        return getattr(self, names) if isinstance(names, str) else tuple(getattr(self, name) for name in names)

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
        return self._curve(x)[0]

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
        values, slopes = self._curve(x)
        spread = np.einsum("...i,ij,...j", slopes, self.covariance(), slopes) + variance
        reach = self.statistics.quantile(positive("level", level, below=1)) * np.sqrt(spread)
        return values - reach, values + reach

    def _curve(self, x):
        """Return the curve at `x`, or at the data, and its derivatives `[…, p]`, NumPy."""
        check_eager("The curve of a fit")
        given, parameters = self._model.data(self.xdata if x is None else arrays_of(x)), tf.constant(self.x)
        if self._model.takes_arrays:
            found = quiet_function(lambda parameters: self._traced_curve(given, parameters))(parameters)
        else:
            ranks = tuple(getattr(each, "shape", tf.TensorShape(None)).rank for each in tf.nest.flatten(given))
            found = self._functions[ranks](given, parameters)
        return tuple(each.numpy() for each in found)

    def _traced_curve(self, x, parameters):
        values = self._model(x, tf.unstack(parameters))
        return values, jacobian(values, parameters)

    @functools.cached_property
    def _functions(self):
        """`_traced_curve` of tensors, by their ranks: a trace for numbers and for arrays would know no rank."""
        return collections.defaultdict(lambda: quiet_function(self._traced_curve, reduce_retracing=True))
