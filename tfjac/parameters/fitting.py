"""`curve_fit` and `least_squares` for parameters that have names."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.arguments import choice, described_value, positive_integer
from tfjac.graph import KeptVariables
from tfjac.optimizers import curve_fit, least_squares
from tfjac.parameters.calling import curve_of, residuals_of
from tfjac.parameters.layout import Layout
from tfjac.parameters.lmfit_names import refuse_lmfits
from tfjac.parameters.many import fit_many
from tfjac.parameters.named_fit import NamedFit
from tfjac.parameters.refits import Refits
from tfjac.parameters.starts import MultiStart

_INSTEAD = {
    "bounds": "give each parameter its min and max",
    "fixed": "set vary=False for a parameter",
    "prior": "give each parameter its prior=(mean, standard deviation)",
    "equality": "tie one parameter to the others by expr=",
    "manifolds": "pass variables instead of Parameters",
    "batch_dims": "many fits of one curve are curve_fit(f, x, rows, p0=params, batch_dims=1), other ones are for "
    "variables [fits, p]; "
    "several data sets with shared parameters are for tfjac.parameters.fit_together",
    "chunk_size": "it is for batch_dims=1",
    "devices": "it is for batch_dims=1",
    "full_output": "all of it is in the result",
}
"""Options that have no meaning where parameters have names."""


class Problem(NamedTuple):
    """A fit, as functions.

    Attributes:
        layout: `Layout`.
        fitted: function of values `[k]` and of further options to a result.
        refits: function of a result to its `Refits`.
        f: of a curve.
    """

    layout: Layout
    fitted: Callable[..., Any]
    refits: Callable[[Any], Refits]
    f: Any = None


def fit_curve(parameters, f, xdata, ydata, n_starts=None, seed=0, **options: Any):
    """Return the `NamedFit` of f(xdata, **parameters) to ydata; the arguments are those of `curve_fit`."""
    refuse_lmfits(options)
    if options.get("batch_dims"):
        return fit_many(f, xdata, ydata, parameters, **_of_many(options, n_starts))
    _refuse(options)
    found = _best(parameters, (of_curve, (f, xdata, ydata, options)), n_starts, seed)
    if found.fit.success and not found.success:
        warnings.warn(f"tfjac.curve_fit: {found.message} Received: {found.values}", stacklevel=4)
    return found


_SCIPYS = {"check_finite": True, "bounds": None, "method": None, "jac": None, "full_output": False, "nan_policy": None}
"""Options of `curve_fit` that many fits do not have, and what they are by default."""


def _of_many(options, n_starts):
    """Return options of `curve_fit` as those of `fit_many`.

    Raises:
        TypeError: for those that it does not have.
    """
    given = {name: each for name, each in options.items() if each is not None and name != "batch_dims"}
    choice("batch_dims", options["batch_dims"], (0, 1))
    for name, value in {"n_starts": n_starts, **{name: given.pop(name, _SCIPYS[name]) for name in _SCIPYS}}.items():
        if value is not None and value != _SCIPYS.get(name):
            raise TypeError(f"With batch_dims=1 there is no {name}: leave it out. Received: {described_value(value)}")
    return given


def of_curve(parameters, f, xdata, ydata, options):
    layout = parameters.layout()
    curve = curve_of(f, layout)
    given = _conditions(layout) | options

    def fitted(start, **more):
        found = curve_fit(curve, xdata, ydata, p0=start, **{**given, **more})
        return dataclasses.replace(found, names=layout.independent)

    def refits(found):
        curve = found.curve

        def residuals(values, data):
            return curve.residuals(tf.unstack(values), data)

        return Refits(layout, residuals, curve.data(), options, curve.measurements)

    return Problem(layout, fitted, refits, f)


def fit_residuals(
    parameters, residuals, args=(), n_starts=None, seed=0, absolute_sigma=False, measurements=None, **options: Any
):
    """Return the `NamedFit` that minimises ½‖residuals(parameters, *args)‖²; other arguments as of `least_squares`.

    Args:
        absolute_sigma: whether the residuals are in units of their standard deviations.
        measurements: as of `Refits`.
    """
    refuse_lmfits(options)
    _refuse(options)
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"args must be a tuple of what residuals is called with. Received: args={args!r}")
    if not tf.executing_eagerly():
        raise ValueError(
            "Parameters are for calls outside of a tf.function: use variables there. Received: a call in a graph"
        )
    source = of_residuals, (residuals, tuple(args), bool(absolute_sigma), measurements, options)
    return _best(parameters, source, n_starts, seed)


def of_residuals(parameters, residuals, args, absolute_sigma, measurements, options):
    layout = parameters.layout()
    function = residuals_of(residuals, layout)
    given = _conditions(layout) | options

    def fitted(start, **more):
        variable = _variables.of_size(layout.size)
        variable.assign(start)
        found = least_squares(function, variable, args=(args,), **{**given, **more})
        return dataclasses.replace(found, names=tuple(layout.independent), absolute_sigma=absolute_sigma)

    def refits(found):
        return Refits(layout, function, args, options | {"absolute_sigma": absolute_sigma}, measurements)

    return Problem(layout, fitted, refits)


def _conditions(layout):
    """Return the bounds, fixed parameters and priors as options of `least_squares`."""
    given = {"bounds": layout.bounds, "prior": layout.prior, "fixed": layout.fixed if layout.fixed.any() else None}
    return {name: each for name, each in given.items() if each is not None}


def _best(parameters, source, n_starts, seed):
    """Return the fit from the values given, or the best of those from `n_starts` starts.

    Args:
        source: a function that returns the `Problem` of parameters, and its arguments after these.
    """
    make, arguments = source
    problem = make(parameters, *arguments)
    layout, several = problem.layout, None
    if n_starts is None:
        found = problem.fitted(layout.start)
    else:
        count = positive_integer("n_starts", n_starts)
        with warnings.catch_warnings():  # it is not the last word
            warnings.simplefilter("ignore")
            found = problem.fitted(layout.start)
        several = MultiStart.of(problem.refits(found), count, seed)
        if several.best is not None:
            other = problem.fitted(np.clip(several.best, layout.lower, layout.upper))
            found = other if other.cost <= found.cost or not np.isfinite(found.cost) else found
    return NamedFit(parameters, layout, found, problem.refits(found), problem.f, several, source)


def _refuse(options):
    for name, instead in _INSTEAD.items():
        value = options.pop(name, None)
        if value is not None and value is not False and not (isinstance(value, int) and value == 0):
            raise TypeError(f"With Parameters, there is no {name}: {instead}. Received: {name}={value!r}")


_variables = KeptVariables()
