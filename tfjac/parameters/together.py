"""One fit of several data sets, of which each has parameters of its own, and all share some."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjac.arguments import check_eager
from tfjac.graph import call_converted
from tfjac.objective.curve import Curve, Model, ModelFailed
from tfjac.objective.curve_data import curve_data
from tfjac.parameters.calling import names_taken
from tfjac.parameters.fitting import fit_residuals
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
        sigma: a number, or a list with what each data set has: None, standard deviations, or a covariance matrix.
        **options: of `least_squares`, and `absolute_sigma`, `n_starts` and `seed`.

    Returns:
        A `NamedFit`, with parameters `sigma_1`, `sigma_2`, … for each data set and those that are shared.

    Raises:
        ValueError, TypeError: for lists of other lengths, and as `least_squares`.
    """
    check_eager("fit_together")
    count = len(ydata)
    given = params if isinstance(params, (list, tuple)) else [params] * count
    sigma = _of_each(sigma, count)
    lengths = [len(each) for each in (xdata, ydata, given, sigma)]
    if not count or len(set(lengths)) > 1:
        raise ValueError(
            "Each data set has its x and y: lists of one length. Received: "
            f"{lengths[0]} xdata, {lengths[1]} ydata, {lengths[2]} params, {lengths[3]} sigma"
        )
    taken = names_taken(f, given[0].layout())
    joint, function = for_data_sets(given, count, shared), getattr(f, "function", f)

    def by_order(x, *values):
        return call_converted(function, x, **dict(zip(taken, values)))

    def names_of(number):
        return [name if name in shared else f"{name}_{number}" for name in taken]

    curves = [_curve(by_order, *each) for each in zip(xdata, ydata, sigma, range(1, count + 1))]

    def fitted(curves):
        def residuals(p, *data):
            pairs = enumerate(zip(curves, data), start=1)
            return [curve.residuals([p[name] for name in names_of(k)], own) for k, (curve, own) in pairs]

        data, measurements = tuple(curve.data() for curve in curves), functools.partial(_measurements, curves)
        return fit_residuals(joint, residuals, data, measurements=measurements, **options)

    try:
        return fitted(curves)
    except ModelFailed:
        pass  # another error, or none, is what arrays lead to
    return fitted([curve.of_arrays() for curve in curves])


def _of_each(sigma, count):
    """Return the deviations of each data set, a list of them, or a number for all."""
    if isinstance(sigma, (list, tuple)):  # which may hold arrays of other lengths
        return list(sigma)
    return list(sigma) if np.ndim(sigma) else [sigma] * count


def _measurements(curves):
    """To which measurement each residual of all curves belongs; None where a covariance matrix mixes some."""
    found, count = [], 0
    for each in (curve.measurements() for curve in curves):
        if each is None:
            return None
        found.append(each + count)
        count += each.max() + 1
    return np.concatenate(found)


def _curve(function, x, y, sigma, number):
    """Return the `Curve` of one data set; what is wrong with it is said with its number."""
    try:
        return Curve.of(Model(function), *curve_data(x, y, sigma), label=f"data set {number}")
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error}, in data set {number}") from None
