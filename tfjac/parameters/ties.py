"""Parameters that follow from others: by an expression, or by a function of Python."""

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfjac.arguments import suggestion
from tfjac.graph import call_converted
from tfjac.parameters.expressions import CONSTANTS, parsed


def names_in(expr: Any) -> Mapping[str, int]:
    """Return the names of the parameters that a tie reads, each with its position in it."""
    return parsed(expr).names if isinstance(expr, str) else {name: k for k, name in enumerate(_arguments(expr))}


def _arguments(function):
    """Return the names of the arguments of a function, which are those of parameters."""
    try:
        listed = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        listed = ()
    plain = [each for each in listed if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    if not plain or len(plain) < len(listed):
        raise ValueError(
            "A tie is text, or a function whose arguments have the names of parameters: expr=lambda a, b: a + b. "
            f"Received: expr={function!r}"
        )
    return [each.name for each in plain if each.default is each.empty]


def function_of(expr: Any) -> Callable[[Mapping[str, Any]], Any]:
    """Return a tie as a function from a dict of tensors to a tensor."""
    return parsed(expr).function if isinstance(expr, str) else _by_name(expr, tuple(_arguments(expr)))


def _by_name(function, names):
    def called(values):
        value = as_float64(call_converted(function, **{name: values[name] for name in names}))
        if value.shape.rank != 0:
            raise ValueError(
                "A parameter is a number, and so is what a tie returns: tie one parameter to each entry. Received: a "
                f"tie of {', '.join(names)} that returns the shape {value.shape}"
            )
        return value

    return called


def as_float64(value):
    """Return a tensor or a number as a tensor of float64; a number keeps its digits, which `tf.cast` would round."""
    return tf.cast(value, tf.float64) if tf.is_tensor(value) else tf.constant(value, tf.float64)


def ordered(ties: Mapping[str, Any], known: Sequence[str]) -> list[str]:
    """Return the names of tied parameters so that each comes after those that it reads.

    Args:
        ties: dict from name to expression or function.
        known: the names of all parameters.

    Raises:
        ValueError: for names that there are not, and for ties that lead back to themselves.
    """
    done: list[str] = []
    for name in ties:
        _visit(name, ties, known, done, [])
    return done


def _visit(name, ties, known, done, above):
    if name in done or name not in ties:
        return
    if name in above:
        circle = " → ".join([*above[above.index(name) :], name])
        raise ValueError(f"Ties lead back to where they began: leave one of them out. Received: {circle}")
    for other, position in names_in(ties[name]).items():
        if other not in known:
            near = suggestion(other, [*known, *CONSTANTS])
            shown = repr(ties[name]) if isinstance(ties[name], str) else "a function"
            raise ValueError(
                f"The tie of {name!r} reads {other!r}, and there is no such parameter: add it, or mend the name.{near} "
                f"Received: {name} = {shown} with {other!r} at position {position}; parameters {', '.join(known)}"
            )
        _visit(other, ties, known, done, [*above, name])
    done.append(name)


def evaluator(independent: Sequence[str], ties: Sequence[tuple[str, Callable]]) -> Callable[[Sequence[Any]], dict]:
    """Return a function from the values of the independent parameters to a dict of all of them.

    Args:
        independent: names.
        ties: pairs of a name and its function, in an order in which they can be evaluated.
    """
    independent, ties = tuple(independent), tuple(ties)

    def named(values):
        known = dict(zip(independent, values))
        for name, function in ties:
            known[name] = function(known)
        return known

    return named


def renamed(expr: Any, new: Mapping[str, str]) -> Any:
    """Return a tie that reads other names: those of `new` in the place of its keys."""
    if isinstance(expr, str):
        tree = ast.parse(expr.strip(), mode="eval")
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                node.id = new.get(node.id, node.id)
        return ast.unparse(tree)
    names = _arguments(expr)

    def called(**values):
        return call_converted(expr, **{name: values[new.get(name, name)] for name in names})

    kind = inspect.Parameter.KEYWORD_ONLY
    called.__signature__ = inspect.Signature([inspect.Parameter(new.get(name, name), kind) for name in names])
    called.__name__ = getattr(expr, "__name__", "a function")
    return called
