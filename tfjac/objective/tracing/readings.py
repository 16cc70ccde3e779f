"""How a function of residuals is meant to be called: with its data alone, or with the variables before them.

Mostly the number of its arguments says that. If defaults or `*args` let both be, it is tried out: see `reading_of`.
"""

import enum
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfjac._warn import warn
from tfjac.graph import as_tf_variable, between, call_converted, captures_of
from tfjac.types import Nest, Tensor, Variable


class Reading(enum.Enum):
    """What a function is called with."""

    DATA = "the data in args alone"
    EACH = "each variable by itself, then the data in args"
    NEST = "the variables as they were passed, then the data in args"

    def arguments(self, variables: Nest[Variable], args: Sequence) -> list:
        """Return the arguments of a call, a list.

        Args:
            variables: nest of the variables, or of what stands for them.
            args: sequence of nests of data.
        """
        before = {Reading.DATA: [], Reading.NEST: [variables]}.get(self, variables)
        return [*before, *args]


def taking(function: Any, count: int) -> Callable:
    """Return a function of `*args` that says that it takes so many."""
    kind = inspect.Parameter.POSITIONAL_ONLY
    function.__signature__ = inspect.Signature([inspect.Parameter(f"_{index}", kind) for index in range(count)])
    return function


def takes(function: Callable, args: Sequence) -> bool:
    """Return whether `function` can be called with so many arguments; also where it does not say."""
    try:
        inspect.signature(function).bind(*args)
    except TypeError:
        return False
    except ValueError:  # of a builtin, that does not say
        pass
    return True


def reading_of(function: Callable, variables: Nest[Variable], args: Sequence) -> "Reading":
    """Return the `Reading` of a function of residuals; DATA where it can be called in no way.

    Where it can be called with the data alone, too, as by the default of an argument or by `*args`, the variables come
    first if that makes residuals of each of them. Arguments that have a default, as in `lambda k=k:`, are no place for
    variables; `*args` are if the function does not read all variables from around it. If the function reads variables
    from around it as well, there is a warning that says which reading was taken.

    Args:
        function: callable.
        args: tuple of nests of data.

    Cost: a call of the function on trial, or two, where it can be called in both ways.
    """
    if isinstance(function, keras.layers.Layer):
        return Reading.DATA
    forms = [Reading.EACH, Reading.NEST] if isinstance(variables, (list, tuple)) else [Reading.NEST]
    given = next((each for each in forms if takes(function, each.arguments(variables, args))), Reading.DATA)
    if given is Reading.DATA or not takes(function, args):
        return given
    room = _room(function, len(given.arguments(variables, ())))
    return Reading.DATA if room is None else _tried(function, given, variables, args, variables_first=room)


def _room(function: Callable, count: int) -> bool | None:
    """Return whether so many arguments of a function, the first ones, must be given; None where one has a default."""
    try:
        first = list(inspect.signature(function).parameters.values())[:count]
    except ValueError:
        return None
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if any(each.default is not each.empty for each in first):
        return None
    return len(first) == count and all(each.kind in positional for each in first)


def _tried(
    function: Callable, given: "Reading", variables: Nest[Variable], args: Sequence, variables_first: bool
) -> "Reading":
    """Return the `Reading` of a function that can be called in both ways: `given`, or DATA."""
    if not variables_first and _on_trial(function, Reading.DATA, variables, args)[0]:
        return Reading.DATA
    moves, reads = _on_trial(function, given, variables, args)
    if not moves:
        alone, _ = _on_trial(function, Reading.DATA, variables, args)
        return Reading.DATA if alone or moves is False else given
    if reads and variables_first:
        warn(
            f"tfjac: residuals can be called with {given.value}, and that is how they are; they read the variables "
            "from around them as well. If they are to be called with the data alone, give them no other arguments: "
            f"lambda data: residuals(data). Received: residuals={function!r}, args of {len(args)}"
        )
    return given


def _on_trial(
    function: Callable, reading: "Reading", variables: Nest[Variable], args: Sequence
) -> tuple[bool | None, bool]:
    """Call a function with what stands for variables, in a graph that is not kept.

    Returns:
        Whether what it returns depends on each of the variables, None if it raises; and whether it reads them from
        around it.
    """
    flat = [as_tf_variable(variable) for variable in tf.nest.flatten(variables)]
    specs = [tf.TensorSpec(variable.shape, variable.dtype) for variable in flat]

    def called(values: Any, data: Any) -> list[Tensor]:
        values = tf.nest.pack_sequence_as(variables, values)
        returned = call_converted(function, *reading.arguments(values, data))
        return [tf.convert_to_tensor(each) for each in tf.nest.flatten(returned)]

    data_specs = tf.nest.map_structure(tf.type_spec_from_value, list(args))
    try:
        graph = tf.function(called, autograph=False).get_concrete_function(specs, data_specs).graph
    except Exception:  # what the function raises is raised again where it is called in earnest
        return None, False
    handles = {id(variable.handle) for variable in flat}
    read = [inner for outer, inner in captures_of(graph) if id(outer) in handles]
    sources = read if reading is Reading.DATA else graph.inputs[: len(flat)]
    outputs = [output for output in graph.outputs if output.dtype.is_floating]
    depends = len(sources) == len(flat) and all(between([source], outputs) for source in sources)
    return depends, bool(read)
