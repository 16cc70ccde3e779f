"""What models are made with: their functions as plain closures, and the data that they are guessed from."""

import inspect

import numpy as np
import tensorflow as tf

from tfjac.arguments import as_numbers
from tfjac.graph import call_converted

OPERATIONS = {"+": tf.add, "-": tf.subtract, "*": tf.multiply, "/": tf.divide}


def numbers_of(x, y):
    """Return the data as arrays `[n]` without what is masked, in the order of x; a tuple x stays one, as it is."""
    several = [_like(each, y) for each in (x if isinstance(x, tuple) else [x])]
    masks = [np.ma.getmaskarray(each).ravel() for each in (*several, y) if np.size(each) == np.size(y)]
    kept = ~np.logical_or.reduce(masks) if len(masks) == len(several) + 1 else ...
    *several, y = (
        as_numbers(name, each, masked_too=True, complex_too=name == "y").ravel()[kept]
        for name, each in (*(("x", each) for each in several), ("y", y))
    )
    if not y.size or any(each.size != y.size for each in several):
        raise ValueError(f"x and y have one length. Received: {several[0].size} and {y.size} values")
    if not all(np.isfinite(each).all() for each in (*several, y)):
        raise ValueError("x and y must be finite: leave the missing values out. Received: NaN or infinite values")
    if isinstance(x, tuple):
        return tuple(several), y
    order = np.argsort(several[0])
    return several[0][order], y[order]


def _like(x, y):
    """Return x, or where it is an axis of a grid, `[h, 1]` or `[1, w]`, the whole of it."""
    try:
        return np.broadcast_to(x, np.shape(y)) if np.ndim(x) == np.ndim(y) and np.size(x) != np.size(y) else x
    except ValueError:
        return x


def as_tensor(x):
    """Return numbers, or a tuple of them, as tensors of float64; all else as it is, such as tensors of integers."""
    if isinstance(x, tuple):
        return tuple(map(as_tensor, x))
    if any(map(tf.is_tensor, tf.nest.flatten(x))):  # NumPy cannot be asked about one of a graph
        x = tf.convert_to_tensor(x)
        return tf.cast(x, tf.float64) if x.dtype.is_floating else x
    return tf.constant(x, tf.float64) if np.asarray(x).dtype.kind in "biuf" else x


def of_data(f, names):
    """Return f with its data first, and a tuple of what it calls them.

    Args:
        f: function.
        names: of the arguments that are data; None for the first.

    Raises:
        ValueError, TypeError: for names that f does not take.
    """
    if not callable(f):
        raise TypeError(f"A model is made of a function f(x, a, b, …). Received: {f!r}")
    taken = inspect.signature(f).parameters
    first = next(iter(taken), "x")
    names = (first,) if names is None else (names,) if isinstance(names, str) else tuple(names)
    if names == (first,):
        return f, names
    unknown = [name for name in names if name not in taken]
    if unknown or not names or len(set(names)) < len(names):
        raise ValueError(
            "independent_vars are names of arguments of the function, each once. "
            f"Received: independent_vars={list(names)}, {getattr(f, '__name__', f)}{inspect.signature(f)}"
        )

    def of_first(x, **values):
        data = x if len(names) > 1 else (x,)
        return call_converted(f, **dict(zip(names, data)), **values)

    data = inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY)
    rest = [each.replace(kind=each.KEYWORD_ONLY) for name, each in taken.items() if name not in names]
    of_first.__signature__ = inspect.Signature([data, *rest])
    of_first.__name__ = getattr(f, "__name__", type(f).__name__)
    return of_first, names


def prefixed(f, arguments, names):
    """Return f as a function of x and of parameters by their full names; a plain closure."""

    def function(x, **values):
        return call_converted(f, x, **{argument: values[name] for argument, name in zip(arguments, names)})

    return function


def joined(operation, left, left_names, right, right_names):
    """Return an operation of two functions of x and of parameters by their full names; a plain closure."""

    def function(x, **values):
        one = left(x, **{name: values[name] for name in left_names})
        return operation(one, right(x, **{name: values[name] for name in right_names}))

    return function
