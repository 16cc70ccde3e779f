"""The forward and the backward pass as ops of a graph of their own, which nobody else sees and nothing runs."""

import dataclasses

import tensorflow as tf

from tfjac.graph import (
    LOOPS,
    ancestors,
    captures_of,
    copy_handle_data,
    handle_spec,
    inline_calls,
    rebuilt,
    transplant,
)


@dataclasses.dataclass(frozen=True)
class Passes:
    """A copy of what some ys are computed from, with the gradient.

    Attributes:
        graph: the `tf.Graph` that it is in.
        ys, gradients: the results of both passes, lists of tensors; no gradients where there is no path.
        forward, backward: the ops of each, inputs before consumers; the backward pass without those of the forward one.
        pruned: ops that belong to gradients with respect to something else: made, and not needed.
        parameters: pairs of a tensor of the original graph that nothing computes, and what stands for it here.
    """

    graph: tf.Graph
    ys: list
    gradients: list
    forward: list
    backward: list
    pruned: list
    parameters: list


def passes_of(ys, sources):
    """Return the `Passes` of the gradient of Σ ys with respect to `sources`.

    Args:
        ys: list of tensors of one graph.
        sources: list of tensors or handles of variables of that graph, None for one that it never uses.
    """
    origin = ys[0].graph
    with tf.Graph().as_default() as graph:
        parameters = [(old, _parameter(old)) for old in _parameters(ys)]
        copies = transplant(ys, parameters, _with_loops_anew)
        targets = inline_calls([copies[y.ref()] for y in ys], draw_again=True)
        forward = ancestors(targets)
        made = len(graph.get_operations())
        found = [copies[source.ref()] for source in sources if source is not None and source.ref() in copies]
        gradients = [gradient for gradient in _gradients(targets, found) if gradient is not None]
    needed = ancestors(gradients)
    known = {op.name for op in forward}
    backward = [op for op in needed if op.name not in known]
    known |= {op.name for op in backward}
    pruned = [op for op in graph.get_operations()[made:] if op.name not in known]
    external = {inner.ref(): outer for outer, inner in captures_of(origin)}
    given = [(external.get(old.ref(), old), new) for old, new in parameters]
    return Passes(graph, targets, gradients, forward, backward, pruned, given)


def _parameters(ys):
    """The tensors that `ys` are computed from and nothing computes: arguments of functions, and what they captured."""
    return [op.outputs[0] for op in ancestors(ys) if op.type == "Placeholder"]


def _parameter(old):
    spec = handle_spec(old)
    if spec is not None:
        return tf.raw_ops.VarHandleOp(dtype=spec.dtype, shape=spec.shape, shared_name=old.op.name, name=old.op.name)
    new = tf.compat.v1.placeholder(old.dtype, old.shape, old.op.name)
    copy_handle_data(old, new)
    return new


def _with_loops_anew(op, inputs):
    """Loops written anew: TensorFlow's gradient of a copy of one forgets the shapes of the variables in it."""
    if op.type not in LOOPS:
        return None
    return rebuilt(op, inputs, lambda targets, values: transplant(targets, values, _with_loops_anew))


def _gradients(ys, xs):
    cotangents = [tf.ones_like(y) for y in ys] if any(y.dtype.is_complex for y in ys) else None  # not taken as given
    gradients = tf.gradients(ys, xs, cotangents) if xs else []
    return [getattr(gradient, "values", gradient) for gradient in gradients]
