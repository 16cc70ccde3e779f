"""Functions of the user's that are traced: what their trace takes for constant."""

import contextlib
import functools
import hashlib
import inspect
import types

import numpy as np
import tensorflow as tf


def anchors(function):
    """Return the objects that make `function` what it is: itself, or for a method, which is made anew each time it is
    asked for, the object and the function.
    """
    return [function.__self__, function.__func__] if inspect.ismethod(function) else [function]


def objects_read(function):
    """Return the objects that `function` reads by name or as attributes, in the order in which they are met.

    Its free and global variables, default arguments, the attributes of its object, and the same for functions and
    instances of classes of the module that it is defined in; the elements of lists, tuples, sets and dicts among these;
    and behind each NumPy array a digest of its numbers. What else it may read (in another module) is not seen.
    """
    home = _home(function)
    found, seen, pending = [], set(), [function]
    while pending:
        item = pending.pop()
        if id(item) not in seen:
            seen.add(id(item))
            values = list(_read_directly(_plain(item)))
            found += _with_contents(values, seen=set())
            pending += [value for value in values if home in (_module(value), type(value).__module__)]
    return found


def _with_contents(values, seen):
    """Return `values` with what is in them: a trace takes the numbers in arrays and lists for constants."""
    found = []
    for value in values:
        found.append(value)
        if isinstance(value, np.ndarray):
            found.append(hashlib.blake2b(value.tobytes(), digest_size=16).digest())
        elif isinstance(value, (list, tuple, set, frozenset, dict)) and id(value) not in seen:
            seen.add(id(value))
            found += _with_contents(value.values() if isinstance(value, dict) else value, seen)
    return found


def _plain(function):
    """Return the Python function behind a `tf.function`."""
    return function.python_function if isinstance(function, tf.types.experimental.PolymorphicFunction) else function


def _home(function):
    """Return the name of the module that a function, or the class of a callable object, is defined in."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(_plain(function), "__module__", None)


def _module(value):
    return getattr(_plain(value), "__module__", None) if callable(value) else None


def _read_directly(item):
    """Give what a function, method, partial or instance refers to itself."""
    if isinstance(item, types.FunctionType):
        yield from _free(item)
        names = _names(item.__code__)
        yield from (item.__globals__[name] for name in names if name in item.__globals__)
        yield from (*(item.__defaults__ or ()), *(item.__kwdefaults__ or {}).values())
    elif inspect.ismethod(item):
        yield from (item.__func__, item.__self__)
        yield from _read_directly(item.__self__)
    elif isinstance(item, functools.partial):
        yield from (item.func, *item.args, *item.keywords.values())
    elif not inspect.isclass(item) and not inspect.ismodule(item):
        yield from getattr(item, "__dict__", {}).values()
        if callable(item):
            yield type(item).__call__


def _free(function):
    """Give the contents of the closure, but for names that are not bound yet."""
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):
            yield cell.cell_contents


@functools.lru_cache(maxsize=256)
def _names(code):
    """Return the names, of globals and attributes alike, in code and in the code nested in it."""
    nested = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return tuple(dict.fromkeys([*code.co_names, *(name for inner in nested for name in _names(inner))]))
