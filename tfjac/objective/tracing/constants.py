"""What a function computes by besides its arguments, in a form that can be compared: is its graph the same again?

A function of Python may read anything. Here its bytecode is read: the globals and cells that it names are looked up,
and so are those of the functions that it names. Values are compared by content, tensors and variables by identity. What
may depend on more has no such form: objects with attributes, modules of the user's, files, time, random numbers.
"""

import builtins
import dis
import functools
import types
from types import CodeType
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import call_converted
from tfjac.types import Array

_LIBRARIES = {"tensorflow", "numpy", "math", "operator"}
"""Modules whose functions compute from their arguments alone, but for what is in `_STATEFUL`."""

_STATEFUL = {
    "random", "config", "experimental", "keras", "io", "init_scope", "load", "fromfile", "loadtxt", "genfromtxt",
    "memmap",
}  # fmt: skip
"""Names in these libraries behind which there may be a state, or a file."""

_BUILTINS = (
    abs, all, any, bool, complex, dict, divmod, enumerate, float, int, isinstance, len, list, map, max, min, pow, range,
    reversed, round, set, slice, sorted, str, sum, tuple, zip, ValueError, TypeError, call_converted,
)  # fmt: skip
"""Functions of Python, and one of tfjac, that compute from their arguments alone."""

_ACTS = {"IMPORT_NAME", "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR"}
_LARGEST = 2**20
"""Bytes of an array whose content is compared."""


class _Unknown(Exception):
    """There is no form that can be compared."""


class Constants:
    """The form of a value, and what must be kept for as long as it is compared.

    Attributes:
        form: hashable, equal where a graph made with the values is the same; None where that is not known.
        held: list of the objects that are known by identity.
    """

    def __init__(self, value: Any) -> None:
        self.held: list[Any] = []
        self._seen: dict[int, Any] = {}
        try:
            self.form = self._of(value)
        except _Unknown:
            self.form = None

    def _of(self, value: Any) -> Any:
        if value is None or value is Ellipsis or type(value) in (bool, int, float, complex, str, bytes):
            return type(value), repr(value)
        if type(value) in (tuple, list):
            return type(value), *map(self._of, value)
        if type(value) is dict:
            return dict, *((self._of(key), self._of(each)) for key, each in value.items())
        if type(value) is slice:
            return slice, *map(self._of, (value.start, value.stop, value.step))
        if isinstance(value, (np.ndarray, np.generic)):
            return self._of_array(value)
        if isinstance(value, (tf.DType, np.dtype)):
            return type(value), value.name
        if isinstance(value, (tf.Tensor, tf.Variable)) and not tf.is_symbolic_tensor(value):
            self.held.append(value)
            return type(value), id(value)
        return self._of_code(value)

    @staticmethod
    def _of_array(value: Any) -> tuple:
        if value.dtype.kind not in "biufc" or value.nbytes > _LARGEST or type(value) is np.ma.MaskedArray:
            raise _Unknown
        return type(value), value.dtype.str, value.shape, value.tobytes()

    def _of_code(self, value: Any) -> Any:
        """Return the form of a module or of something that is called."""
        if isinstance(value, types.ModuleType):
            if value.__name__.partition(".")[0] not in _LIBRARIES:
                raise _Unknown
            return types.ModuleType, value.__name__
        if any(value is each for each in _BUILTINS):
            return "builtin", value.__name__
        if isinstance(value, np.ufunc) or _is_of_library(value):
            self.held.append(value)
            return "library", id(value)
        if not isinstance(value, types.FunctionType):
            raise _Unknown
        return self._of_function(value)

    def _of_function(self, function: Any) -> tuple[Array, Array]:
        if id(function) in self._seen:  # it calls itself
            return "seen", self._seen[id(function)]
        self._seen[id(function)] = len(self._seen)
        names, free = _names_in(function.__code__)
        if names is None:
            raise _Unknown
        scope = function.__globals__
        known = [(name, scope[name]) for name in names if name in scope]
        known += [(name, vars(builtins)[name]) for name in names if name not in scope and name in vars(builtins)]
        cells = [_content(cell) for cell in function.__closure__ or ()]
        given = function.__defaults__, function.__kwdefaults__, dict(vars(function)), dict(zip(free, cells))
        return function.__code__, *map(self._of, given), self._of(dict(known))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError as error:  # nothing is in it yet
        raise _Unknown from error


def _is_of_library(value: Any) -> bool:
    """Return whether a function is one of the libraries', and has no state."""
    if isinstance(value, types.FunctionType):
        module = value.__globals__.get("__name__") or ""
    elif isinstance(value, types.BuiltinFunctionType):
        module = value.__module__ or ""
    else:
        return False
    return module.partition(".")[0] in _LIBRARIES and not _STATEFUL & {*module.split("."), value.__name__}


@functools.lru_cache(maxsize=256)
def _names_in(code: CodeType) -> tuple:
    """Return the names of globals in a piece of code and in what is defined in it, and its free variables.

    None for the names of code that acts on something, or that asks a library for what has a state.
    """
    names = set()
    for instruction in dis.get_instructions(code):
        named = instruction.argval
        stores = instruction.opname == "STORE_DEREF" and named in code.co_freevars
        if instruction.opname in _ACTS or stores or (named in _STATEFUL and "LOAD" in instruction.opname):
            return None, code.co_freevars
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            names.add(named)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner, _ = _names_in(constant)
            if inner is None:
                return None, code.co_freevars
            names |= set(inner)
    return tuple(sorted(names)), code.co_freevars
