"""Checks of arguments: options given by name or as an object, numbers, pairs; one lookup and one error for all.

And how Keras writes them into a configuration.
"""

import datetime
import difflib
import inspect
import math
import numbers
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfjac.types import Array, Config


class Configured:
    """An object that the arguments of its constructor make again, each kept as the attribute of its name."""

    def get_config(self) -> Config:
        """Return the arguments of the constructor, for saved models."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    @classmethod
    def from_config(cls, config: Config) -> Any:
        """Rebuild from `get_config()`."""
        return cls(**config)


def described_value(x: Any) -> str:
    """Return what to call any object after "Received:": arrays by shape and dtype, others shortly, with their type."""
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if hasattr(x, "__array__") and shape is not None and dtype is not None:
        return f"{type(x).__name__} of shape {tuple(shape)} and dtype {getattr(dtype, 'name', dtype)}"
    text = repr(x)
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f"{text} of type {type(x).__name__}"


_LONGEST = 200
"""So many characters of an object are shown."""


def resolve(argument: str, value: Any, choices: dict[str, Any]) -> Any:
    """Return the object that `value` names, or `value` itself where it already is one.

    Args:
        argument: name of the argument, for the error.
        value: a key of `choices`, or an instance of one of the classes in it.
        choices: dict from name to class (called without arguments).

    Raises:
        ValueError: for an unknown name.
        TypeError: for anything else.
    """
    names = ", ".join(repr(name) for name in choices)
    if isinstance(value, str):
        if value not in choices:
            raise ValueError(
                f"Unknown {argument}; choose one of {names}, or pass an object.{suggestion(value, choices)} "
                f"Received: {argument}={value!r}"
            )
        return choices[value]()
    if not isinstance(value, tuple(choices.values())):
        raise TypeError(
            f"{argument} must be one of {names}, or an object of that kind. "
            f"Received: {argument}={value!r} of type {type(value).__name__}"
        )
    return value


def choice(argument: str, value: Any, names: Any) -> Any:
    """Return `value`; raise ValueError unless it is one of `names`."""
    if value not in names:
        listed = ", ".join(repr(name) for name in names)
        near = suggestion(value, names) if isinstance(value, str) else ""
        raise ValueError(f"{argument} must be one of {listed}.{near} Received: {argument}={value!r}")
    return value


def suggestion(name: str, names: Any) -> str:
    """Return " Did you mean …?" with the one of `names` that `name` is nearest to; nothing where none is near."""
    near = difflib.get_close_matches(name.lower(), [each for each in names if each is not None], n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def pair(argument: str, value: Any, meaning: str) -> Any:
    """Return `value`; raise ValueError unless it is a tuple or list of two nests, whose `meaning` the error tells."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(
            f"{argument} must be a pair {meaning}, each None, a number, or a nest like the variables. "
            f"Received: {argument}={value!r}"
        )
    return value


def positive(argument: str, value: Any, *, below: float | None = None, or_zero: bool = False) -> float:
    """Return `value` as a float; raise ValueError unless it is a number in `(0, below)`, or zero if that is allowed."""
    valid = isinstance(value, numbers.Real) and not isinstance(value, bool)
    valid = valid and (float(value) > 0 or (or_zero and value == 0))
    if not valid or (below is not None and not value < below):
        limit = "a positive number" if below in (None, math.inf) else f"a number between 0 and {below}"
        limit = "zero or " * or_zero + ("a finite positive number" if below == math.inf else limit)
        raise ValueError(f"{argument} must be {limit}. Received: {argument}={value!r}")
    return float(value)


def not_negative(argument: str, value: Any) -> Any:
    """Return `value`; raise ValueError where it is a negative number, or an array or tensor that holds one.

    Variables, and tensors that only a run gives a value, are not looked at.
    """
    known = tf.get_static_value(value) if tf.is_tensor(value) else as_array(argument, value)
    if known is not None and not np.all(known >= 0):
        raise ValueError(f"{argument} must not be negative. Received: {argument}={value!r}")
    return value


def positive_integer(argument: str, value: Any, *, or_zero: bool = False) -> int:
    """Return `value` as an int; raise ValueError unless it is an integer of at least one, or of at least zero."""
    least = 0 if or_zero else 1
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise ValueError(f"{argument} must be an integer of at least {least}. Received: {argument}={value!r}")
    return int(value)


def as_array(argument: str, value: Any) -> Array:
    """Return `value` as an array; raise TypeError for a tensor of a graph, which only a run gives a value."""
    try:
        return np.asarray(value)
    except NotImplementedError:
        raise TypeError(
            f"{argument} must be known before anything is run: pass numbers or arrays, also within a tf.function, "
            f"and no tensor that is computed there. Received: {argument}={value!r}"
        ) from None


def as_numbers(argument: str, value: Any, *, complex_too: bool = False, masked_too: bool = False) -> Array:
    """Return `value` as an array of float64, or of complex128.

    Args:
        argument: name of the argument, for the error.
        value: numbers, in any form that NumPy takes.
        complex_too: whether complex numbers have a meaning there.
        masked_too: whether the caller has seen to what a masked array masks.

    Raises:
        TypeError: for what is no number, dates and durations, and complex numbers without a meaning.
        ValueError: for a masked array that masks something.
    """
    if np.ma.is_masked(value) and not masked_too:
        raise ValueError(
            f"{argument} cannot have missing values: leave what is masked out, as {argument}.compressed() does, or say "
            f"what it is by {argument}.filled(...). Received: {argument}, a masked array of shape {np.shape(value)}"
        )
    values = as_array(argument, value)
    if values.dtype.kind in "mM" or holds_dates(values):
        raise TypeError(
            f"{argument} holds dates or durations, which are no numbers: choose a unit, as (t - t[0]) / "
            f"np.timedelta64(1, 's') does. Received: {argument} of dtype {values.dtype}"
        )
    if values.dtype.kind == "c":
        if not complex_too:
            raise TypeError(f"{argument} must be real numbers. Received: {argument} of dtype {values.dtype}")
        return values.astype(np.complex128)
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{argument} must hold numbers. Received: {described_value(value)} ({error})") from None


def holds_dates(values: Any) -> bool:
    """Return whether an array of objects is one of Python's dates or durations."""
    first = next(iter(values.flat), None) if values.dtype.kind == "O" else None
    return isinstance(first, (datetime.date, datetime.timedelta))


def check_eager(what: str, instead: str = "In one, least_squares fits variables.") -> None:
    """Raise ValueError while a graph is traced, for what returns arrays of NumPy."""
    if not tf.executing_eagerly():
        raise ValueError(
            f"{what} takes and returns arrays of NumPy: call it outside of a tf.function. {instead} "
            "Received: a call while a tf.function is traced"
        )


def serialized(options: dict[str, Any]) -> dict:
    """Return a dict of names, or of objects serialised, from one of names and objects."""
    return {
        key: value if isinstance(value, str) else keras.saving.serialize_keras_object(value)
        for key, value in options.items()
    }


def deserialized(config: dict, custom_objects: Any = None) -> dict:
    """Return a configuration with the objects that `serialized` made dicts of."""
    objects = {
        key: keras.saving.deserialize_keras_object(value, custom_objects=custom_objects)
        for key, value in config.items()
        if isinstance(value, dict)
    }
    return {**config, **objects}
