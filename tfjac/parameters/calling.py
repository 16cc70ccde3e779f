"""How functions of users are given parameters by name, and what does not fit them."""

import inspect
import numbers
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfjac.arguments import suggestion
from tfjac.graph import call_converted
from tfjac.parameters.layout import Layout
from tfjac.parameters.parameter import no_such_parameter


class NamedValues(dict):
    """Tensors by the names of parameters; another name is refused with the one that may be meant."""

    def __missing__(self, name):
        raise KeyError(no_such_parameter(name, self))

    def valuesdict(self) -> dict[str, Any]:
        """Return a dict of them, as of `Parameters.valuesdict`."""
        return dict(self)


def names_taken(f: Callable, layout: Layout) -> tuple[str, ...]:
    """Return the names of the parameters that f(x, **parameters) is called with.

    Raises:
        TypeError, ValueError: where f needs a parameter that there is not, or takes none of a name that only f can use.
    """
    if not callable(f):
        raise TypeError(f"f must be a function f(x, a, b, …) of the data and of parameters by name. Received: f={f!r}")
    signature = inspect.signature(f)
    _, *listed = signature.parameters.values()
    by_name = [each for each in listed if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    accepted = [each.name for each in by_name]
    shown = f"{getattr(f, '__name__', type(f).__name__)}{signature}, parameters {', '.join(layout.names)}"
    for each in by_name:
        if each.default is each.empty and each.name not in layout.names:
            unused = [name for name in layout.names if name not in accepted]
            near = suggestion(each.name, unused)
            raise ValueError(
                f"f takes {each.name!r}, and there is no such parameter: params.add({each.name!r}, value).{near} "
                f"Received: {shown}"
            )
    if any(each.kind is each.VAR_KEYWORD for each in listed):
        return layout.names
    for name in layout.independent:
        if name not in accepted and name not in layout.read:
            near = suggestion(name, accepted)
            raise ValueError(
                f"f takes no {name!r}, and no tie reads it: del params[{name!r}], or give it to f.{near} "
                f"Received: {shown}"
            )
    return tuple(name for name in layout.names if name in accepted)


def curve_of(f: Callable, layout: Layout) -> Callable:
    """Return f as a function of the data and of each independent parameter, as `curve_fit` calls it.

    It holds functions, names and numbers alone, so that `curve_fit` can tell whether it is the same as before.
    """
    named, taken = layout.named, names_taken(f, layout)
    function = getattr(f, "function", f)  # what a model computes by: a plain function

    def curve(x, *values):
        known = named(values)
        return call_converted(function, x, **{name: known[name] for name in taken})

    return curve


def residuals_of(residuals: Any, layout: Layout) -> Callable:
    """Return residuals(parameters, *args), or a list of such functions, as a function of `[k]` and a tuple of data."""
    functions = residuals if isinstance(residuals, (list, tuple)) else [residuals]
    for each in functions:
        if not callable(each):
            raise TypeError(
                "With Parameters, residuals is a function that is given them by name, and args after that: "
                f"lambda p, x, y: p['a'] * x - y. Received: residuals={each!r}"
            )
    functions, named = tuple(functions), layout.named

    def by_name(values, data):
        known = NamedValues(named(tf.unstack(values)))
        found = [call_converted(function, known, *data) for function in functions]
        return found if len(found) > 1 else found[0]

    return by_name


def arguments_of(f):
    """Return a dict from the arguments of f that are parameters to their defaults, None where there are none."""
    if not callable(f):
        raise TypeError(f"A model is made of a function f(x, a, b, …). Received: {f!r}")
    _, *listed = inspect.signature(f).parameters.values()
    found = {}
    for each in listed:
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.POSITIONAL_ONLY):
            raise ValueError(
                "The parameters of a model are the arguments of its function after x, each with a name. "
                f"Received: {getattr(f, '__name__', f)}{inspect.signature(f)}"
            )
        if each.default is each.empty:
            found[each.name] = None
        elif isinstance(each.default, numbers.Real) and not isinstance(each.default, bool):
            found[each.name] = float(each.default)
    if not found:
        raise ValueError(f"A model has at least one parameter. Received: {inspect.signature(f)}")
    return found
