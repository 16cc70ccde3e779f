"""Values that the graph fixes: constants and small arithmetic on them, such as the permutation in a softmax.

What an op computes of them stands among its facts, in `op_facts`: `value(output, value_of) -> array or None`, where
`value_of` gives the values of tensors that it reads.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfjac.graph.facts import facts_of
from tfjac.types import Tensor


def static_value(tensor: Tensor, depth: int = 10, given: Any = None) -> Any:
    """Return the value of `tensor` as an array where the graph fixes it, else None.

    Args:
        tensor: an integer tensor: axes, sizes, permutations.
        depth: how many ops to look through beyond what `tf.get_static_value` does.
        given: a dict from `ref()` to value of tensors that are taken to have it.
    """
    if given and tensor.ref() in given:
        return given[tensor.ref()]
    value = tf.get_static_value(tensor)
    rule = facts_of(tensor.op).value
    if value is not None or depth == 0 or rule is None:
        return value
    return rule(tensor, lambda part: static_value(part, depth - 1, given))


def of_inputs(function: Callable) -> Callable:
    """Return a rule for the value of ops that are `function` of their inputs, where all of these are fixed."""

    def value(output: Tensor, value_of: Callable) -> Any:
        inputs = [value_of(part) for part in output.op.inputs]
        return None if any(part is None for part in inputs) else function(*inputs)

    return value


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
