"""Loops that keep clear of TensorFlow's rewriting of large sums.

Grappler's memory optimizer holds memory of a CPU to be scarce above 200 MB, however much there is. In a graph whose
tensors are estimated to take more it rewrites sums of three tensors and more, of any size, to temporary variables; its
arithmetic optimizer makes such sums of chains of additions. Within loops that stand in each other, the variable of an
iteration may still be there in the next: the program ends with `AlreadyExistsError: … tmp_var` (TensorFlow issue
23780). No graph escapes by its own ops, as sums come from users' code, too. So a loop is called as a function that the
runtime optimizes apart, with the same options but for that one.
"""

import weakref

import tensorflow as tf

from tfjac.graph._private import compiled_by_xla, outer_graph, set_text_attribute

_apart = weakref.WeakSet()
"""Graphs of functions that are called apart."""


def while_loop(cond, body, loop_vars, **options):
    """Return `tf.while_loop(cond, body, loop_vars, **options)`, optimized apart in a graph that is not yet.

    It is not differentiable there. Under XLA, which does not ask grappler, and eagerly, it is TensorFlow's loop itself.

    Args:
        cond, body, loop_vars, options: as for `tf.while_loop`.
    """

    def loop():
        return tf.while_loop(cond, body, loop_vars, **options)

    graph = tf.compat.v1.get_default_graph()
    if tf.executing_eagerly() or _is_apart(graph) or compiled_by_xla(graph):
        return loop()
    return _called_apart(loop)


def _is_apart(graph):
    """Return whether `graph` is, or is nested in, that of a function that is called apart."""
    while graph is not None and graph not in _apart:
        graph = outer_graph(graph)
    return graph is not None


def _called_apart(function):
    """Return what `function()` does, a nest of tensors, called as a function that is not inlined."""
    structures = []

    def flat():
        _apart.add(tf.compat.v1.get_default_graph())
        results = function()
        structures.append(tf.nest.map_structure(lambda _: None, results))
        return tf.nest.flatten(results)

    traced = tf.function(flat, autograph=False, experimental_attributes={"_noinline": True})
    results = traced.get_concrete_function()()
    call = results[0].op
    config = tf.compat.v1.ConfigProto.FromString(call.get_attr("config_proto"))
    rewriter = config.graph_options.rewrite_options
    rewriter.memory_optimization = rewriter.NO_MEM_OPT
    set_text_attribute(call, "config_proto", config.SerializeToString(deterministic=True))
    return tf.nest.pack_sequence_as(structures[-1], results)
