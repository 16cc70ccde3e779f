"""One constant for each value, and one op for each size: they are half of the ops of a step that is traced.

Axes, shapes and bounds of slices are constants. Where the number of examples is open, sizes are ops.
"""

import contextlib
import functools
import re
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tfjac.graph.facts import facts_by_type
from tfjac.types import T

MOST_BYTES = 256
"""Of a constant that is shared, with its dtype and shape."""

_COUNTS, _NUMBERS = (tf.int32, tf.int64, tf.bool), (tf.float32, tf.float64)
"""Dtypes that are shared. There is no derivative by a count: it does not matter which one an op was given."""

_HELD = re.compile(r"(.*/)?(Const|zeros|ones)(_like)?(_\d+)?/?")
"""Names of constants that users ask for, and may differentiate by; TensorFlow names others by arguments of ops."""

_sharing: weakref.WeakSet[tf.Graph] = weakref.WeakSet()


@contextlib.contextmanager
def shared_constants() -> Iterator[None]:
    """Let constants of the same value be one op in the graph being traced, as long as this lasts; none beside others.

    So are ops on the same sizes.

    Of floating-point numbers, it is the scalars that TensorFlow makes of Python's, as of the 2 in `2 * x`.

    `Graph._create_op_internal` is where all ops of a graph come into being, those of TensorFlow's own functions too: an
    axis that is given as a number is an op. No public function is told of ops.
    """
    graph: Any = tf.compat.v1.get_default_graph()
    if tf.executing_eagerly() or graph in _sharing:
        yield
        return
    create, known = graph._create_op_internal, {}

    def create_once(
        op_type: str,
        inputs: Any,
        dtypes: Any = None,
        input_types: Any = None,
        name: Any = None,
        attrs: Any = None,
        *rest: Any,
        **others: Any,
    ) -> tf.Operation:
        make = functools.partial(create, op_type, inputs, dtypes, input_types, name, attrs, *rest, **others)
        key = _key_of(op_type, inputs, attrs or {}, name or op_type)
        if key is None or _is_scoped(graph):
            return make()
        if key not in known:
            with graph.colocate_with(None, ignore_existing=True):  # gradients are where the ops that they are of are
                known[key] = make()
        return known[key]

    graph._create_op_internal = create_once
    _sharing.add(graph)
    try:
        yield
    finally:
        _sharing.discard(graph)
        del graph._create_op_internal


def sharing_like_this(function: Callable[..., T]) -> Callable[..., T]:
    """Return a function that traces a body of the graph being traced, and shares constants if that does."""
    if tf.executing_eagerly() or tf.compat.v1.get_default_graph() not in _sharing:
        return function

    @functools.wraps(function)
    def traced(*arguments: Any) -> T:
        with shared_constants():
            return function(*arguments)

    return traced


def _key_of(op_type: str, inputs: Any, attributes: dict, name: str) -> tuple | None:
    """Return what an op that is shared has in common with others that it is shared with; None for other ops."""
    if not inputs:
        value = attributes["value"].tensor if "value" in attributes else None
        if value is None or not _is_shared(value, name):
            return None
        return op_type, value.SerializeToString(deterministic=True)
    dtype, facts = attributes.get("out_type", attributes.get("T")), facts_by_type().get(op_type)
    of_sizes = facts is not None and facts.entries is not None and facts.kind is None
    if not of_sizes or dtype is None or dtype.type not in _COUNTS:
        return None
    given = sorted((key, each.SerializeToString(deterministic=True)) for key, each in attributes.items())
    return op_type, tuple(tensor.ref() for tensor in inputs), tuple(given)


def _is_shared(value: Any, name: str) -> bool:
    """Return whether constants of a value, a `TensorProto`, are one, if they are to be named like that."""
    if value.dtype in _COUNTS:
        return value.ByteSize() <= MOST_BYTES
    return value.dtype in _NUMBERS and not value.tensor_shape.dim and not _HELD.fullmatch(name)


def _is_scoped(graph: Any) -> bool:
    """Return whether an op made now would differ by more than its value: by device, order, or attributes."""
    devices, order = graph._device_functions_outer_to_inner[-1:], graph._current_control_dependencies()
    return bool(any(devices) or order or graph._get_control_flow_context() or graph._attr_scope_map)
