"""What is said of a function that is traced, and asks for the values of tensors, which there are none of yet."""

import contextlib
import dis
import inspect
import itertools
import os
import re
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.reading.origins import line_of_failure
from tfjac.graph.reading.statefulness import is_pure_python

_TENSORFLOW = os.path.dirname(tf.__file__)
_SYMBOLIC = re.compile(r"symbolic tf\.Tensor \(([^)]+)\)")


@contextlib.contextmanager
def refusing_values(what: str, way_out: str) -> Iterator[None]:
    """Say of a function that asks for the values of tensors, while it is called, that there are none yet.

    An operator between a tensor and an array that do not fit asks for them, too: TensorFlow leaves it to NumPy then.

    Args:
        what: what the function is called in the message.
        way_out: what else there is to do, a clause.

    Raises:
        TypeError: instead of what TensorFlow, Keras and Python say.
        ValueError: for a tensor and an array that do not fit.
    """
    try:
        yield
    except (AttributeError, NotImplementedError, TypeError) as error:
        if _is_of_operator(error):
            raise ValueError(
                f"{what} combine a tensor with an array whose shape or dtype does not fit it. "
                f"Received: {_tensor_in(error)}{_place_of(error)}"
            ) from error
        if not asks_for_values(error):
            raise
        raise TypeError(
            f"{what} must compute with TensorFlow throughout: it is called once, with tensors that have no values "
            "yet, for a graph to be made. Call model(x) rather than model.predict(x), tf.sin rather than np.sin, and "
            f"no .numpy(); {way_out}. Received: {type(error).__name__}: {error}"
        ) from error


def asks_for_values(error: BaseException | None) -> bool:
    """Return whether an exception is that of code which asks for the value of a tensor of a graph."""
    if isinstance(error, TypeError):
        return "SymbolicTensor" in str(error) and "numpy" not in str(error).lower().split("symbolictensor")[0]
    return isinstance(error, (AttributeError, NotImplementedError)) and "numpy" in str(error)


def _is_of_operator(error: BaseException) -> bool:
    """Return whether an operator of Python, such as `-`, let NumPy ask for the value of a tensor."""
    if not isinstance(error, NotImplementedError):
        return False
    steps = [(frame.f_code, place) for frame, place in _steps_of(error)]
    asked = next((index for index, (code, _) in enumerate(steps) if code.co_name == "__array__"), 0)
    callers = [step for step in steps[:asked] if not step[0].co_filename.startswith(_TENSORFLOW)]
    if not callers:
        return False
    code, place = callers[-1]
    name = next((each.opname for each in dis.get_instructions(code) if each.offset == place), "")
    return name.startswith(("BINARY_", "INPLACE_")) and name != "BINARY_SUBSCR"


def _steps_of(error: BaseException) -> list:
    """List the frames that an exception went through, the outermost first, and the instruction that each was at."""
    found, tail = [], error.__traceback__
    while tail is not None:
        found.append((tail.tb_frame, tail.tb_lasti))
        tail = tail.tb_next
    return found


def _tensor_in(error: BaseException) -> str:
    """Return what an error says of a tensor, with its shape and dtype where it is in the graph being traced."""
    found = _SYMBOLIC.search(str(error))
    try:
        tensor = tf.compat.v1.get_default_graph().get_tensor_by_name(found[1] if found else None)
    except (KeyError, ValueError, TypeError):
        return "a tensor"
    return f"a tensor of shape {tensor.shape} and {tensor.dtype.name}"


def _place_of(error: BaseException) -> str:
    line = line_of_failure(error)
    return "" if line is None else f", at {line} ({line.text})"


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
