"""Curves through data, with SciPy's conventions, for any function that TensorFlow computes."""

import inspect
import threading
import warnings
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import call_converted
from tfjac.optimizers.fitting.least_squares import least_squares
from tfjac.optimizers.results.curve_fit_result import CurveFitResult, Deviations
from tfjac.types import Function, Nest, TensorLike


def curve_fit(
    f: Function,
    xdata: Nest[TensorLike],
    ydata: TensorLike,
    p0: TensorLike | None = None,
    sigma: TensorLike | None = None,
    absolute_sigma: bool = False,
    check_finite: bool = True,
    **options: Any,
) -> CurveFitResult:
    """Fit f(xdata, *parameters) to ydata by least squares: `popt, pcov = curve_fit(f, x, y)`, as in SciPy.

    All is computed in float64, and derivatives are exact. Called again with the same function and data of the same
    shapes, it takes milliseconds.

    Args:
        f: callable of xdata and of each parameter, a scalar; it returns the model's values, of the shape of ydata, by
            TensorFlow's functions.
        xdata: what `f` is called with first: an array, or a nest of them, in which numbers become float64.
        ydata: array of any shape.
        p0: the parameters to start from, a list or an array `[p]`; ones where left out.
        sigma: the standard deviations of ydata, of its shape or one number, or their covariance matrix
            `[values, values]`; ones where left out.
        absolute_sigma: whether `sigma` is meant as it is. If not, only the ratios of its elements count, and pcov is
            scaled so that the reduced chi-square is one.
        check_finite: whether to refuse data that hold NaN or infinities.
        **options: of `least_squares`, such as `max_steps` and `ftol`.

    Returns:
        A `CurveFitResult`, which unpacks to `popt` `[p]` and `pcov` `[p, p]`. Where the data do not determine all
        parameters `pcov` is infinite, with a warning.

    Raises:
        ValueError, TypeError: for arguments that do not fit together, and as `least_squares` does. Where no tolerance
            was met nothing is raised: a warning says so, and `status` says why.

    Example:
        >>> x = np.linspace(0.0, 4.0, 30)
        >>> fit = tfjac.curve_fit(lambda x, a, b: a * tf.exp(-b * x), x, 2.5 * np.exp(-1.3 * x), p0=[1.0, 1.0])
        >>> np.round(fit.popt, 6).tolist()
        [2.5, 1.3]
    """
    names = _parameter_names(f, p0)
    start = np.ones(len(names)) if p0 is None else np.atleast_1d(np.asarray(p0, np.float64)).ravel()
    x, y = _as_float64(xdata), np.asarray(ydata, np.float64)
    if check_finite:
        _check_finite(xdata=x, ydata=y)
    deviations = _deviations(sigma, y)
    parameters = _parameters(len(names))
    parameters.assign(start)

    def residuals(x, y, scale):
        difference = _model(f, x, tf.unstack(parameters), y.shape) - y
        if deviations.correlated:
            return tf.linalg.triangular_solve(scale, tf.reshape(difference, [-1, 1]))[:, 0]
        return difference / scale

    found = least_squares(residuals, parameters, args=(x, y, deviations.scale), **options)
    result = CurveFitResult.of_fit(found, names, f, x, y, deviations, absolute_sigma)
    if not result.success:
        warnings.warn(f"tfjac.curve_fit: {result.message} Received: status {result.status.name}", stacklevel=2)
    return result


def _parameter_names(f, p0):
    """Return what to call the parameters of `f`: its arguments after the first, as many as there are in `p0`."""
    if not callable(f):
        raise TypeError(f"f must be a function f(x, a, b, …) of the data and the parameters. Received: f={f!r}")
    count = None if p0 is None else np.size(p0)
    try:
        listed = list(inspect.signature(f).parameters.values())
    except ValueError:  # of a builtin, that does not say
        listed = []
    positional = [each.name for each in listed if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    variadic = not listed or any(each.kind is each.VAR_POSITIONAL for each in listed)
    if count is None and (variadic or len(positional) < 2):
        raise ValueError(
            f"The number of parameters does not follow from the arguments of f: pass p0. Received: f={f!r}, p0=None"
        )
    count = len(positional) - 1 if count is None else count
    if variadic:
        named = positional[1:][:count]
        return (*named, *(f"p{k}" for k in range(len(named), count)))
    if len(positional) - 1 < count:
        raise ValueError(
            "f is called with the data and one argument for each parameter. "
            f"Received: f of the arguments {positional}, p0 of {count} parameters"
        )
    return tuple(positional[1:][:count])


def _model(f, x, parameters, shape):
    """Return f(x, *parameters), of the shape of the data."""
    values = call_converted(f, x, *parameters)
    if not tf.is_tensor(values) and not isinstance(values, tf.Variable):
        raise TypeError(
            "f must return a tensor, computed from the parameters by TensorFlow's functions (tf.exp, not np.exp). "
            f"Received: {values!r} of type {type(values).__name__}"
        )
    if values.shape != shape and (values.shape.num_elements() or 0) > 1:
        raise ValueError(
            f"f must return one value for each of ydata. Received: values of {values.shape}, ydata of {shape}"
        )
    return tf.cast(values, tf.float64)


def _as_float64(data):
    """Return a nest of arrays and numbers as one of float64; tensors of integers, which may be indices, stay."""
    if isinstance(data, list):
        data = np.asarray(data)
    keep = lambda item: tf.is_tensor(item) and not item.dtype.is_floating  # noqa: E731
    return tf.nest.map_structure(lambda item: item if keep(item) else tf.cast(item, tf.float64), data)


def _check_finite(**arguments):
    for name, data in arguments.items():
        for item in tf.nest.flatten(data):
            values = np.asarray(item)
            if values.dtype.kind == "f" and not np.all(np.isfinite(values)):
                count = np.count_nonzero(~np.isfinite(values))
                raise ValueError(
                    f"{name} must be finite: leave the missing values out, of xdata and ydata alike. "
                    f"Received: {name} with {count} values that are NaN or infinite"
                )


def _deviations(sigma, y):
    """Return the `Deviations` of data `y` that the argument `sigma` says.

    Raises:
        ValueError: for another shape, or deviations that are not positive.
    """
    if sigma is None:
        return Deviations(np.ones([]), False)
    sigma = np.asarray(sigma, np.float64)
    if sigma.shape in (y.shape, ()):
        if not np.all(sigma > 0):
            raise ValueError(f"sigma holds standard deviations, which are positive. Received: sigma={sigma!r}")
        return Deviations(sigma, False)
    if sigma.shape == (y.size, y.size):
        try:
            return Deviations(np.linalg.cholesky(sigma), True)
        except np.linalg.LinAlgError:
            raise ValueError(
                f"sigma, a covariance matrix, must be positive definite. Received: sigma={sigma!r}"
            ) from None
    raise ValueError(
        "sigma has the shape of ydata (standard deviations), or is a matrix of one row and column for each value "
        f"(their covariance). Received: sigma of shape {sigma.shape}, ydata of shape {y.shape}"
    )


_kept = threading.local()


def _parameters(count):
    """Return a variable `[count]`, the same one in each call of a thread, so that graphs traced before are used again.

    No other thread sees it, and what it holds afterwards is nobody's business.
    """
    variables = _kept.__dict__.setdefault("variables", {})
    if count not in variables:
        with tf.init_scope():
            variables[count] = tf.Variable(tf.zeros([count], tf.float64), name="parameters")
    return variables[count]
