"""`count_flops`: the floating-point operations of a value and its gradient."""

import tensorflow as tf

from tfjac.flops.counting import Counter
from tfjac.flops.passes import passes_of
from tfjac.flops.report import FlopCount
from tfjac.graph import read_graph
from tfjac.jacobians.nests import sources_of


@tf.autograph.experimental.do_not_convert
def count_flops(ys, xs):
    """Count the floating-point operations of computing ys, and of the gradient of Σ ys with respect to xs.

    The backward pass is the graph of `tf.gradients(ys, xs)`, without what it does not need; what it reads of the
    forward pass is counted there alone. A multiplication and an addition are two operations; functions of one number
    count as one. Loops count as often as they run, where the graph fixes that; of branches the costliest counts. What
    cannot be told, and why, is listed, in `uncounted` and in the table.

    Args:
        ys: floating-point tensor of the `tf.function` being traced, or a nest of such tensors; or a callable without
            arguments that returns it, anywhere. It is traced, and not run.
        xs: tensor that ys are computed from, `tf.Variable`, `keras.Variable`, or a nest of them.

    Returns:
        A `FlopCount`: `forward`, `backward`, `by_layer`, `by_type`, `ops`, `uncounted`, `pruned`. It prints as a table.

    Raises:
        ValueError: for tensors that are eager or of another graph.
        TypeError: for ys or xs that are not floating-point, or no tensors at all.
        LookupError: for an op whose gradient is not registered, on the way from xs to ys.

    Cost: a copy of the graph, and its gradient; nothing is added to the graph of ys.
    """

    def read(ys):
        flat = tf.nest.flatten(ys)
        passes = passes_of(flat, sources_of(xs, may_be_complex=True))
        return _count(passes)

    return read_graph(read, ys)


def _count(passes):
    counter = Counter()
    needed = {x.ref() for op in (*passes.forward, *passes.backward) for x in op.inputs}
    needed |= {tensor.ref() for tensor in (*passes.ys, *passes.gradients)}
    with passes.graph.as_default():
        counted = counter.count(passes.forward, False, needed) + counter.count(passes.backward, True, needed)
        pruned = counter.count(passes.pruned, True, {x.ref() for op in passes.pruned for x in op.inputs})
    return FlopCount(tuple(counted), tuple(each for each in pruned if each.flops != 0))
