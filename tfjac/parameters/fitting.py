"""`curve_fit` and `least_squares` for parameters that have names."""

import dataclasses
import warnings
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.arguments import positive_integer
from tfjac.graph import KeptVariables
from tfjac.optimizers import curve_fit, least_squares
from tfjac.parameters.calling import curve_of, residuals_of
from tfjac.parameters.named_fit import NamedFit
from tfjac.parameters.refits import Refits
from tfjac.parameters.starts import MultiStart

_INSTEAD = {
    "bounds": "give each parameter its min and max",
    "fixed": "set vary=False for a parameter",
    "prior": "give each parameter its prior=(mean, standard deviation)",
    "equality": "tie one parameter to the others by expr=",
    "manifolds": "pass variables instead of Parameters",
    "batch_dims": "many fits of one curve are tfjac.parameters.fit_many, other ones are for variables [fits, p]; "
    "several data sets with shared parameters are for tfjac.parameters.fit_together",
    "chunk_size": "it is for batch_dims=1",
    "devices": "it is for batch_dims=1",
    "full_output": "all of it is in the result",
}
"""Options that have no meaning where parameters have names."""


def fit_curve(parameters, f, xdata, ydata, n_starts=None, seed=0, **options: Any):
    """Return the `NamedFit` of f(xdata, **parameters) to ydata; the arguments are those of `curve_fit`."""
    _refuse(options)
    layout = parameters.layout()
    curve = curve_of(f, layout)
    given = _conditions(layout) | options

    def fitted(start):
        found = curve_fit(curve, xdata, ydata, p0=start, **given)
        return dataclasses.replace(found, names=layout.independent)

    def refits(found):
        curve = found.curve

        def residuals(values, data):
            return curve.residuals(tf.unstack(values), data)

        return Refits(layout, residuals, curve.data(), options, curve.measurements)

    found = _best(parameters, layout, fitted, refits, n_starts, seed, f)
    if found.fit.success and not found.success:
        warnings.warn(f"tfjac.curve_fit: {found.message} Received: {found.values}", stacklevel=4)
    return found


def fit_residuals(
    parameters, residuals, args=(), n_starts=None, seed=0, absolute_sigma=False, measurements=None, **options: Any
):
    """Return the `NamedFit` that minimises ½‖residuals(parameters, *args)‖²; other arguments as of `least_squares`.

    Args:
        absolute_sigma: whether the residuals are in units of their standard deviations.
        measurements: as of `Refits`.
    """
    _refuse(options)
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"args must be a tuple of what residuals is called with. Received: args={args!r}")
    if not tf.executing_eagerly():
        raise ValueError(
            "Parameters are for calls outside of a tf.function: use variables there. Received: a call in a graph"
        )
    layout = parameters.layout()
    function = residuals_of(residuals, layout)
    given = _conditions(layout) | options

    def fitted(start):
        variable = _variables.of_size(layout.size)
        variable.assign(start)
        found = least_squares(function, variable, args=(tuple(args),), **given)
        return dataclasses.replace(found, names=tuple(layout.independent), absolute_sigma=bool(absolute_sigma))

    def refits(found):
        return Refits(layout, function, tuple(args), options | {"absolute_sigma": absolute_sigma}, measurements)

    return _best(parameters, layout, fitted, refits, n_starts, seed)


def _conditions(layout):
    """Return the bounds, fixed parameters and priors as options of `least_squares`."""
    given = {"bounds": layout.bounds, "prior": layout.prior, "fixed": layout.fixed if layout.fixed.any() else None}
    return {name: each for name, each in given.items() if each is not None}


def _best(parameters, layout, fitted, refits, n_starts, seed, f=None):
    """Return the fit from the values given, or the best of those from `n_starts` starts, drawn within bounds.

    Args:
        fitted: function from values `[k]` to a result.
        refits: function from a result to its `Refits`.
    """
    if n_starts is None:
        found = fitted(layout.start)
        return NamedFit(parameters, layout, found, refits(found), f)
    count = positive_integer("n_starts", n_starts)
    with warnings.catch_warnings():  # it is not the last word
        warnings.simplefilter("ignore")
        first = fitted(layout.start)
    several = MultiStart.of(refits(first), count, seed)
    found = first if several.best is None else fitted(np.clip(several.best, layout.lower, layout.upper))
    if not found.cost <= first.cost:
        found = first
    return NamedFit(parameters, layout, found, refits(found), f, several)


def _refuse(options):
    for name, instead in _INSTEAD.items():
        value = options.pop(name, None)
        if value is not None and value is not False and not (isinstance(value, int) and value == 0):
            raise TypeError(f"With Parameters, there is no {name}: {instead}. Received: {name}={value!r}")


_variables = KeptVariables()
