"""The mark that a value is a convex function of some tensor: an identity that reads that tensor, and what is known."""

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.facts import is_identities

MARK = "_tfjac_curvature"


def mark_curvature(value, point, *hessian):
    """Return what equals `value`, marked as a convex function of `point`, with its Hessian if there is one.

    Gradients pass to `value` alone. The mark stays with the op where it is copied or saved.
    """
    marked = tf.raw_ops.IdentityN(input=[value, *map(tf.stop_gradient, (point, *hessian))])
    _private.set_text_attribute(marked[0].op, MARK, "hessian" if hessian else "")
    return marked[0]


def curvature_mark(tensor):
    """Return the value, the point and the Hessian (or None) of a tensor that `mark_curvature` made; None for others."""
    op = tensor.op
    if not is_identities(op) or tensor.value_index or _private.text_attribute(op, MARK) is None:
        return None
    value, point, *hessian = op.inputs
    return value, point.op.inputs[0], hessian[0] if hessian else None
