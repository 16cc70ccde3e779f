"""The error for a loss that is no sum of squares and convex functions."""

import tensorflow as tf

KNOWN_FROM = {
    "Abs": "an absolute value, as in 'mae', L1, L1L2 and orthogonal regularisers, which has no curvature",
    "Maximum": "a maximum, as in hinge losses, which has no curvature",
    "Minimum": "a minimum, which has no curvature",
    "Relu": "straight lines with a kink, which have no curvature",
    "StatelessWhile": "a loop",
    "TensorListStack": "a loop, as of tf.map_fn: tf.vectorized_map computes the same without one",
    "While": "a loop",
    "Sqrt": "a root, as of a mean of squares: minimise the mean itself",
}
"""Where ops that are refused usually come from."""

_SMOOTH = (
    "Smooth ones are 'huber', 'log_cosh', 'squared_hinge' and L2; for a quantile tau of u = y_true - y_pred, with a "
    "small s, tau * u + s * softplus(-u / s)"
)
_CONVEX = (
    "Take squares or convex functions of outputs; tfjac.GaussianNLL is a normal likelihood with a learned variance. "
    "Of another smooth loss, examples apart, tfjac.register_curvature(loss) takes the positive part of the Hessian"
)
_SIMPLE = {"While": "", "StatelessWhile": "", "TensorListStack": "", "Sqrt": ""}
_REMEDIES = dict.fromkeys(("Abs", "Maximum", "Minimum", "Relu", "Select", "SelectV2"), _SMOOTH) | _SIMPLE
"""What to do about an op, where that is not the general advice; empty where the reason says it."""


class NotASumOfSquares(ValueError):
    """The loss is no sum of squares and convex functions; `op` is the op at which it stops being one.

    `term` is the op at which the term of the loss begins that ends there, `remedy` what to do, where that is special.
    """

    def __init__(
        self, op: tf.Operation, reason: str, term: tf.Operation | None = None, remedy: str | None = None
    ) -> None:
        self.op, self.reason = op, reason
        self.term = op if term is None else term
        linear = f", which the term of the loss at op {self.term.name!r} of type {self.term.type} is linear in"
        remedy = _REMEDIES.get(op.type, _CONVEX) if remedy is None else remedy
        super().__init__(
            f"Op {op.name!r} has no place in a sum of squares or of convex functions: {reason}. "
            f"{remedy}{'. ' if remedy else ''}Received: op {op.name!r} of type {op.type}"
            f"{'' if self.term is op else linear}"
        )
