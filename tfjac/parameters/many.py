"""Many fits at once of a curve whose parameters have names."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.arguments import as_numbers, check_eager, positive
from tfjac.objective.curve import Curve, Model
from tfjac.objective.curve_data import curve_data
from tfjac.optimizers import BatchedLeastSquaresResult, Status, least_squares
from tfjac.parameters.calling import curve_of
from tfjac.parameters.layout import Layout
from tfjac.parameters.lmfit_names import OF_MANY_FITS, SaysNames
from tfjac.parameters.report import frame_of_fits
from tfjac.types import Array, ArrayLike, Function, Nest, TensorLike


class NamedFits(SaysNames):
    """The result of `fit_many`, by name. Printed, it is the summary of its `fit`.

    Attributes:
        fit: the `BatchedLeastSquaresResult` of the parameters that are not tied, `fit.x` `[B, k]`.
        names: tuple of the names of all parameters.
        values: dict from names to the values found, `[B]`.
        absolute_sigma: whether the deviations are meant as they are.
    """

    _lmfits = OF_MANY_FITS

    def __init__(self, layout: Layout, fit: BatchedLeastSquaresResult, absolute_sigma: bool) -> None:
        self.fit, self.names, self.absolute_sigma, self._layout = fit, layout.names, bool(absolute_sigma), layout
        self.values = {name: each.numpy() for name, each in layout.of_fits(tf.constant(fit.x)).items()}

    @property
    def status(self) -> Array:
        """`[B]`, integers, each a `Status`: why a fit stopped."""
        return self.fit.status

    @property
    def success(self) -> Array:
        """`[B]`, bool: whether a tolerance was met."""
        return self.fit.success

    @property
    def cost(self) -> Array:
        """`[B]`, F = ½‖r‖²."""
        return self.fit.cost

    def covariance(self) -> Array:
        """Return the covariances of all parameters `[B, parameters, parameters]`: G C Gᵀ, with C of those not tied.

        NaN for fits whose data do not determine all free parameters.
        """
        slopes = self._layout.derivatives_of_fits(self.fit.x)
        return slopes @ self.fit.covariance(self.absolute_sigma) @ slopes.swapaxes(1, 2)

    def standard_errors(self) -> dict[str, Array]:
        """Return a dict from names to standard errors `[B]`; zero for parameters that count as known."""
        errors = np.sqrt(np.maximum(np.diagonal(self.covariance(), axis1=1, axis2=2), 0))
        return dict(zip(self.names, errors.T))

    def confidence_intervals(self, level: float = 0.95) -> dict[str, Array]:
        """Return a dict from names to the ends of intervals by the linear model, `[B, 2]`.

        Args:
            level: a number between 0 and 1.
        """
        import scipy.stats

        tail = (1 + positive("level", level, below=1)) / 2
        freedom = np.maximum(self.fit.degrees_of_freedom, 1)
        reach = scipy.stats.norm.ppf(tail) if self.absolute_sigma else scipy.stats.t.ppf(tail, freedom)
        errors = self.standard_errors()
        return {
            name: np.stack([value - reach * errors[name], value + reach * errors[name]], axis=1)
            for name, value in self.values.items()
        }

    def to_dataframe(self) -> Any:
        """Return a `pandas.DataFrame`, a row for each fit: values, `NAME_stderr` beside them, and how it ended."""
        return frame_of_fits(self)

    def __repr__(self):
        return self.fit.summary()


def fit_many(
    f: Function,
    xdata: Nest[TensorLike],
    ydata: ArrayLike,
    params: Any,
    sigma: ArrayLike | None = None,
    absolute_sigma: bool = False,
    starts: Mapping[str, ArrayLike] | None = None,
    **options: Any,
) -> NamedFits:
    """Fit one curve to each row of `ydata` by itself, all at once.

    Args:
        f: callable of x and of parameters by name, as for `curve_fit`; or a model.
        xdata: what `f` is called with: an array, or a nest of them. One of the shape of `ydata` has a row for each fit;
            any other is the same for all.
        ydata: `[B, ...]`, a row for each fit. What a masked array masks does not count.
        params: `Parameters`, the same for all fits, without priors.
        sigma: standard deviations: a number, an array like a row, or `[B, ...]`.
        absolute_sigma: whether `sigma` is meant as it is.
        starts: dict from names to values to start from, `[B]` or a number, in place of those of `params`.
        **options: of `least_squares` with `batch_dims=1`, such as `loss` and `chunk_size`.

    Returns:
        `NamedFits`.

    Raises:
        ValueError, TypeError: for data that do not fit together, and as `least_squares`.
    """
    check_eager("fit_many")
    layout = params.layout()
    if layout.prior is not None:
        raise ValueError("Many fits at once have no priors: use bounds, or fit one at a time. Received: a prior")
    y, mask = np.ma.getdata(ydata), np.ma.getmaskarray(ydata)
    x, y, _, _ = curve_data(xdata, np.where(mask, 0, y) if mask.any() else y, None)
    if y.ndim < 2:
        raise ValueError(f"ydata has a row for each fit, [B, values]. Received: ydata of shape {y.shape}")
    scale = np.where(mask, np.inf, _deviations(sigma, y))
    curve = Curve.of(Model(curve_of(f, layout)), x, y, None)
    own = [isinstance(each, np.ndarray) and each.shape == y.shape for each in tf.nest.flatten(x) if curve.is_data(each)]

    def residuals(values, data):
        *tensors, y, scale = data
        shared = [each for each, is_own in zip(tensors, own) if not is_own]
        rows = [*(each for each, is_own in zip(tensors, own) if is_own), y]

        def one(given):
            values, rows, scale = given
            parts = iter(rows[:-1]), iter(shared)
            tensors = [next(parts[0] if is_own else parts[1]) for is_own in own]
            left = curve.residuals(tf.unstack(values), (*tensors, rows[-1], tf.ones([], tf.float64)))
            return left / (scale[..., None] if curve.model.is_complex else scale)

        return tf.vectorized_map(one, (values, rows, scale))

    *tensors, observed, _ = curve.data()
    variable = tf.Variable(_starts(layout, starts or {}, len(y)))
    given = {"bounds": layout.bounds, "fixed": np.tile(layout.fixed, [len(y), 1]) if layout.fixed.any() else None}
    given = {name: each for name, each in given.items() if each is not None} | options
    data = (*tensors, observed, tf.constant(scale))
    found = least_squares(residuals, variable, args=(data,), batch_dims=1, **given)
    status = np.where(np.isinf(scale).reshape([len(y), -1]).all(axis=1), int(Status.NO_RESIDUALS), found.status)
    return NamedFits(layout, dataclasses.replace(found, names=layout.independent, status=status), absolute_sigma)


def _deviations(sigma, y):
    """The standard deviations of all data, `[B, ...]`."""
    scale = np.ones([]) if sigma is None else as_numbers("sigma", sigma)
    if scale.shape not in ((), y.shape[1:], y.shape) or not np.all(scale > 0):
        raise ValueError(
            "sigma holds positive standard deviations: a number, an array like a row of ydata, or like ydata. "
            f"Received: sigma of shape {scale.shape}, ydata of shape {y.shape}"
        )
    return np.broadcast_to(scale, y.shape)


def _starts(layout, starts, count):
    """Where each fit starts, `[B, k]`, within bounds."""
    found = np.tile(layout.start, [count, 1])
    for name, value in starts.items():
        if name not in layout.independent:
            raise ValueError(
                "starts has values of parameters that are not tied. "
                f"Received: {name!r}, parameters {', '.join(layout.independent)}"
            )
        value = as_numbers(f"starts[{name!r}]", value)
        if value.shape not in ((), (count,)):
            raise ValueError(
                f"starts holds a number, or one for each fit, [{count}]. Received: {name!r} of shape {value.shape}"
            )
        found[:, layout.independent.index(name)] = value
    return np.clip(found, layout.lower, layout.upper)
