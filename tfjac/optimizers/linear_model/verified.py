"""A linearisation whose gradient is compared with TensorFlow's, when the graph runs."""

import tensorflow as tf

from tfjac.graph import verified
from tfjac.optimizers.linear_model.linearisation import Linearisation


class VerifiedLinearisation(Linearisation):
    """A `Linearisation` that says where Jᵀr + Λ(w−w₀) is not the gradient that TensorFlow finds for the cost.

    Args:
        jacobian, residual, prior: as for `Linearisation`.
        gradients: list of tensors of the variables' shapes, TensorFlow's gradient.
        names: list of what the variables are called.
        magnitude: how large r is, or the terms that cancel in it, a scalar tensor.

    Cost: the backward pass that TensorFlow's gradient takes, and the column norms of J.
    """

    def __init__(self, jacobian, residual, prior, gradients, names, magnitude):
        super().__init__(jacobian, residual, prior)
        self._gradients, self._names, self._magnitude = gradients, names, magnitude

    def cast(self, dtype):
        """Return a `Linearisation` in another dtype; the comparison is in this one."""
        with tf.control_dependencies([self.gradient()]):
            residual = tf.cast(tf.identity(self.residual), dtype)
        return Linearisation(self.jacobian.cast(dtype), residual, self.prior.cast(dtype))

    def gradient(self):
        """Return g `[p]`, compared."""
        return self._compared(super().gradient())

    def gram_and_gradient(self):
        """Return JᵀJ `[p, p]` and g `[p]`, compared."""
        gram, gradient = super().gram_and_gradient()
        return gram, self._compared(gradient)

    def _compared(self, gradient):
        """Compare variable by variable, on the scale of ‖J_v‖·‖r‖, as the terms of Jᵀr may cancel."""
        ours, norms = self.columns.split(gradient), self.columns.split(tf.sqrt(self.diagonal()))
        priors, length = self.columns.split(self.prior.gradient), tf.maximum(self._magnitude, _norm(self.residual))
        parts = []
        for part, theirs, norm, prior, name in zip(ours, self._gradients, norms, priors, self._names):
            what = f"for variable {name}, the gradient from residuals differs from that of TensorFlow"
            parts.append(verified(part, theirs, _norm(norm) * length + _norm(prior), what))
        return self.columns.flatten(parts)


def _norm(tensor):
    """The Euclidean norm, also where the squares underflow."""
    largest = tf.reduce_max(tf.abs(tf.concat([tf.reshape(tensor, [-1]), tf.zeros([1], tensor.dtype)], axis=0)))
    return largest * tf.norm(tf.math.divide_no_nan(tensor, largest))
