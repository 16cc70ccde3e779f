"""The arguments of `curve_fit`, those of SciPy among them: what they amount to here, or why there is no such thing."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tfjac.arguments import as_numbers, choice, suggestion
from tfjac.drive.options import Options
from tfjac.objective.conditions.bounds import Bounds
from tfjac.types import Array, Pair

_RENAMED = {"f_scale": "loss_scale", "maxfev": "max_steps", "max_nfev": "max_steps"}
"""What SciPy calls options of `least_squares`."""

_REFUSED = {
    "args": "take more arguments into f, as lambda x, a, b: f(x, a, b, more) does",
    "epsfcn": "leave it out: derivatives are exact, not differences",
    "diff_step": "leave it out: derivatives are exact, not differences",
    "Dfun": "leave it out: derivatives are exact; tf.custom_gradient gives f one by your own formula",
    "col_deriv": "leave it out: derivatives are exact; tf.custom_gradient gives f one by your own formula",
    "factor": "choose how steps are damped by damping instead",
    "diag": 'choose the scales of parameters by scaling: "more", "marquardt", "identity", or a Scaling',
    "tr_solver": "choose by solver instead",
    "tr_options": "choose by solver instead",
    "jac_sparsity": 'leave it out: it is found, see solver="sparse"',
    "workers": "leave it out: TensorFlow uses all cores",
    **dict.fromkeys(
        ("batch_dims", "chunk_size", "devices", "n_starts", "seed", "starts"),
        "give the parameters names for it, p0=tfjac.Parameters(a=1.0, b=1.0)",
    ),
}
"""What SciPy takes and what to do instead."""


_OPTIONS = [field.name for field in dataclasses.fields(Options)]
_OWN = ("p0", "sigma", "absolute_sigma", "check_finite", "bounds", "method", "jac", "full_output", "nan_policy")
"""Arguments that are no options of `least_squares`, for suggestions."""


# ------------------------------------------------------------------ options


def options_of(options: dict[str, Any], bounds: Any, method: str | None, jac: Any) -> dict[str, Any]:
    """Return the options of `least_squares` that SciPy's options amount to.

    Args:
        options: dict of what was given, in SciPy's words or in those of `least_squares`.
        bounds, method, jac: as of `curve_fit`.

    Raises:
        ValueError, TypeError: for what there is not, saying what to do instead.
    """
    for name, instead in _REFUSED.items():
        if name in options:
            raise TypeError(f"curve_fit has no {name}: {instead}. Received: {name}={options[name]!r}")
    for name, value in options.items():
        near = "" if name in _OPTIONS or name in _RENAMED else suggestion(name, _OWN)
        if near:
            raise TypeError(f"There is no such option.{near} Received: {name}={value!r}")
    given = {name: value for name, value in options.items() if value is not None}
    given = {name: value for name, value in given.items() if name != "maxfev" or value != 0}  # MINPACK's own choice
    options = {_RENAMED.get(name, name): value for name, value in given.items()}
    choice("method", method, (None, "lm", "trf", "dogbox"))
    if jac not in (None, "2-point", "3-point", "cs"):
        raise TypeError(
            "jac is not needed, as derivatives of f are exact: leave it out; tf.custom_gradient gives f one by your "
            f"own formula. Received: jac={jac!r}"
        )
    if isinstance(options.get("loss"), str) and options["loss"] == "linear":
        del options["loss"]
    _map_scales(options)
    bounds = _pair_of_bounds(bounds)
    if bounds is not None:
        if method == "lm":
            raise ValueError(
                'method="lm" is without bounds, as in SciPy: leave method out. '
                f'Received: method="lm", bounds={bounds!r}'
            )
        options["bounds"] = bounds
    return options


def _map_scales(options: dict[str, Any]) -> None:
    """Turn SciPy's `x_scale` among the options into `scaling`."""
    if "x_scale" not in options:
        return
    scale = options.pop("x_scale")
    by_jacobian = isinstance(scale, str) and scale == "jac"
    if "scaling" in options or not (by_jacobian or (np.isscalar(scale) and not isinstance(scale, str))):
        raise TypeError(
            "Scales of parameters are found from the derivatives, x_scale='jac' in SciPy: leave x_scale out, or choose "
            f'by scaling: "more", "marquardt", "identity", or a Scaling. Received: x_scale={scale!r}'
        )
    options["scaling"] = "more" if by_jacobian else "identity"


def _pair_of_bounds(bounds: Any) -> Pair | None:
    """Return bounds as a pair; None where there are none."""
    if bounds is not None and hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        bounds = bounds.lb, bounds.ub
    if bounds is None:
        return None
    if not isinstance(bounds, (tuple, list, np.ndarray)) or len(bounds) != 2:
        raise ValueError(
            "bounds is a pair (lower, upper), each None, a number, or a list with one for each parameter; of a pair "
            f"for each parameter, zip(*bounds) makes the two. Received: bounds={bounds!r}"
        )
    lower, upper = bounds
    free = (each is None or (np.isscalar(each) and np.isinf(each)) for each in (lower, upper))
    return None if all(free) else (lower, upper)


# ------------------------------------------------------------------ parameters


def parameter_names(f: Callable, p0: Any) -> tuple[str, ...]:
    """Return what to call the parameters of `f`: its arguments after the first, as many as there are in `p0`."""
    if not callable(f):
        raise TypeError(f"f must be a function f(x, a, b, …) of the data and the parameters. Received: f={f!r}")
    if isinstance(p0, Mapping):
        raise TypeError(f"p0 is a list of numbers, or tfjac.Parameters(p0) for names. Received: p0={p0!r}")
    count = None if p0 is None else np.size(p0)
    try:
        signature = inspect.signature(f)
    except ValueError:  # of a builtin, that does not say
        signature = None
    listed = [] if signature is None else list(signature.parameters.values())
    positional = [each.name for each in listed if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    variadic = not listed or any(each.kind is each.VAR_POSITIONAL for each in listed)
    if count is None and (variadic or len(positional) < 2):
        raise ValueError(
            f"The number of parameters does not follow from the arguments of f: pass p0. Received: f={f!r}, p0=None"
        )
    count = len(positional) - 1 if count is None else count
    _check_called(f, signature, count)
    named = positional[1:][:count]
    return (*named, *(f"p{k}" for k in range(len(named), count)))


def _check_called(f: Callable, signature: Any, count: int) -> None:
    try:
        if signature is not None:
            signature.bind(None, *range(count))
    except TypeError as error:
        raise ValueError(
            "p0 has one number for each parameter: f is called with the data and one argument for each parameter. "
            f"Received: {getattr(f, '__name__', f)}{signature}, p0 of {count} parameters ({error})"
        ) from None


def start_within(bounds: Any, p0: Any, parameters: Any) -> Array:
    """Return where to start, `[p]`: p0, or where SciPy would, in the middle of bounds or one from a single bound.

    Args:
        bounds: None, or as of `least_squares`.
        p0: an array or None.
        parameters: the variable `[p]`.

    Raises:
        ValueError: for p0 that is not finite or not within bounds, or bounds that leave no parameter free.
    """
    start = np.ones(parameters.shape) if p0 is None else as_numbers("p0", p0).ravel()
    if not np.isfinite(start).all():
        raise ValueError(f"p0 must be finite, as steps begin there. Received: p0={start}")
    if bounds is None:
        return start
    limits = Bounds(parameters, bounds)
    lower, upper = limits.lower, limits.upper
    if (lower >= upper).all():
        raise ValueError(
            "bounds leave no parameter free to move: they are a pair (lower, upper); of a pair for each parameter, "
            f"zip(*bounds) makes the two. Received: lower bounds {lower}, upper bounds {upper}"
        )
    if p0 is None:
        below, above = np.isfinite(lower), np.isfinite(upper)
        with np.errstate(invalid="ignore"):
            start = np.select([below & above, below, above], [0.5 * (lower + upper), lower + 1, upper - 1], start)
    elif ((start < lower) | (start > upper)).any():
        raise ValueError(f"p0 must be within bounds. Received: p0={start}, lower bounds {lower}, upper bounds {upper}")
    return start


def best_of_linear(residuals: Callable[[Array], Array], start: Array) -> Array:
    """Return where to start, `[p]`: parameters that residuals are linear in together fit best beside the others.

    So a fit does not depend on the units of y: from ones, data of some thousands are a long way off, on which rates run
    off. Linear is what second differences show, of steps of one: the first parameters for which they vanish, alone and
    with those before.

    Args:
        residuals: function from parameters `[p]` to residuals `[rows]`, NumPy.
        start: `[p]`, which the others keep; so do all if what is found is not finite.

    Cost: some p²/2 + 2p calls of `residuals`, and linear least squares.
    """
    steps = np.eye(start.size)

    def change(step: Array) -> Array:
        return residuals(start + step) - first

    def vanishes(difference: Array, size: Array) -> bool:
        return bool(np.max(np.abs(difference), initial=0) <= _LINEAR * np.max(np.abs(first) + np.abs(size), initial=0))

    with np.errstate(all="ignore"):
        first = residuals(start)
        columns: dict[int, Array] = {}
        for k, step in enumerate(steps):
            column, longer = change(step), change(2.5 * step)
            others = ((change(step + steps[j]), columns[j] + column) for j in columns)
            if vanishes(longer - 2.5 * column, longer) and all(vanishes(both - two, both) for both, two in others):
                columns[k] = column
        matrix = np.stack([columns[k] for k in columns], axis=1) if columns else np.zeros((first.size, 0))
        if not (columns and np.isfinite(matrix).all() and np.isfinite(first).all()):
            return start
        found = start.copy()
        found[list(columns)] -= np.linalg.lstsq(matrix, first, rcond=_LINEAR)[0]
    return found if np.isfinite(found).all() else start


_LINEAR = 1e-9
"""Part of residuals up to which second differences are rounding, and of columns of J up to which they are alike."""


def check_enough(y: Array, parameters: Any, method: str | None, options: dict[str, Any]) -> None:
    """Raise TypeError, as SciPy does, where there are fewer data than parameters and nothing else is known of these.

    Args:
        y: the data.
        parameters: the variable `[p]`.
        method: SciPy's; those with bounds take as few data as there are.
        options: dict of those of `least_squares`.
    """
    count, free = y.size * (2 if np.iscomplexobj(y) else 1), parameters.shape[0]
    others = {"bounds", "prior", "equality", "fixed"}
    if count < free and method in (None, "lm") and others.isdisjoint(options):
        raise TypeError(
            "The number of func parameters must not exceed the number of data points: give more data, fewer "
            'parameters, or a prior or bounds for what they leave open; method="trf" finds one of all solutions. '
            f"Received: {free} parameters, {count} data"
        )
