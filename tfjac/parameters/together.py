"""One fit of several data sets, of which each has parameters of its own, and all share some."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import call_converted
from tfjac.parameters.calling import names_taken
from tfjac.parameters.ties import renamed
from tfjac.types import ArrayLike, Function


def for_data_sets(parameters, count, shared):
    """Return the parameters of `count` data sets; see `Parameters.for_data_sets`.

    Args:
        parameters: `Parameters`, or a list of them, one for each data set.
        count: how many data sets there are.
        shared: names.
    """
    each_of = list(parameters) if isinstance(parameters, (list, tuple)) else [parameters] * count
    first = each_of[0]
    made = type(first)()
    for name in [name for name in first if name in _known(shared, first)]:
        made[name] = first[name]
    for number, given in enumerate(each_of, start=1):
        own = {name: f"{name}_{number}" for name in given if name not in shared}
        for name, new in own.items():
            fields = given[name].fields()
            if "expr" in fields:
                fields["expr"] = renamed(fields["expr"], own)
            made.add(new, **fields)
    return made


def _known(shared, parameters):
    """Return names, each of a parameter."""
    for name in shared:
        _ = parameters[name]
    return shared


def fit_together(
    f: Function,
    xdata: Sequence[ArrayLike],
    ydata: Sequence[ArrayLike],
    params: Any,
    shared: Sequence[str] = (),
    sigma: Any = None,
    **options: Any,
) -> Any:
    """Fit one function to several data sets at once, some of whose parameters are the same for all.

    Args:
        f: callable of x and of parameters by name, as for `curve_fit`; or a model.
        xdata, ydata: lists of arrays, one for each data set, of any lengths.
        params: `Parameters` of one data set, from which all start; or a list of them, one for each.
        shared: names of the parameters that are the same for all data sets.
        sigma: a number, or a list with the standard deviations of each data set.
        **options: of `least_squares`, and `n_starts` and `seed`.

    Returns:
        A `NamedFit`, with parameters `sigma_1`, `sigma_2`, … for each data set and those that are shared.

    Raises:
        ValueError, TypeError: for lists of other lengths, and as `least_squares`.
    """
    count = len(ydata)
    of_each = isinstance(sigma, (list, tuple)) or np.ndim(sigma) > 0  # a list may hold arrays of other lengths
    sigma = list(sigma) if of_each else [1.0 if sigma is None else sigma] * count
    given = params if isinstance(params, (list, tuple)) else [params] * count
    lengths = [len(each) for each in (xdata, ydata, given, sigma)]
    if not count or len(set(lengths)) > 1:
        raise ValueError(
            "Each data set has its x and y: lists of one length. Received: "
            f"{lengths[0]} xdata, {lengths[1]} ydata, {lengths[2]} params, {lengths[3]} sigma"
        )
    taken = names_taken(f, given[0].layout())
    joint, function = for_data_sets(given, count, shared), getattr(f, "function", f)

    def residuals(p, x, y, scale):
        left = []
        for k in range(count):
            values = {name: p[name if name in shared else f"{name}_{k + 1}"] for name in taken}
            curve = tf.cast(call_converted(function, x[k], **values), tf.float64)
            _check_shape(curve, y[k], k + 1)
            left.append((curve - y[k]) / scale[k])
        return left

    data = [[np.asarray(each, np.float64) for each in listed] for listed in (xdata, ydata, sigma)]
    _check_data(dict(zip(("xdata", "ydata", "sigma"), data)))
    return joint.fit_residuals(residuals, tuple(data), **options)


def _check_shape(curve, y, number):
    """Raise where f gives other than a number, or one for each y."""
    if curve.shape.rank != 0 and not curve.shape.is_compatible_with(y.shape):
        raise ValueError(
            "f(x, …) must have the shape of y: give x and y of one length. Received: data set "
            f"{number}, f of shape {curve.shape}, y of shape {y.shape}"
        )


def _check_data(data):
    """Raise for values that are not finite, and for deviations that are not positive, as `curve_fit` does."""
    for name, listed in data.items():
        for number, each in enumerate(listed, start=1):
            missing = int(np.sum(~np.isfinite(each)))
            if missing:
                raise ValueError(
                    f"{name} must be finite: leave the missing values out, of all that belongs to the data set. "
                    f"Received: {missing} values that are NaN or infinite in data set {number}"
                )
            if name == "sigma" and not np.all(each > 0):
                raise ValueError(f"sigma holds standard deviations, which are positive. Received: data set {number}")
