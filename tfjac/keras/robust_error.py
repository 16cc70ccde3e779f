"""A robust loss for Keras: the mean squared error, in which outliers count for less."""

import keras
import tensorflow as tf

from tfjac.arguments import resolve
from tfjac.objective.declared import register_curvature
from tfjac.objective.robust import LOSSES
from tfjac.types import Config, DType, LossName, Tensor


@keras.saving.register_keras_serializable("tfjac")
class RobustError(keras.losses.Loss):
    """c²ρ(e²/c²) of each error e = y_pred − y_true by itself, averaged over the last axis.

        model.compile(optimizer=tfjac.LevenbergMarquardt(), loss=tfjac.RobustError("cauchy", scale=0.1))

    Of errors much smaller than c it is the mean squared error; of larger ones it grows less. Any optimizer can minimise
    it. `LevenbergMarquardt` takes least squares, reweighted by ρ′ (as `least_squares(loss=…)` does), although most of
    these losses are not convex.

    Args:
        loss: `"huber"`, `"soft_l1"`, `"cauchy"`, `"arctan"`, `"tukey"`, `"welsch"`, or `"geman_mcclure"`: the ρ of
            `tfjac.objective.robust`.
        scale: c, about where an error becomes an outlier, a positive number.
        reduction, name, dtype: as for every Keras loss.

    Raises:
        ValueError: for an unknown loss, or a scale that is not positive.
    """

    def __init__(
        self,
        loss: LossName = "cauchy",
        scale: float = 1.0,
        reduction: str | None = "sum_over_batch_size",
        name: str = "robust_error",
        dtype: DType = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.loss, self.scale = loss, scale
        self._function = type(resolve("loss", loss, LOSSES))(scale)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Return the loss of each example, `[n, ...]` without the last axis."""
        error = tf.convert_to_tensor(y_pred)
        return tf.reduce_mean(self._of_errors(error - tf.cast(y_true, error.dtype)), axis=-1)

    def _of_errors(self, error: Tensor) -> Tensor:
        scale = tf.constant(self.scale, error.dtype)

        def value(error: Tensor) -> Tensor:
            return tf.square(scale) * self._function.value(tf.square(error / scale))

        def curvature(error: Tensor) -> Tensor:
            return 2 * self._function.slopes(tf.square(error / scale))[0]

        return register_curvature(value, hessian=curvature)(error)

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        return {**super().get_config(), "loss": self.loss, "scale": self.scale}
