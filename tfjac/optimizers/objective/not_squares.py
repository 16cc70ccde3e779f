"""The error for a loss that is no sum of squares and convex functions."""

import tensorflow as tf

KNOWN_FROM = {
    "Abs": "an absolute value, as in 'mae', L1, L1L2 and orthogonal regularisers, which has no curvature",
    "Maximum": "a maximum, as in hinge losses, which has no curvature",
    "StatelessWhile": "a loop",
    "TensorListStack": "a loop, as of tf.map_fn: tf.vectorized_map computes the same without one",
    "While": "a loop",
    "Sqrt": "a root, as of a mean of squares: minimise the mean itself",
}
"""Where ops that are refused usually come from."""


class NotASumOfSquares(ValueError):
    """The loss is no sum of squares and convex functions; `op` is the op at which it stops being one.

    `term` is the op at which the term of the loss begins that ends there.
    """

    def __init__(self, op: tf.Operation, reason: str, term: tf.Operation | None = None) -> None:
        self.op, self.reason = op, reason
        self.term = op if term is None else term
        linear = f", which the term of the loss at op {self.term.name!r} of type {self.term.type} is linear in"
        super().__init__(
            "Levenberg-Marquardt needs a loss that is a sum of squares, such as 'mse', or of convex functions of "
            "outputs, such as cross-entropies, Poisson and Huber, possibly weighted, with L2 regularisers. Going back "
            f"from the loss, {reason}. Use such a loss, tfjac.GaussianNLL for a normal likelihood with a learned "
            "variance, declare a convex one of your own by tfjac.register_curvature, or call minimize(residuals, "
            f"variables) with residuals of your own. Received: op {op.name!r} of type {op.type}"
            f"{'' if self.term is op else linear}"
        )
