"""A Keras loss for a normal distribution of which the network gives mean and variance."""

import math

import keras
import tensorflow as tf

from tfjac.objective.declared import register_curvature
from tfjac.types import Config, DType, Tensor


@keras.saving.register_keras_serializable("tfjac")
class GaussianNLL(keras.losses.Loss):
    """½ (s + (y − µ)² exp(−s)), the negative logarithm of a normal likelihood, averaged over the targets.

        outputs = keras.layers.Dense(2)(hidden)  # µ, and s = log σ²
        model.compile(optimizer=tfjac.LevenbergMarquardt(), loss=tfjac.GaussianNLL())

    Any optimizer can minimise it. It is not convex. `LevenbergMarquardt` takes the Fisher information in place of the
    Hessian: exp(−s) for µ, and ½ for s. The gradient is that of the loss.

    Args:
        full: whether to add the constant ½ log 2π.
        reduction, name, dtype: as for every Keras loss.

    The targets are `[n, ..., m]`, and the outputs of the model `[n, ..., 2 m]`: first all µ, then all s. For other
    forms, such as σ = softplus(z), there is `register_curvature` with `hessian_root=tfjac.fisher_of_normal(...)`.

    Raises:
        ValueError: while tracing, for outputs that are not twice as many as the targets.

    Reference: D. Nix, A. Weigend, "Estimating the mean and variance of the target probability distribution", 1994.
    """

    def __init__(
        self,
        full: bool = False,
        reduction: str | None = "sum_over_batch_size",
        name: str = "gaussian_nll",
        dtype: DType = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.full = full

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Return the loss of each example, `[n, ...]` without the last axis."""
        outputs = tf.convert_to_tensor(y_pred)
        targets = tf.cast(y_true, outputs.dtype)
        if targets.shape[-1] is not None and outputs.shape[-1] != 2 * targets.shape[-1]:
            raise ValueError(
                "GaussianNLL needs two outputs for each target: first all means, then all logarithms of variances. "
                f"Give the last layer {2 * targets.shape[-1]} units. Received: outputs of shape {outputs.shape}, "
                f"targets of shape {targets.shape}"
            )
        constant = math.log(2 * math.pi) / 2 if self.full else 0.0
        return _negative_log_likelihood(targets, outputs) + tf.constant(constant, outputs.dtype)

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        return {**super().get_config(), "full": self.full}


def _fisher(targets: Tensor, outputs: Tensor) -> Tensor:
    """The Fisher information of the mean over the targets, a diagonal `[..., 2 m]`."""
    _, log_variance = tf.split(outputs, 2, axis=-1)
    each = [tf.exp(-log_variance), tf.fill(tf.shape(log_variance), tf.constant(0.5, outputs.dtype))]
    return tf.concat(each, axis=-1) / tf.cast(tf.shape(log_variance)[-1], outputs.dtype)


def _value(targets: Tensor, outputs: Tensor) -> Tensor:
    mean, log_variance = tf.split(outputs, 2, axis=-1)
    return tf.reduce_mean(log_variance + tf.square(targets - mean) * tf.exp(-log_variance), axis=-1) / 2


_negative_log_likelihood = register_curvature(_value, hessian=_fisher)
