"""Robust losses: functions that grow less than squares do, so that outliers count for less.

F = ½ Σ c² ρ(z) with z = (r/c)², for each residual r by itself; c, the scale, is about where r becomes an outlier. Every
ρ here has ρ(0) = 0, ρ′(0) = 1 and ρ″ ≤ 0. The gradient of F is Σ ρ′ r ∇r, and its curvature along r is ρ′ + 2zρ″, less
than zero for an outlier. Triggs' correction would give JᵀJ as much of that as is positive; Ceres leaves the second term
out where ρ″ ≤ 0, so that r and J are both scaled by √ρ′: least squares, reweighted. The quadratic model then lies above
F, and steps need no damping to lower it; it takes fewer of them, too (8 against 12 to 29 for Huber's loss, with the
second term at a tenth of ρ′ or next to nothing, on decays with outliers).
Reference: B. Triggs et al., "Bundle adjustment: a modern synthesis", 2000, section 4.3; Ceres Solver, `Corrector`.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import tensorflow as tf

from tfjac.arguments import positive, resolve
from tfjac.graph import call_converted, refusing_values
from tfjac.types import Function, LossName, Scalar, Tensor


class RobustLoss(abc.ABC):
    """ρ, and the scale c of the residuals.

    Args:
        scale: c.
    """

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = positive("loss_scale", scale)

    @abc.abstractmethod
    def value(self, z: Tensor) -> Tensor:
        """Return ρ(z) of a tensor of z ≥ 0."""

    @abc.abstractmethod
    def slopes(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return ρ′(z) and zρ″(z)."""

    def cost(self, residual: Tensor, unit: Scalar = 1, axis: int | Sequence[int] | None = None) -> Tensor:
        """Return ½ Σ c² ρ((r/c)²), over `axis` or all of it; residuals and scale are both measured in `unit`."""
        scale = tf.constant(self.scale, residual.dtype) / unit
        return tf.reduce_sum(tf.square(scale) * self.value(tf.square(residual / scale)), axis) / 2

    def linearised(self, residual: Tensor, unit: Scalar = 1) -> Tensor:
        """Return r̃ = √ρ′·r with √ρ′ held constant, so that J̃ᵀr̃ = ∇F."""
        slope, _ = self.slopes(tf.square(residual / (tf.constant(self.scale, residual.dtype) / unit)))
        return tf.stop_gradient(tf.sqrt(slope)) * residual


class Huber(RobustLoss):
    """ρ = z up to 1, 2√z − 1 beyond: squares, then absolute values."""

    def value(self, z: Tensor) -> Tensor:
        return tf.where(z <= 1, z, 2 * tf.sqrt(tf.maximum(z, 1)) - 1)

    def slopes(self, z: Tensor) -> tuple[Tensor, Tensor]:
        slope = tf.math.rsqrt(tf.maximum(z, 1))
        return slope, tf.where(z <= 1, tf.zeros_like(z), -slope / 2)


class SoftL1(RobustLoss):
    """ρ = 2(√(1 + z) − 1): Huber's, smooth."""

    def value(self, z: Tensor) -> Tensor:
        return 2 * z / (tf.sqrt(1 + z) + 1)

    def slopes(self, z: Tensor) -> tuple[Tensor, Tensor]:
        slope = tf.math.rsqrt(1 + z)
        return slope, -slope * z / (1 + z) / 2


class Cauchy(RobustLoss):
    """ρ = ln(1 + z)."""

    def value(self, z: Tensor) -> Tensor:
        return tf.math.log1p(z)

    def slopes(self, z: Tensor) -> tuple[Tensor, Tensor]:
        slope = 1 / (1 + z)
        return slope, -slope * (1 - slope)


class Arctan(RobustLoss):
    """ρ = arctan z: no residual costs more than π/2."""

    def value(self, z: Tensor) -> Tensor:
        return tf.math.atan(z)

    def slopes(self, z: Tensor) -> tuple[Tensor, Tensor]:
        slope = 1 / (1 + tf.square(z))
        return slope, -2 * tf.square(z) * tf.square(slope)


class Tukey(RobustLoss):
    """ρ = (1 − (1 − z)³)/3 up to 1, ⅓ beyond: Tukey's biweight, by which an outlier has no influence at all."""

    def value(self, z: Tensor) -> Tensor:
        return (1 - (1 - tf.minimum(z, 1)) ** 3) / 3

    def slopes(self, z: Tensor) -> tuple[Tensor, Tensor]:
        inside = 1 - tf.minimum(z, 1)
        return tf.square(inside), -2 * tf.minimum(z, 1) * inside


class Welsch(RobustLoss):
    """ρ = 1 − exp(−z)."""

    def value(self, z: Tensor) -> Tensor:
        return -tf.math.expm1(-z)

    def slopes(self, z: Tensor) -> tuple[Tensor, Tensor]:
        slope = tf.exp(-z)
        return slope, -tf.math.multiply_no_nan(z, slope)


class GemanMcClure(RobustLoss):
    """ρ = z/(1 + z)."""

    def value(self, z: Tensor) -> Tensor:
        return 1 - 1 / (1 + z)

    def slopes(self, z: Tensor) -> tuple[Tensor, Tensor]:
        part = 1 / (1 + z)
        return tf.square(part), -2 * tf.square(part) * (1 - part)


class FunctionLoss(RobustLoss):
    """ρ by a function of z, as SciPy's `loss` may be.

    Args:
        function: callable of a tensor of z ≥ 0, `[n]`, that computes by TensorFlow and returns ρ `[n]`, of which the
            derivatives are taken, or ρ, ρ′ and ρ″, `[3, n]`. ρ(0) = 0, ρ′(0) = 1, and ρ does not fall.
        scale: c.
    """

    def __init__(self, function: Function, scale: float = 1.0) -> None:
        super().__init__(scale)
        self.function = function

    def value(self, z: Tensor) -> Tensor:
        return self._parts(z)[0]

    def slopes(self, z: Tensor) -> tuple[Tensor, Tensor]:
        _, first, second = self._parts(z)
        return first, z * second

    def _parts(self, z: Tensor) -> list[Tensor]:
        flat = tf.reshape(z, [-1])
        with tf.GradientTape() as outer:
            outer.watch(flat)
            with tf.GradientTape() as inner:
                inner.watch(flat)
                with refusing_values("loss", "it is one of z = (r/loss_scale)²"):
                    found = tf.convert_to_tensor(call_converted(self.function, flat))
            if found.shape.rank == 1:
                first = inner.gradient(found, flat, unconnected_gradients=_ZERO)
        if found.shape.rank == 1:
            found = tf.stack([found, first, outer.gradient(first, flat, unconnected_gradients=_ZERO)])
        if found.shape.rank != 2 or found.shape[0] != 3:
            raise ValueError(
                "A function for loss returns ρ(z), of the shape of z, or ρ, ρ′ and ρ″ in one tensor [3, n]. "
                f"Received: loss={self.function!r}, which returns shape {found.shape} for z of shape {flat.shape}"
            )
        return [tf.reshape(each, tf.shape(z)) for each in tf.unstack(found)]


_ZERO = tf.UnconnectedGradients.ZERO

LOSSES = {
    "huber": Huber,
    "soft_l1": SoftL1,
    "cauchy": Cauchy,
    "arctan": Arctan,
    "tukey": Tukey,
    "welsch": Welsch,
    "geman_mcclure": GemanMcClure,
}

LossLike: TypeAlias = LossName | Literal["linear"] | RobustLoss | Function | None


def influence(residual: Tensor, loss: Any) -> tuple:
    """Return ψ², ψ′ and ρ′ of each residual, with ψ = ρ′r and ψ′ = ρ′ + 2zρ″: r², one and one for squares.

    Args:
        loss: `RobustLoss`, or None.
    """
    if loss is None:
        return tf.square(residual), tf.ones_like(residual), tf.ones_like(residual)
    slope, bend = loss.slopes(tf.square(residual / tf.constant(loss.scale, residual.dtype)))
    return tf.square(slope * residual), slope + 2 * bend, slope


def get_losses(
    loss: LossLike | Sequence[LossLike], scale: float | Sequence[float | None] | None
) -> RobustLoss | tuple[RobustLoss | None, ...] | None:
    """Return the losses that the arguments `loss` and `loss_scale` of `least_squares` name.

    Args:
        loss: a name, a `RobustLoss`, a function as of `FunctionLoss`, or None (or `"linear"`) for squares; or a list of
            these, one for each block.
        scale: a number, or a list of them; None for one. An object has its own scale.

    Returns:
        A `RobustLoss` or None, for all blocks, or a tuple of them, for each.
    """
    if isinstance(loss, (list, tuple)):
        scales = scale if isinstance(scale, (list, tuple)) else [scale] * len(loss)
        if len(scales) != len(loss):
            raise ValueError(
                f"loss_scale must hold one number for each loss. Received: {len(loss)} losses, loss_scale={scale!r}"
            )
        return tuple(_loss(*pair) for pair in zip(loss, scales))
    return _loss(loss, scale)


def losses_of(losses: RobustLoss | tuple[RobustLoss | None, ...] | None, count: int) -> list[RobustLoss | None]:
    """Return a list of what `get_losses` returned, one for each of `count` blocks of residuals.

    Raises:
        ValueError: for another number of losses than blocks.
    """
    if not isinstance(losses, tuple):
        return [losses] * count
    if len(losses) != count:
        raise ValueError(
            "A list of losses has one for each tensor that residuals returns, in the order of tf.nest.flatten. "
            f"Received: {len(losses)} losses, {count} tensors"
        )
    return list(losses)


def _loss(loss: Any, scale: Any) -> RobustLoss | None:
    if isinstance(loss, RobustLoss) or loss in (None, "linear"):
        if scale is not None:
            positive("loss_scale", scale)
        return None if isinstance(loss, str) else loss
    if callable(loss) and not isinstance(loss, type):
        return FunctionLoss(loss, 1.0 if scale is None else scale)
    found = resolve("loss", loss, LOSSES)
    return found if scale is None else type(found)(scale)
