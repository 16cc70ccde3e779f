"""What users say of single parameters: numbers in a nest like that of the variables."""

import collections.abc
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.arguments import as_array, as_numbers
from tfjac.objective.variables import variable_name
from tfjac.types import Array, Nest, Variable


def vector_of(argument: str, given: Any, variables: Nest[Variable], default: Any) -> Array:
    """Return numbers in a nest like that of the variables as one vector `[p]` of float64, or of bool.

    Args:
        argument: what the user calls it, for errors.
        given: None, a number, or a nest like `variables` of None, numbers and arrays, which may hold None as well.
        variables: nest of the variables, or of `tf.TensorSpec` with their shapes and names.
        default: what None stands for; its type is that of the vector.

    Raises:
        ValueError: for another structure or shape, or NaN.
    """
    pairs = zip(_aligned(argument, variables, given), tf.nest.flatten(variables))
    return np.concatenate([_elements(argument, part, variable, default) for part, variable in pairs])


def _aligned(argument: str, structure: Any, given: Any) -> list:
    """Return the parts of `given` that belong to each variable of a nest, in the order of `tf.nest.flatten`."""
    if given is None or np.isscalar(given):
        return [given] * len(tf.nest.flatten(structure))
    if not tf.nest.is_nested(structure):
        return [given]
    keys = sorted(structure) if isinstance(structure, collections.abc.Mapping) else range(len(structure))
    if not _is_like(given, structure):
        raise ValueError(
            f"{argument} must have the structure of the variables, with None where there is nothing to say. "
            f"Received: {given!r}"
        )
    return [part for key in keys for part in _aligned(argument, structure[key], given[key])]


def _is_like(given: Any, structure: Any) -> bool:
    """Return whether `given` has the keys, or the length, of a nest."""
    if isinstance(structure, collections.abc.Mapping):
        return isinstance(given, collections.abc.Mapping) and set(given) == set(structure)
    return isinstance(given, (list, tuple, np.ndarray)) and len(given) == len(structure)


def _elements(argument: str, given: Any, variable: Variable, default: Any) -> Array:
    shape = tf.TensorShape(variable.shape)
    try:
        values = _real(argument, default if given is None else given)
        if values.dtype == object:
            values = np.array([default if value is None else value for value in values.ravel()]).reshape(values.shape)
        if values.ndim and values.size == 1 and values.shape[0] not in tuple(shape)[-values.ndim :][:1]:
            raise ValueError  # an array of one element is no number: it may be one that was forgotten for the others
        values = np.broadcast_to(values, shape).ravel()
    except ValueError:
        raise ValueError(
            f"{argument} must hold one number for a variable, or one for each of its elements. "
            f"Received: {given!r} for {variable_name(variable)} of shape {shape}"
        ) from None
    if np.isnan(values.astype(np.float64)).any():
        raise ValueError(f"{argument} must not be NaN. Received: {given!r} for {variable_name(variable)}")
    return values.astype(bool if isinstance(default, bool) else np.float64)


def _real(argument: str, given: Any) -> Array:
    """Return an array, of objects too; raise TypeError for what has another meaning than real numbers."""
    values = as_array(argument, given)
    return as_numbers(argument, given) if values.dtype.kind in "cmM" else values


def parameter_name(variables: Nest[Variable], index: int) -> str:
    """Return what to call parameter number `index`."""
    for variable in variables:
        shape = tf.TensorShape(variable.shape)
        size = shape.num_elements()
        if index < size:
            place = np.unravel_index(index, shape) if shape.rank else ()
            return variable_name(variable) + (f"[{', '.join(map(str, place))}]" if place else "")
        index -= size
    raise IndexError(index)
