"""Python functions in a graph: whether TensorFlow can differentiate what they compute."""

import dis
import inspect
import itertools
import types
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.reading.statefulness import is_pure_python


def leaves_tensorflow(op: tf.Operation) -> bool:
    """Return whether `op` is a `tf.py_function` whose code turns tensors into arrays, as far as its code shows.

    Its gradient is then zero, without a word. (`tf.numpy_function` has none, and is an op of another type.)
    """
    function = _private.python_function(op) if is_pure_python(op) else None
    if function is None:
        return False
    function = inspect.unwrap(function)
    return isinstance(function, np.ufunc) or (isinstance(function, types.FunctionType) and _uses_arrays(function))


def _uses_arrays(function: Any) -> bool:
    """Whether a function calls `.numpy()` on something, or a function of NumPy's."""
    names = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    instructions = list(dis.get_instructions(function))
    for before, this in itertools.pairwise(instructions):
        if this.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            continue
        of_numpy = isinstance(before.argval, str) and names.get(before.argval) is np
        if this.argval == "numpy" or (of_numpy and _is_function(getattr(np, this.argval, None))):
            return True
    return False


def _is_function(attribute: Any) -> bool:
    return callable(attribute) and not isinstance(attribute, type)
