"""`count_flops`: the floating-point operations of a value and its gradient."""

import tensorflow as tf

from tfjac.flops.counting import Counter
from tfjac.flops.measuring import measure as measure_passes
from tfjac.flops.report import FlopCount
from tfjac.graph import Scratch, ancestors, read_graph, references
from tfjac.jacobians.passes.nests import sources_of
from tfjac.types import Sources, Tensors


def count_flops(ys: Tensors, xs: Sources = (), measure: bool = False) -> FlopCount:
    """Count the floating-point operations of computing ys, and of the gradient of Σ ys with respect to xs.

    The backward pass is the graph of `tf.gradients(ys, xs)`, without what it does not need; what it reads of the
    forward pass is counted there alone. A multiplication and an addition are two operations; functions of one number
    count as one. Loops count as often as they run, where the graph fixes that; of branches the costliest counts. What
    cannot be told, and why, is listed, in `uncounted` and in the table.

    Args:
        ys: floating-point tensor of the `tf.function` being traced, or a nest of such tensors; or a callable without
            arguments that returns it, anywhere. It is traced, and not run.
        xs: tensor that ys are computed from, `tf.Variable`, `keras.Variable`, or a nest of them; or selectors of nodes,
            see `tfjac.nodes`. Without any, as of a model without trainable weights, there is no backward pass.
        measure: whether to run both passes, too, and give time and memory of each layer, `measurements`. For that ys
            must be a callable whose variables and tensors have values; its side effects do not happen. The graph runs
            as it is, without TensorFlow's optimisations, which would merge ops of different layers.

    Returns:
        A `FlopCount`: `forward`, `backward`, `by_layer`, `by_type`, `ops`, `uncounted`, `pruned`. It prints as a table.

    Raises:
        ValueError: for tensors that are eager or of another graph; with measure=True for what has no value.
        TypeError: for ys or xs that are not floating-point, or no tensors at all.
        LookupError: for an op whose gradient is not registered, on the way from xs to ys.

    Cost: a copy of the graph, and its gradient; nothing is added to the graph of ys.

    Example:
        >>> w, x = tf.Variable(tf.ones([4, 2])), tf.ones([8, 4])
        >>> tfjac.count_flops(lambda: x @ w, w).forward
        128
    """

    def read(ys, xs):
        sources = sources_of(xs, may_be_complex=True) if tf.nest.flatten(xs) else []
        return _count(Scratch(tf.nest.flatten(ys)), sources, measure)

    return read_graph(read, ys, xs)


def _count(scratch, sources, measured):
    forward, made = ancestors(scratch.ys), len(scratch.graph.get_operations())
    found = [scratch.of(source) for source in sources if scratch.of(source) is not None]
    gradients = [gradient for gradient in scratch.gradients(found) if gradient is not None]
    known = {op.name for op in forward}
    backward = [op for op in ancestors(gradients) if op.name not in known]
    known |= {op.name for op in backward}
    pruned = [op for op in scratch.graph.get_operations()[made:] if op.name not in known]
    counter, needed = Counter(), _read_by([*forward, *backward], [*scratch.ys, *gradients])
    with scratch.graph.as_default():
        counted = counter.count(forward, False, needed) + counter.count(backward, True, needed)
        others = counter.count(pruned, True, _read_by(pruned, []))
    measurements = measure_passes(scratch, gradients, counted) if measured else ()
    return FlopCount(tuple(counted), tuple(each for each in others if each.flops != 0), measurements)


def _read_by(ops, results):
    return references(results) | references(tensor for op in ops for tensor in op.inputs)
