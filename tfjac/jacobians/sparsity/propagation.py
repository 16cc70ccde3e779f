"""The pattern of a Jacobian, by carrying index sets from x to y through the ops between them."""

import contextlib

import scipy.sparse
import tensorflow as tf

from tfjac.graph import differentiable_path, in_graph, inline_calls
from tfjac.jacobians.nests import like, sources_of
from tfjac.jacobians.sparsity.by_gradient import index_sets_by_gradient
from tfjac.jacobians.sparsity.fixed_values import FixedValues
from tfjac.jacobians.sparsity.index_sets import empty
from tfjac.jacobians.sparsity.pattern import SparsityPattern
from tfjac.jacobians.sparsity.rules import NoRule, Step, all_of_all, index_sets_of


@tf.autograph.experimental.do_not_convert
def sparsity(ys, xs):
    """Return where the Jacobian ∂ys/∂xs may differ from zero, from the graph alone.

    For each element of each tensor between xs and ys, the set of elements of xs that it depends on is carried along:
    exactly through ops that act element by element, move elements, reduce, multiply, convolve or scatter, with
    constants taken into account (zeros of a stencil, of a mask, of a differentiation matrix; indices of a gather).
    For other ops, and custom gradients, the structure of their gradient is followed. What is then still not known is
    taken to depend on everything, so the pattern may be too large but is never too small.

    Args:
        ys: tensor of the `tf.function` being traced, of any shape, or a nest of them, whose elements then follow one
            another; or a callable without arguments that returns it.
        xs: a variable, a tensor of that `tf.function`, or a nest of them, whose elements then follow one another. With
            a callable, an eager tensor that it uses.

    Returns:
        A `SparsityPattern` of shape `[elements of ys, elements of xs]`.

    Raises:
        ValueError: where a shape between xs and ys is not known while tracing, or ys does not depend on xs.
        TypeError: for ys or xs that are not floating-point, or no tensors at all.

    Cost: while tracing, time and memory in proportion to the sizes of the index sets, summed over the tensors between
    xs and ys. Nothing when the graph runs.
    """
    found = []

    def compute(ys):
        flat_ys, sources = targets_and_sources(ys, xs)
        found.append(pattern_between(sources, [num_elements(x) for x in tf.nest.flatten(xs)], flat_ys))
        return tf.constant(0)

    in_graph(compute, ys)
    return found[0]


def targets_and_sources(ys, xs):
    """Return the flat tensors of `ys` without function calls on the way, and what stands for each of `xs` there.

    Raises:
        ValueError: for an x that no y depends on.
    """
    ys, sources = tf.nest.flatten(ys), sources_of(xs)
    ys = inline_calls(ys, depends_on=[source for source in sources if source is not None])
    for x, source in zip(tf.nest.flatten(xs), sources):
        if source is None or (not any(y is source for y in ys) and not differentiable_path([source], ys)):
            raise ValueError(
                "ys does not depend on this x by any path that a gradient passes through; leave it out, or look for a "
                f"stop_gradient, an integer or a comparison on the way. Received: {x!r}"
            )
    return ys, sources


def num_elements(x):
    """Return the static number of elements of a tensor or variable."""
    shape = like(x).shape
    if not shape.is_fully_defined():
        raise ValueError(
            "A sparsity pattern needs static shapes: give the tf.function an input_signature, or fix the shape with "
            f"tf.ensure_shape. Received: {x!r}"
        )
    return shape.num_elements()


def pattern_between(sources, sizes, ys):
    """Carry index sets from `sources`, of these sizes, to the tensors `ys` of the same graph."""
    patterns = _patterns_of_sources(sources, sizes)
    fixed, opaque = FixedValues(), []
    for op in differentiable_path(sources, ys):
        step = Step(op, [patterns.get(tensor.ref()) for tensor in op.inputs], fixed)
        if not step.carriers:
            continue
        for output in op.outputs:
            num_elements(output)
        outputs = _index_sets(step)
        if outputs is None:
            opaque.append(op.name)
            outputs = all_of_all(step)
        patterns.update({o.ref(): sets for o, sets in zip(op.outputs, outputs) if sets is not None})
    rows = [patterns.get(y.ref(), empty(num_elements(y), sum(sizes))) for y in ys]
    return SparsityPattern(scipy.sparse.vstack(rows, format="csr"), opaque)


def _index_sets(step):
    """The index sets of the outputs by a rule, else from the op's gradient; None where neither knows."""
    for way in (index_sets_of, lambda step: index_sets_by_gradient(step, pattern_between)):
        with contextlib.suppress(NoRule):
            return way(step)
    return None


def _patterns_of_sources(sources, sizes):
    """Each element of x depends on itself; x takes its place among all xs."""
    patterns, total, offset = {}, sum(sizes), 0
    for source, size in zip(sources, sizes):
        matrix = scipy.sparse.eye_array(size, total, k=offset, dtype=bool, format="csr")
        known = patterns.get(source.ref())
        patterns[source.ref()] = matrix if known is None else known + matrix
        offset += size
    return patterns
