"""A linearisation whose gradient is compared with TensorFlow's, when the graph runs."""

from typing import Any, NamedTuple

import tensorflow as tf

from tfjac.graph import resolution_of, verified
from tfjac.linear.columns import Columns
from tfjac.linear.contracts import JacobianRows
from tfjac.linear.model.linearisation import Linearisation
from tfjac.linear.model.units import Units
from tfjac.linear.prior import Prior
from tfjac.types import Tensor


class ReferenceGradient(NamedTuple):
    """TensorFlow's gradient of the cost with respect to one variable.

    Attributes:
        value: tensor of the variable's shape.
        rounding: scalar tensor, what rounding changes in it, as seen. Where its terms cancel before they meet the
            weight, as at a bias before a batch normalisation, neither J nor g shows how large they were.
    """

    value: tf.Tensor
    rounding: tf.Tensor


class VerifiedLinearisation(Linearisation):
    """A `Linearisation` that says where Jᵀr + Λ(w−w₀) is not the gradient that TensorFlow finds for the cost.

    Args:
        jacobian, residual, prior: as for `Linearisation`.
        names: list of what the variables are called.
        magnitude: how large r is, or the terms that cancel in it, a scalar tensor.
        slope: as for `Linearisation`.

    Cost: the backward pass that TensorFlow's gradient takes, and the column norms of J.
    """

    def __init__(
        self,
        jacobian: JacobianRows,
        residual: Tensor,
        prior: Prior,
        gradients: list[ReferenceGradient],
        names: list[str],
        magnitude: Tensor,
        slope: Tensor | None = None,
    ) -> None:
        super().__init__(jacobian, residual, prior, slope)
        self._gradients, self._names, self._magnitude = gradients, names, magnitude
        self._variables = Columns([each.value for each in gradients])

    def cast(self, dtype: tf.DType) -> Linearisation:
        """Return a `Linearisation` in another dtype; the comparison is in this one."""
        with tf.control_dependencies([self.gradient()]):
            residual = tf.identity(self.residual)
        return Linearisation(self.jacobian, residual, self.prior, self._slope).cast(dtype)

    def in_units(self, units: Units) -> "VerifiedLinearisation":
        """Return the same in `Units`, the gradients that are compared with, too."""
        changed: Any = super().in_units(units)
        numbers = tf.unstack(tf.cast(units.numbers, self.dtype))
        gradients = [
            ReferenceGradient(unit * each.value, unit * each.rounding) for unit, each in zip(numbers, self._gradients)
        ]
        given = changed.jacobian, changed.residual, changed.prior, gradients
        return VerifiedLinearisation(*given, self._names, self._magnitude, changed._slope)

    def gradient(self) -> Tensor:
        """Return g `[p]`, compared."""
        return self._compared(super().gradient())

    def gram_and_gradient(self) -> tuple[Tensor, Tensor]:
        """Return JᵀJ `[p, p]` and g `[p]`, compared."""
        gram, gradient = super().gram_and_gradient()
        return gram, self._compared(gradient)

    def _compared(self, gradient: Tensor) -> Tensor:
        """Compare variable by variable, on the scale of ‖J_v‖·‖r‖, as the terms of Jᵀr may cancel.

        Where all of J_v is of rounding, so is that scale: then that of the other variables counts, and what was seen.
        """
        split = self._variables.split
        ours, norms = split(gradient), split(tf.sqrt(self.diagonal()))
        priors, length = split(self.prior.gradient), tf.maximum(self._magnitude, _norm(self.residual))
        scales = [_norm(norm) * length + _norm(prior) for norm, prior in zip(norms, priors)]
        widest, resolution, parts = tf.reduce_max(tf.stack(scales)), resolution_of(gradient.dtype), []
        for part, theirs, scale, name in zip(ours, self._gradients, scales, self._names):
            what = f"for variable {name}, the gradient from residuals differs from that of TensorFlow"
            parts.append(verified(part, theirs.value, scale, what, resolution, theirs.rounding, widest))
        return self._variables.flatten(parts)


def _norm(tensor: Tensor) -> Tensor:
    """The Euclidean norm, also where the squares underflow."""
    largest = tf.reduce_max(tf.abs(tf.concat([tf.reshape(tensor, [-1]), tf.zeros([1], tensor.dtype)], axis=0)))
    return largest * tf.norm(tf.math.divide_no_nan(tensor, largest))
