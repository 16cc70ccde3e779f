"""The orders in which people give a model its data: x, y, parameters; or lmfit's y, parameters, x=x."""

import inspect
from typing import Any, NamedTuple

import numpy as np

from tfjac.arguments import as_numbers, described_value
from tfjac.optimizers import curve_fit, least_squares
from tfjac.parameters.parameters import Parameters

_NOT_GIVEN: Any = object()


class GivenData(NamedTuple):
    """What a model is fitted to.

    Attributes:
        x, y: the data.
        params: `Parameters`, or None.
    """

    x: Any
    y: Any
    params: Any

    @classmethod
    def of(cls, call, given, named, variables=("x",)):
        """Read the arguments of `fit` or `guess`; those that are read are taken out of `named`.

        Args:
            call: the name of the call, for errors.
            given: tuple of what has no name.
            named: dict.
            variables: what the function of the model calls x; of several, x is a tuple.

        Raises:
            TypeError: where x or y is missing, or given twice.
        """
        several = {}
        if len(variables) > 1 and all(name in named for name in variables):
            several = {"x": tuple(named.pop(name) for name in variables)}
        variable = variables[0] if len(variables) == 1 else "x"
        names = {name: (named | several).get(name, _NOT_GIVEN) for name in {"x", variable, "y", "data", "params"}}
        for name in names:
            named.pop(name, None)
        found = {name: value for name, value in names.items() if value is not _NOT_GIVEN}
        rest = list(given)
        x = [found.pop(name) for name in dict.fromkeys(("x", variable)) if name in found]
        if x and "y" in found and rest and not isinstance(rest[0], Parameters):  # lmfit's models of two arrays
            x = [(x[0], found.pop("y"))]
        y = [found.pop(name) for name in ("y", "data") if name in found]
        x = x or ([rest.pop(0)] if rest else [])
        y = y or ([rest.pop(0)] if rest and not isinstance(rest[0], Parameters) else [])
        params = [found.pop("params")] if "params" in found else [rest.pop(0)] if rest else [None]
        if len(x) != 1 or len(y) != 1 or rest:
            raise TypeError(
                f"The data are {call}(x, y, params), or in lmfit's order {call}(y, params, x=x). Received: "
                f"{len(given)} arguments without a name, and {', '.join(sorted(set(names) & _given(names))) or 'none'} "
                "with one"
            )
        if params[0] is not None and not isinstance(params[0], Parameters):
            raise TypeError(f"params must be Parameters. Received: {type(params[0]).__name__}")
        return cls(x[0], y[0], params[0])


def _given(names):
    return {name for name, value in names.items() if value is not _NOT_GIVEN}


_OPTIONS = {name for call in (curve_fit, least_squares) for name in inspect.signature(call).parameters}
"""What is an option of a fit, whatever parameters are called."""


def take_values(params, options):
    """Take the values of parameters out of a dict of options; return them by name."""
    return {name: options.pop(name) for name in params if name in options and name not in _OPTIONS}


def refuse_doubtful(params, options, variables):
    """Raise TypeError for `sigma=` and the like in lmfit's order, where it would be the parameter of this name."""
    if not {"x", *variables} & set(options) or ("y" in options and "y" not in variables):
        return
    for name in params:
        if name in options and name in _OPTIONS:
            raise TypeError(
                f"{name} is a parameter of this model, and an option of the fit: set the parameter by "
                f"params=model.guess(x, y, {name}=…); give the deviations of the data as weights=1/sigma, or in the "
                f"order fit(x, y, params, sigma=…). Received: {name}={described_value(options[name])}"
            )


def take_lmfits(options):
    """Put `sigma` and `absolute_sigma` into a dict of options, for lmfit's `weights` and `scale_covar`.

    Raises:
        TypeError: where both are given.
        ValueError: for weights that are not positive.
    """
    weights, is_scaled = options.pop("weights", None), options.pop("scale_covar", None)
    for old, new, value in (("weights", "sigma", weights), ("scale_covar", "absolute_sigma", is_scaled)):
        if value is not None and new in options:
            raise TypeError(f"{old} and {new} say the same: leave one of them out. Received: both")
    if weights is not None:
        weights = as_numbers("weights", weights)
        if not np.all(weights > 0):
            raise ValueError(
                "weights are 1/sigma, positive numbers: leave out, or mask, data that do not count. "
                f"Received: weights from {weights.min():.6g} to {weights.max():.6g}"
            )
        options["sigma"] = 1 / weights
    if is_scaled is not None:
        options["absolute_sigma"] = not is_scaled
