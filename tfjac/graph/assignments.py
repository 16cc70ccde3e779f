"""Variables that change between what was computed and what is computed again."""

import tensorflow as tf

from tfjac.graph.facts import reads_variable
from tfjac.graph.traversal import stands_before


def check_not_assigned_since(op):
    """Check that what `op` reads by itself, a loop or a call of a function, is still what it was.

    Its body runs again, at the place in the program where the graph is being added to.

    Raises:
        ValueError: where a variable that it captures is assigned after it.
    """
    for handle in op.inputs:
        if handle.dtype != tf.resource:
            continue
        assignments = [user for user in handle.consumers() if user.type.startswith(("Assign", "Resource"))]
        later = [user for user in assignments if not reads_variable(user) and stands_before(op, user)]
        if later:
            raise ValueError(
                "A loop or function on the way to ys reads a variable that is assigned after it. Take the Jacobian "
                f"before the assignment. Received: {op.name!r} of type {op.type}, assignment {later[-1].name!r}"
            )
