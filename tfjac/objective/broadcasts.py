"""Residuals that are n² where n were meant: `[n, 1]` less `[n]`, broadcast to `[n, n]`."""

from collections.abc import Sequence

import tensorflow as tf

from tfjac._warn import warn
from tfjac.graph import Dependence
from tfjac.graph.op_types import PERMUTING
from tfjac.types import Tensor

_DIFFERENCES = ("Sub", "SquaredDifference")
_THROUGH = {*PERMUTING, "Mul", "RealDiv", "Div", "Neg", "Cast", "Square"}
"""Ops between a residual and the difference that it is: weights, squares, moves."""


def warn_of_broadcasts(residuals: Sequence[Tensor], dependence: Dependence) -> None:
    """Warn where a residual is a difference whose sides TensorFlow has broadcast to each other, all with all.

    Only the difference that a residual itself is counts: others inside a model, as of all pairs of points, are meant.

    Args:
        dependence: `Dependence` on the variables.
    """
    for residual in residuals:
        op = _difference(residual, dependence)
        if op is not None and _is_all_with_all(*(x.shape for x in op.inputs)):
            left, right = (x.shape for x in op.inputs)
            warn(
                "tfjac: a difference of two tensors, one with an axis of size 1 that the other lacks, is that of all "
                "elements with all: n² residuals in place of n. Give both the same shape, by y[:, None] or "
                f"tf.squeeze(prediction, -1). Received: {left} − {right} in op {op.name!r}",
            )


def _difference(tensor: Tensor, dependence: Dependence) -> tf.Operation | None:
    """Return the op of the difference that a residual is but for weights and moves; None where it is none."""
    while tensor.op.type in _THROUGH:
        live = [x for x in tensor.op.inputs if dependence.reaches(x)]
        if not live:
            return None
        tensor = live[0]
    return tensor.op if tensor.op.type in _DIFFERENCES else None


def _is_all_with_all(left: tf.TensorShape, right: tf.TensorShape) -> bool:
    """Return whether shapes are [..., n, 1] and [..., n], in either order, n not 1."""
    if left.rank is None or right.rank is None or left.rank == right.rank:
        return False
    longer, shorter = sorted((list(left), list(right)), key=len, reverse=True)
    return len(longer) == len(shorter) + 1 >= 2 and longer[-1] == 1 and longer[-2] != 1 and longer[-2] == shorter[-1]
