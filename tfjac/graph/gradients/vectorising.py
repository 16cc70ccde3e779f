"""TensorFlow's vectoriser, where it is right.

`tf.vectorized_map` replaces each op of a function by one that does all slices at once. For a few ops it does so
wrongly, or not at all though it could: these are converted in another way. Which they are is found by `tests.sweep`,
which runs every op with a gradient through the vectoriser and without. Their facts, in `op_facts`, have a `conversion`:
a function `(op, inputs, stacked)`, the `edit` of `_private.set_conversion`.

Others it converts rightly, and at length: it works out sizes when the graph runs that are known while tracing, copies
what is the same for all slices, and folds slices into channels. Their facts have a `shortcut`: a function of the same
that returns the outputs of `op` for all slices, `[c, ...]` each, in a few ops, or None where it does not apply and
TensorFlow's way is taken. Without them a graph of hundreds of layers takes twice as long to trace and run first.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.facts import facts_of, is_branching, is_loop, types_where
from tfjac.graph.reading.static_values import static_value
from tfjac.types import Tensor


def listed() -> frozenset[str]:
    """Return the types of op that are converted otherwise, a set."""
    return types_where(lambda facts: facts.conversion is not None)


def vectorises(ops: Iterable[tf.Operation]) -> bool:
    """Return whether to vectorise a function of these ops: not where it has loops or branches, or holds lists.

    Gradients of loops are slow to trace under the vectoriser, and often fail; lists of tensors, and sparse matrices,
    are converted wrongly, or fail when they run.
    """
    return not any(is_loop(op) or is_branching(op) or any(map(_is_variant, [*op.inputs, *op.outputs])) for op in ops)


def vectorised_map(function: Callable[..., Sequence[Tensor]], stacks: Iterable[Tensor]) -> list[Tensor]:
    """`tf.vectorized_map`, with right conversions, and shorter ones.

    Args:
        function: from tensors to a list of tensors.
        stacks: list of tensors `[c, ...]` with the same c.

    Returns:
        What the function gives for each slice of the stacks: a list of tensors `[c, ...]`.
    """

    def marked(slices: Sequence[Tensor]) -> list[Tensor]:
        graph = tf.compat.v1.get_default_graph()
        before = len(graph.get_operations())
        results = function(*slices)
        for op in graph.get_operations()[before:]:
            facts = facts_of(op)
            if facts.conversion is not None or facts.shortcut is not None:
                _private.set_conversion(op, facts.conversion, facts.shortcut)
        return [_within(graph, result) for result in results]

    return tf.vectorized_map(marked, list(stacks))


def _within(graph: tf.Graph, tensor: Tensor) -> Tensor:
    """Return a tensor as one of `graph`: TensorFlow fails on what is returned as it is from a graph around."""
    return tensor if tensor.graph is graph else tf.identity(tensor)


def _is_variant(tensor: Tensor) -> bool:
    return tensor.dtype == tf.variant


def by_known_lists(of_slices: Callable[..., Sequence[Any]]) -> Callable:
    """Return a shortcut for ops of a tensor and lists of integers: for one axis more, worked out while tracing.

    Args:
        of_slices: function from the number of slices of the tensor, None if it is open, and the lists to what these
            become. There is no shortcut if None is among their elements.
    """

    def convert(op: tf.Operation, inputs: Sequence[Tensor], stacked: Sequence[bool]) -> list[Tensor] | None:
        tensor, *given = inputs
        lists = [static_value(each) for each in given]
        if any(stacked[1:]) or any(each is None for each in lists):
            return None
        plain = [each.reshape(-1).tolist() if each.ndim < 2 else each.tolist() for each in lists]
        more = of_slices(tensor.shape[0], *plain)
        if any(None in new for new in more):
            return None
        return _private.op_like(op, [tensor, *(tf.constant(new, old.dtype) for new, old in zip(more, op.inputs[1:]))])

    return convert
