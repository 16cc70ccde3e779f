"""What gradient tapes of TensorFlow's do not see of gradients that are taken inside of a graph."""

import warnings

from tfjac.graph import _private
from tfjac.graph.facts import is_loop
from tfjac.graph.traversal import between


def warn_of_loops_under_a_tape(ys, sources):
    """Warn where a tape records a gradient that goes back through a loop.

    A loop is given more outputs when its gradient is taken: what it saves of each step. A tape, inside of a
    `tf.function`, knows of the loop as it was, and of a part of the second derivative alone. `tf.gradients` knows all.
    """
    if not _private.is_taped():
        return
    loop = next((op for op in between(sources, ys) if is_loop(op)), None)
    if loop is not None:
        warnings.warn(
            f"tfjac: a gradient tape records a gradient through the loop {loop.name!r}, and TensorFlow's tapes lose a "
            "part of the derivatives of such gradients: differentiate the result by tf.gradients or tfjac.vjp, not by "
            "the tape, or compute it outside of the tape.",
            UserWarning,
            stacklevel=2,
        )
