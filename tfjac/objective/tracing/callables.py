"""Functions of the user's that compute residuals: what they are called with, and what they may return."""

import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfjac._warn import warn
from tfjac.arguments import as_numbers
from tfjac.graph import as_tf_variable, call_converted, refusing_values
from tfjac.linear.columns import Columns
from tfjac.objective.deviations import complex_dtype, parts_of
from tfjac.objective.tracing.readings import Reading, reading_of, takes
from tfjac.types import Data, Nest, Residuals, Tensor, Variable


def function_of_data(residuals: Residuals, variables: Nest[Variable], args: Data) -> Any:
    """Return residuals in any of the forms in which people write them as a function of `args` alone.

    Args:
        residuals: callable of `args` that reads the variables; or one of the variables and `args`: of each variable by
            itself, if they are in a list or tuple and it takes as many, or else of their nest; or a list of such
            callables. Which it is, `reading_of` finds out.
        args: tuple of nests of data.

    Returns:
        `residuals` itself where it is of the first form, or of none.
    """
    if isinstance(residuals, (list, tuple)) and residuals and all(map(callable, residuals)):
        functions = [function_of_data(each, variables, args) for each in residuals]
        return lambda *data: [call_converted(function, *data) for function in functions]
    _warn_of_masked(residuals)
    of_values = function_of_values(residuals, variables, args)
    return residuals if of_values is None else lambda *data: call_converted(of_values, variables, *data)


def function_of_values(residuals: Residuals, variables: Nest[Variable], args: Data) -> Callable | None:
    """Return residuals that are given the variables as a function of their nest, or of one like it, and of `args`.

    Args:
        residuals, variables, args: as in `function_of_data`.

    Returns:
        None where a function reads the variables itself.
    """
    if isinstance(residuals, (list, tuple)) and residuals and all(map(callable, residuals)):
        functions = [function_of_values(each, variables, args) for each in residuals]
        return None if None in functions else lambda *given: [call_converted(each, *given) for each in functions]
    reading = reading_of(residuals, variables, args) if callable(residuals) else Reading.DATA
    if reading is Reading.DATA:
        return None
    return lambda values, *data: call_converted(residuals, *reading.arguments(values, data))


_READ_MASKS = {"mask", "filled", "compressed", "getmask", "getmaskarray", "count"}
"""Names in a function that knows what is masked."""


def _warn_of_masked(function: Any) -> None:
    """Warn of masked arrays that a function reads from around it: TensorFlow takes the numbers behind the mask."""
    if not inspect.isfunction(function) or _READ_MASKS & {*function.__code__.co_names}:
        return
    read = inspect.getclosurevars(function)
    around = {**read.globals, **read.nonlocals}.items()
    names = [name for name, value in around if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value)]
    if names:
        warn(
            "tfjac: residuals reads a masked array, of which TensorFlow takes the numbers behind the mask, too: have "
            "the residuals of array.mask multiplied by zero, or left out, or call tfjac.curve_fit, which leaves them "
            f"out. Received: {', '.join(map(repr, names))}",
        )


def check_residuals(function: Any, args: Sequence) -> None:
    """Check that `function` can be called with `args`, before TensorFlow says so less clearly.

    Raises:
        TypeError: for what is not callable, a model, or a function of other arguments.
    """
    if not callable(function):
        raise TypeError(
            "residuals must be a callable that reads the variables and returns the residuals, so that it can be "
            f"evaluated again elsewhere. Received: residuals={function!r}"
        )
    if isinstance(function, keras.layers.Layer):
        raise TypeError(
            "A model is a prediction, not residuals: pass lambda: model(x) - y, or a function of x and y with "
            f"args=(x, y). Received: residuals={function!r}"
        )
    if not takes(function, args):
        raise TypeError(
            "residuals is called with what args holds, and reads the variables itself, or with the variables before "
            "that: pass its data as args=(...). "
            f"Received: residuals of the arguments {inspect.signature(function)}, args of {len(args)}"
        )


_WAY_OUT = (
    "what TensorFlow cannot compute, tfjac.external calls, with a gradient by differences or of your own; "
    "tf.py_function and tf.numpy_function have none"
)


def explained() -> AbstractContextManager:
    """Say of residuals that ask for the values of tensors, while they are called, that there are none yet."""
    return refusing_values("residuals", _WAY_OUT)


def as_data(args: Data, variables: Nest[Variable]) -> tuple:
    """Return `args`, a tuple of nests of tensors, arrays and numbers, as nests of tensors.

    Floating-point numbers and NumPy arrays take the dtype of the variables, as they do next to them in an expression.

    Raises:
        TypeError: for what is no tuple or list, or holds what cannot become a tensor.
        ValueError: for one of the variables: as data it would be a constant.
    """
    if not isinstance(args, (tuple, list)):
        raise TypeError(
            f"args must be a tuple of what residuals is called with, such as (x, y). Received: args={args!r}"
        )
    known = {id(as_tf_variable(variable)) for variable in variables}
    dtype = as_tf_variable(variables[0]).dtype
    return tuple(tf.nest.map_structure(lambda item: _as_tensor(item, known, dtype), list(args)))


def _as_tensor(item: Any, variables: Any, dtype: tf.DType) -> Any:
    if isinstance(item, (tf.Variable, keras.Variable)) and id(as_tf_variable(item)) in variables:
        raise ValueError(
            "args holds data, which are constant while the variables move: read the variables inside of residuals. "
            f"Received: {item!r} in args, and in variables"
        )
    if isinstance(item, tf.__internal__.CompositeTensor) and not isinstance(item, tf.Variable):
        return item
    _check_numbers(item)
    try:
        array = item if tf.is_tensor(item) or isinstance(item, keras.Variable) else np.asarray(item)
        kind = array.dtype.kind if isinstance(array, np.ndarray) else ""
        return tf.convert_to_tensor(array, {"f": dtype, "c": complex_dtype(dtype)}.get(kind))
    except (TypeError, ValueError) as error:
        raise TypeError(
            "args must hold tensors, arrays and numbers, alone or in lists, tuples and dicts; take anything else into "
            f"the function. Received: {item!r} of type {type(item).__name__} ({error})"
        ) from None


def _check_numbers(item: Any) -> None:
    """Raise for masked arrays, dates and durations, of which TensorFlow would take the numbers behind them."""
    if isinstance(item, np.ma.MaskedArray) or getattr(getattr(item, "dtype", None), "kind", None) in ("m", "M"):
        as_numbers("args", item, complex_too=True)


def residual_tensors(returned: Any, variables: Sequence[Variable], is_part: bool = False) -> list[Tensor]:
    """Return what a function of residuals returned as a flat list of tensors of the graph being traced.

    Arrays and numbers in it are residuals that no variable moves; they take the dtype of the variables. Complex tensors
    `[...]` become those of their real and imaginary parts `[..., 2]`.

    Args:
        returned: a nest.
        is_part: whether they are those of a part of the data, which may have none at all, or a single one.

    Raises:
        TypeError: for anything that is not floating-point.
        ValueError: for none at all, or a tensor of unknown rank.
    """
    dtype = as_tf_variable(variables[0]).dtype
    tensors = [_as_residual(item, dtype) for item in tf.nest.flatten(returned)]
    if not tensors or (not is_part and all(tensor.shape.num_elements() == 0 for tensor in tensors)):
        raise ValueError(f"There are no residuals, so that nothing can be minimised. Received: {returned!r}")
    rows = [tensor.shape.num_elements() for tensor in tensors]
    if rows == [1] and not is_part and Columns(variables).total > 1:
        warn(
            "tfjac: residuals returned a single number, of which the method squares: where it is a loss, return what "
            "the loss squares and adds, one residual for each, or the minimisation knows no curvature but along one "
            f"direction. Received: {returned!r}",
        )
    return tensors


def _as_residual(item: Any, dtype: tf.DType) -> Tensor:
    if isinstance(item, keras.Variable):
        item = item.value
    if isinstance(item, (float, complex, np.ndarray, np.inexact)) and np.asarray(item).dtype.kind in "fc":
        item = tf.constant(item, complex_dtype(dtype) if np.iscomplexobj(item) else dtype)
    is_tensor = isinstance(item, (tf.Tensor, tf.Variable))
    if not is_tensor or not (item.dtype.is_floating or item.dtype.is_complex):
        raise TypeError(
            "The residuals must be floating-point tensors computed from the variables, inside the function that was "
            f"passed. Received: {item!r}"
        )
    if item.shape.rank is None:
        raise ValueError(
            "The rank of residuals must be known while tracing. Say what their shape is by tf.ensure_shape. "
            f"Received: {item!r}"
        )
    return parts_of(item) if item.dtype.is_complex else tf.identity(item)
