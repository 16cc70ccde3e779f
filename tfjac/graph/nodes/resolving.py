"""Selectors in the graph that is being traced: the tensors that they mean there."""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph.copying.inlining import inline_calls
from tfjac.graph.nodes.selectors import described, is_selector, select
from tfjac.graph.nodes.table import Nodes, nodes_in
from tfjac.graph.reading.variables import handle_in, is_variable
from tfjac.types import Nest, NestLike, Selector, Sources, Tensor


def resolved(
    selectors: Nest[Selector], ys: Sequence[Tensor], draw_again: bool = False
) -> tuple[list[list[Tensor]], list[Tensor]]:
    """Return the tensors that each selector means, and ys, with the calls on the way inlined.

    Args:
        selectors: nest of selectors of nodes, and tensors.
        ys: flat list of tensors of the graph being traced.
        draw_again: as in `inline_calls`.

    Returns:
        A list of the lists of tensors of each selector, and a list like `ys`.

    Raises:
        ValueError: where a selector selects nothing, or what is inside a loop or branch.
    """
    flat = tf.nest.flatten(selectors)
    named = [selector for selector in flat if tf.is_symbolic_tensor(selector)]
    inlined = inline_calls([*ys, *named], draw_again=draw_again)
    targets, tensors = inlined[: len(ys)], iter(inlined[len(ys) :])
    nodes = nodes_in(tf.compat.v1.get_default_graph(), targets)
    return [[next(tensors)] if tf.is_symbolic_tensor(each) else _tensors(nodes, each) for each in flat], targets


def _tensors(nodes: Nodes, selector: Selector) -> list[Tensor]:
    if is_variable(selector):  # itself, however often it is read, as in tf.gradients
        handle = handle_in(tf.compat.v1.get_default_graph(), selector)
        return [handle] if handle is not None else select(nodes, selector)
    found = select(nodes, selector)
    inside = next((node for node in found if node.place), None)
    if inside is not None:
        raise ValueError(
            "A node inside a loop or branch is many tensors or none, so that nothing can be taken with respect to it: "
            "take what the loop returns, or change its gradient with tfjac.intercept. "
            f"Received: {described(selector)}, which selects {inside} inside of {inside.inside!r}"
        )
    return [node.tensor for node in found]


def packed_by_selector(structure: NestLike, groups: Iterable[Sequence[Tensor]], values: Iterable[Any]) -> NestLike:
    """Pack flat `values`, one for each tensor of `groups`, like `structure`; a list where a group has several."""
    values = iter(values)
    results = [[next(values) for _ in group] for group in groups]
    return tf.nest.pack_sequence_as(structure, [each[0] if len(each) == 1 else each for each in results])


def with_tensors(xs: Sources, ys: Nest[Tensor]) -> tuple[NestLike, NestLike]:
    """Return the nest `xs`, and ys, with the tensor in place of each selector of a node that ys are computed from.

    Args:
        xs: nest of variables, tensors and selectors.
        ys: nest of tensors of the graph being traced.

    Raises:
        ValueError: where a selector selects nothing, or several nodes.
    """
    flat = tf.nest.flatten(xs)
    selectors = [x for x in flat if is_selector(x)]
    if not selectors:
        return xs, ys
    groups, found = resolved(selectors, tf.nest.flatten(ys))
    for selector, group in zip(selectors, groups):
        if len(group) > 1:
            raise ValueError(
                f"Each of xs must be one node; choose a call by '[0]', or write names out. "
                f"Received: {described(selector)}, which selects {len(group)}"
            )
    tensors = (tensor for (tensor,) in groups)
    xs = tf.nest.pack_sequence_as(xs, [next(tensors) if is_selector(x) else x for x in flat])
    return xs, tf.nest.pack_sequence_as(ys, found)
