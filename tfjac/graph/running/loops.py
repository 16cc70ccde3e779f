"""Loops that keep clear of TensorFlow's rewriting of large sums.

Grappler's memory optimizer holds memory of a CPU to be scarce above 200 MB, however much there is. In a graph whose
tensors are estimated to take more it rewrites sums of three tensors and more, of any size, to temporary variables; its
arithmetic optimizer makes such sums of chains of additions. Within loops that stand in each other, the variable of an
iteration may still be there in the next: the program ends with `AlreadyExistsError: … tmp_var` (TensorFlow issue
23780). No graph escapes by its own ops, as sums come from users' code, too. So a loop is called as a function that the
runtime optimizes apart, with the same options but for that one.

A function that is called apart takes tenths of a second more when it first runs. Where all of a program is known to
hold few numbers, far from 200 MB, its loops stay where they are.

Grappler takes long for bodies of many ops, as the second derivatives of unrolled steps are: constant folding took 14
of the 26 seconds before 20 fits of three such steps began, and all of grappler takes a third of the first call of many
small fits, whose later calls are as long without it. So a loop can ask to be spared grappler.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph._private import (
    compiled_by_xla,
    function_bodies,
    is_function_graph,
    outer_graph,
    set_text_attribute,
    sharing_like_this,
)
from tfjac.graph.facts import is_branching, is_call
from tfjac.graph.running.packing import Packing
from tfjac.types import Tensor

SMALL = 2**20
"""Numbers: 8 MB, where a program may hold many times as many before the rewriting begins."""

_settled: weakref.WeakSet[tf.Graph] = weakref.WeakSet()
"""Graphs whose loops, and those in these, stay where they are."""


def while_loop(
    cond: Callable,
    body: Callable,
    loop_vars: Sequence[Any],
    small: bool = False,
    optimizes: bool = True,
    **options: Any,
) -> Any:
    """Return `tf.while_loop(cond, body, loop_vars, **options)`, optimized apart in a graph that is not yet.

    It is not differentiable there. Under XLA, which does not ask grappler, and eagerly, it is TensorFlow's loop itself.

    Args:
        cond, body, loop_vars, options: as for `tf.while_loop`.
        small: whether all that is computed in this graph, by whomever, is known to be about `SMALL` numbers at most.
            Loops within the body take that from this one.
        optimizes: whether grappler is to optimize it, if that is done apart.
    """

    graph = tf.compat.v1.get_default_graph()
    if tf.executing_eagerly() or compiled_by_xla(graph):
        return tf.while_loop(cond, body, loop_vars, **options)
    if small:
        _settled.add(graph)

    def loop() -> Any:
        if options:  # shapes that change, say, are told of each
            return tf.while_loop(sharing_like_this(cond), sharing_like_this(body), loop_vars, **options)
        start = tf.nest.map_structure(_as_tensor, loop_vars)
        packing = Packing(start)

        def more(*packed: Any) -> Any:
            return cond(*packing.unpack(packed))

        def once(*packed: Any) -> Any:
            return packing.pack(body(*packing.unpack(packed)))

        packed = tf.while_loop(sharing_like_this(more), sharing_like_this(once), packing.pack(start))
        return packing.unpack(packed)

    return loop() if _is_settled(graph) else _called_apart(loop, optimizes)


def _as_tensor(given: Any) -> Any:
    return given if isinstance(given, tf.TensorArray) else tf.convert_to_tensor(given)


def cond(condition: Tensor, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """Return `tf.cond(condition, yes, no)`, whose branches share constants if the graph being traced does.

    In a graph they hand on scalars as loops do, as one vector for each dtype; what is a scalar of one is one of both.
    """
    if tf.executing_eagerly():
        return tf.cond(condition, yes, no)
    packings: list[Packing] = []

    def packed(branch: Callable[[], Any]) -> Callable[[], list]:
        def run() -> list:
            results = tf.nest.map_structure(_as_tensor, branch())
            packings.append(Packing(results))
            return packings[0].pack(results)

        return sharing_like_this(run)

    results = tf.cond(condition, packed(yes), packed(no))
    return packings[0].unpack(results)


def numbers_in(graph: tf.Graph) -> float:
    """Return how many numbers the tensors of a graph hold; infinity if there are loops, or open sizes."""
    return sum(map(_numbers_of, graph.get_operations()))


def numbers_in_all(graph: tf.Graph | None) -> float:
    """Return how many numbers the tensors of a graph hold, and of those that it is nested in."""
    total = 0.0
    while graph is not None and is_function_graph(graph) and total < float("inf"):
        total, graph = total + numbers_in(graph), outer_graph(graph)
    return total


def _numbers_of(op: tf.Operation) -> float:
    named = [attribute.name for attribute in op.op_def.attr if attribute.type in ("func", "list(func)")]
    if named and not (is_call(op) or is_branching(op)):  # others may run the functions that they name many times
        return float("inf")
    sizes = [output.shape.num_elements() for output in op.outputs if output.dtype not in (tf.resource, tf.variant)]
    if None in sizes:
        return float("inf")
    return sum(sizes) + sum(numbers_in(body) for name in named for body in function_bodies(op, name))


def _is_settled(graph: tf.Graph | None) -> bool:
    """Return whether loops of `graph`, or of one that it is nested in, stay where they are."""
    while graph is not None and graph not in _settled:
        graph = outer_graph(graph)
    return graph is not None


def _called_apart(function: Callable[[], Any], optimizes: bool) -> Any:
    """Return what `function()` does, a nest of tensors, called as a function that is not inlined."""
    structures: list[Any] = []

    def flat() -> list[Tensor]:
        _settled.add(tf.compat.v1.get_default_graph())
        results = function()
        structures.append(tf.nest.map_structure(lambda _: None, results))
        return tf.nest.flatten(results)

    traced = tf.function(sharing_like_this(flat), autograph=False, experimental_attributes={"_noinline": True})
    results = traced.get_concrete_function()()
    call = results[0].op
    config = tf.compat.v1.ConfigProto.FromString(call.get_attr("config_proto"))
    rewriter = config.graph_options.rewrite_options
    rewriter.memory_optimization = rewriter.NO_MEM_OPT
    rewriter.disable_meta_optimizer = not optimizes
    set_text_attribute(call, "config_proto", config.SerializeToString(deterministic=True))
    return tf.nest.pack_sequence_as(structures[-1], results)
