"""Why a gradient is missing, of functions that cannot be traced: run under a tape, with the line where values leave."""

import tensorflow as tf

from tfjac.explaining.report import GradientPath, Stop
from tfjac.graph import is_variable, line_of_failure
from tfjac.jacobians.passes.nests import like

_REASON = "where values leave TensorFlow: what is computed from them has no gradient"
_REMEDY = (
    "compute it by TensorFlow's ops, without .numpy(), float(…), NumPy or a list of values; or give it a gradient, by "
    "tf.custom_gradient or tfjac.external"
)


def explain_by_running(function, xs, names, failure):
    """Return the tuple of `GradientPath` for a function that needs values, by one run of it; None where it cannot be.

    Args:
        function: callable without arguments that fails while it is traced.
        xs: nest of variables and eager tensors.
        names: list of what they are called.
        failure: the exception that it raised then, which tells the line.
    """
    flat, line = tf.nest.flatten(xs), line_of_failure(failure)
    if line is None or not all(is_variable(x) or tf.is_tensor(x) for x in flat):
        return None
    sources = [like(x) for x in flat]
    try:
        with tf.GradientTape(persistent=True) as tape:
            for source in sources:
                tape.watch(source)
            ys = function()
    except Exception:  # it does not work without a graph either: the first failure is the one to tell of
        return None
    tensors = [y for y in tf.nest.flatten(ys) if tf.is_tensor(y) and (y.dtype.is_floating or y.dtype.is_complex)]
    gradients = tape.gradient(tensors, sources) if tensors else [None] * len(sources)
    stop = Stop("", "", "", line, "python", _REASON, _REMEDY)
    return tuple(_path(name, gradient, stop) for name, gradient in zip(names, gradients))


def _path(name, gradient, stop):
    if gradient is None:
        reason = "No gradient reaches it: a tf.GradientTape around one call of the function has none."
        return GradientPath(name, "lost", reason, stop.remedy, (stop,))
    return GradientPath(name, "connected", "A gradient reaches it, by another way than that line.", "", (stop,))
