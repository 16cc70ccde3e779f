"""How many steps a loop runs, where the graph fixes that."""

from typing import Any

import tensorflow as tf

from tfjac.graph.reading.static_values import static_value

MAX_STEPS = 10_000


def static_trip_count(op: tf.Operation, body: Any, condition: Any, known: Any = None) -> int | None:
    """Return the number of steps of a loop that counts to a constant, else None.

    Args:
        op: the `While` op.
        body, condition: its functions, as `Body`.
        known: a dict from `ref()` to value of tensors around the loop whose values are known otherwise, such as the
            number of steps of another loop.

    Cost: runs the counters of the loop in Python, up to `MAX_STEPS` steps.
    """
    counters = {
        k: static_value(tensor, given=known)
        for k, tensor in enumerate(op.inputs)
        if tensor.dtype.is_integer and tensor.shape.rank == 0 and static_value(tensor, given=known) is not None
    }
    for step in range(MAX_STEPS + 1):
        again = static_value(condition.outputs[0], given=_named(condition, counters))
        if again is None:
            return None
        if not again:
            return step
        given = _named(body, counters)
        counters = {k: static_value(body.outputs[k], given=given) for k in counters}
        counters = {k: value for k, value in counters.items() if value is not None}
    return None


def _named(function: Any, counters: Any) -> dict:
    return {function.inputs[k].ref(): value for k, value in counters.items()}
