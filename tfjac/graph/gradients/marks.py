"""The marks that tfjac leaves on ops: what edited a gradient, and that a value is a convex function of some tensor.

A mark stays with the op where the op is copied or saved.
"""

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.facts import is_identities
from tfjac.types import Tensor

_EDIT = "_tfjac_edit"
_CURVATURE = "_tfjac_curvature"


def mark_op(op: tf.Operation, text: str) -> None:
    """Mark an op as that of an edit; `text` is what to call it, such as "a tfjac.hook on layer 'dense'"."""
    _private.set_text_attribute(op, _EDIT, text)


def edit_mark(op: tf.Operation) -> str:
    """Return what to call the edit that has put `op` there, or changes its gradient; "" where there is none."""
    return _private.text_attribute(op, _EDIT) or ""


def copy_mark(op: tf.Operation, copy: tf.Operation) -> None:
    """Mark `copy` as `op` is marked."""
    if edit_mark(op):
        mark_op(copy, edit_mark(op))


def mark_curvature(value: Tensor, point: Tensor, *hessian: Tensor) -> Tensor:
    """Return what equals `value`, marked as a convex function of `point`, with its Hessian if there is one.

    Gradients pass to `value` alone.
    """
    marked = tf.raw_ops.IdentityN(input=[value, *map(tf.stop_gradient, (point, *hessian))])
    _private.set_text_attribute(marked[0].op, _CURVATURE, "hessian" if hessian else "")
    return marked[0]


def curvature_mark(tensor: Tensor) -> tuple[Tensor, Tensor, Tensor | None] | None:
    """Return the value, the point and the Hessian (or None) of a tensor that `mark_curvature` made; None for others."""
    op = tensor.op
    if not is_identities(op) or tensor.value_index or _private.text_attribute(op, _CURVATURE) is None:
        return None
    value, point, *hessian = op.inputs
    return value, point.op.inputs[0], hessian[0] if hessian else None
