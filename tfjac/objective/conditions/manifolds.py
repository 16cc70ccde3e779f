"""Manifolds that variables are on: steps are taken in the tangent space where the variables are, and lead back onto it.

x ⊕ δ is the point that a tangent vector δ leads to, with x ⊕ 0 = x. A step is solved for in δ, which has as many
elements as there are directions on the manifold, so that nothing is singular that need not be.
Reference: C. Hertzberg, R. Wagner, U. Frese, L. Schröder, "Integrating generic sensor fusion algorithms with sound
state representations through encapsulation of manifolds", 2013.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.arguments import positive_integer
from tfjac.graph import call_converted
from tfjac.objective.variables import variable_name
from tfjac.types import Array, Nest, Tensor, Variable

_SMALL_SQUARE = 1e-4
"""Squares of angles below which series replace quotients: their next terms are below rounding."""

_UNIT = 1e-3
"""How far from one the length of a quaternion may be, which it then keeps."""


class Manifold:
    """A manifold that the rows of a variable are on, its last axis.

    Args:
        plus: function from x `[n, size]` and δ `[n, tangent_size]` to x ⊕ δ `[n, size]`, in TensorFlow, with
            derivatives, and x ⊕ 0 = x. Each row by itself: then J stays sparse where rows are read by index.
        size: of the last axis of the variables.
        tangent_size: how many directions there are.

    Raises:
        TypeError, ValueError: for bad arguments.
    """

    def __init__(self, plus: Callable[[Tensor, Tensor], Any], size: int, tangent_size: int) -> None:
        if not callable(plus):
            raise TypeError(f"plus must be a function of x and δ. Received: {plus!r} of type {type(plus).__name__}")
        self.size, self.tangent_size = positive_integer("size", size), positive_integer("tangent_size", tangent_size)
        if self.tangent_size > self.size:
            raise ValueError(
                "A manifold has no more directions than the space that it is in. "
                f"Received: size={size!r}, tangent_size={tangent_size!r}"
            )
        self._plus = plus

    def plus(self, x: Tensor, delta: Tensor) -> Tensor:
        """Return x ⊕ δ, `[n, size]`, for x `[n, size]` and δ `[n, tangent_size]`."""
        return call_converted(self._plus, x, delta)

    def move(self, x: Tensor, delta: Tensor) -> Tensor:
        """Return x ⊕ δ for x `[..., size]` and δ `[..., tangent_size]`, of the shape of x."""
        rows, steps = (each if each.shape.rank == 2 else tf.reshape(each, [-1, each.shape[-1]]) for each in (x, delta))
        moved = self.plus(rows, steps)
        if moved is None:
            raise ValueError("plus must return a tensor like x. Received: None")
        moved = tf.convert_to_tensor(moved)
        if moved.dtype != x.dtype or not moved.shape.is_compatible_with(rows.shape):
            raise ValueError(
                f"plus must return a tensor like x, {x.dtype.name} of shape {rows.shape}. "
                f"Received: {moved.dtype.name} of shape {moved.shape}"
            )
        return moved if x.shape.rank == 2 else tf.reshape(moved, tf.shape(x))

    def magnitude(self, x: Tensor) -> Tensor:
        """Return how large x `[..., size]` is along each direction, `[..., tangent_size]` or `[..., 1]`.

        Rounding of x is as if δ were ε times as large. Here that is the length of each row, or one if that is less: δ
        may be a part of x.
        """
        return tf.minimum(tf.norm(x, axis=-1, keepdims=True), 1)

    def check(self, name: str, x: Tensor) -> None:
        """Raise ValueError unless a variable's value x `[..., size]`, eager, can be where a minimisation starts."""
        rows = tf.reshape(x, [-1, self.size])
        self._check_at_rest(name, rows)
        self._check_apart(name, rows)
        self._check_directions(name, rows)

    def _check_at_rest(self, name: str, rows: Tensor) -> None:
        gap = np.abs((self.move(rows, self._delta(rows, 0.0)) - rows).numpy())
        if not _is_rounding(gap, rows):
            raise ValueError(
                "plus must lead nowhere for δ = 0, and the variable must start on the manifold. "
                f"Received: {name}, which plus moves by {gap.max():.3g}"
            )

    def _check_apart(self, name: str, rows: Tensor) -> None:
        moves = np.arange(rows.shape[0])[:, None] % 2
        gap = np.abs((self.move(rows, self._delta(rows, 0.125 * moves)) - rows).numpy()) * (1 - moves)
        if not _is_rounding(gap, rows):
            raise ValueError(
                "plus must move each row by its own δ alone. "
                f"Received: {name}, of which plus moves rows whose δ is zero by {gap.max():.3g}"
            )

    def _check_directions(self, name: str, rows: Tensor) -> None:
        found = [np.linalg.matrix_rank(along) for along in self.basis(rows[:1]).numpy()]
        if found and found[0] < self.tangent_size:
            raise ValueError(
                "plus must lead in as many directions as δ has elements, with derivatives at δ = 0. "
                f"Received: {name}, with {found[0]} of {self.tangent_size}"
            )

    def _delta(self, rows: Tensor, values: Any) -> Tensor:
        return tf.constant(np.broadcast_to(values, [rows.shape[0], self.tangent_size]), rows.dtype)

    def basis(self, x: Tensor) -> Tensor:
        """Return ∂(x ⊕ δ)/∂δ at δ = 0, `[n, size, tangent_size]`, for x `[n, size]`, eager."""
        columns, zero = [], self._delta(x, 0.0)
        for direction in tf.eye(self.tangent_size, dtype=x.dtype):
            with tf.autodiff.ForwardAccumulator(zero, tf.zeros_like(zero) + direction) as forward:
                moved = self.plus(x, zero)
            columns.append(forward.jvp(moved, unconnected_gradients="zero"))
        return tf.stack(columns, axis=-1)


class _Known(Manifold):
    """One whose ⊕ is here."""

    def __init__(self, size: int, tangent_size: int) -> None:
        self.size, self.tangent_size = size, tangent_size

    def check(self, name: str, x: Tensor) -> None:
        """Raise ValueError for rows of length zero, which have no direction, and those that are not finite."""
        lengths = tf.norm(x, axis=-1).numpy()
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise ValueError(
                "Rows on a manifold of directions must be finite, and not zero. "
                f"Received: {name} with a row of length {lengths[~(lengths > 0) | np.isinf(lengths)][0]:.3g}"
            )


class Quaternion(_Known):
    """Rotations as quaternions `[..., 4]`, of unit length, the scalar part last, as in tensorflow-graphics and SciPy.

    δ is a rotation vector in the frame of the body: q ⊕ δ = q·exp(δ/2).
    """

    def __init__(self) -> None:
        super().__init__(4, 3)

    def plus(self, x: Tensor, delta: Tensor) -> Tensor:
        """Return q·exp(δ/2)."""
        return _multiplied(x, _quaternion_of(delta))

    def check(self, name: str, x: Tensor) -> None:
        """Raise ValueError for rows that are not of unit length."""
        super().check(name, x)
        off = np.abs(tf.norm(x, axis=-1).numpy() - 1)
        if off.size and off.max() > _UNIT:
            raise ValueError(
                "Quaternions are rotations where they are of unit length: assign tf.math.l2_normalize(x, axis=-1) "
                f"first. Received: {name} with a row whose length is off by {off.max():.3g}"
            )


class RotationVector(_Known):
    """Rotations as vectors `[..., 3]`, axis times angle in radians, as in `cv::Rodrigues`.

    δ is a rotation vector in the frame of the body; v ⊕ δ is that of the product, with an angle of at most π, so that
    steps never meet the points at 2π, where derivatives with respect to v itself vanish.
    """

    def __init__(self) -> None:
        super().__init__(3, 3)

    def plus(self, x: Tensor, delta: Tensor) -> Tensor:
        """Return log(exp(v)·exp(δ)), with the derivative by δ of the logarithm that is near v, whatever its angle."""
        short = _vector_of(_multiplied(_quaternion_of(x), _quaternion_of(delta)))
        length, angle = tf.norm(x, axis=-1, keepdims=True), tf.norm(short, axis=-1, keepdims=True)
        ahead = tf.reduce_sum(short * x, axis=-1, keepdims=True) >= 0
        turns = tf.stop_gradient(tf.round((tf.where(ahead, length, -length) - angle) / (2 * np.pi)))
        turned = tf.where(tf.equal(turns, 0), tf.ones_like(short), short)  # no axis is asked for without a turn
        whole = 2 * np.pi * turns * turned / tf.norm(turned, axis=-1, keepdims=True)
        return short + (whole - tf.stop_gradient(whole))

    def check(self, name: str, x: Tensor) -> None:
        """Raise ValueError for rows that are not finite; all others are rotations."""
        if not np.isfinite(x.numpy()).all():
            raise ValueError(f"Rotations must start from finite vectors. Received: {name} with NaN or infinity")


class UnitSphere(_Known):
    """Directions: vectors `[..., size]` whose length stays what it is, such as one; homogeneous points too.

    δ is in the plane that touches the sphere at x, and leads along a great circle, by its length in radians.

    Args:
        size: of the vectors.
    """

    def __init__(self, size: int = 3) -> None:
        if positive_integer("size", size) < 2:
            raise ValueError(f"A sphere has directions from two dimensions on. Received: size={size!r}")
        super().__init__(int(size), int(size) - 1)

    def magnitude(self, x: Tensor) -> Tensor:
        """Return one radian, whatever the length."""
        return tf.ones_like(x[..., :1])

    def plus(self, x: Tensor, delta: Tensor) -> Tensor:
        """Return x turned towards δ, by the reflection that takes the last axis to x."""
        length = tf.norm(x, axis=-1, keepdims=True)
        unit = x / length
        side = tf.where(unit[..., -1:] < 0, -tf.ones_like(length), tf.ones_like(length))
        normal = tf.concat([unit[..., :-1], unit[..., -1:] + side], axis=-1)
        square = tf.reduce_sum(tf.square(delta), axis=-1, keepdims=True)
        turned = tf.concat([_sine_quotient(square) * delta, _cosine(square)], axis=-1)
        along = tf.reduce_sum(normal * turned, axis=-1, keepdims=True)
        return -side * length * (turned - 2 * normal * along / tf.reduce_sum(tf.square(normal), axis=-1, keepdims=True))


class SE2(_Known):
    """Poses of the plane `[..., 3]`: x, y and the angle in radians, which counts turns.

    δ is a move in the frame of the body, along an arc: x, y and the turn of a twist, x·exp(δ). If a pose moves all that
    follows, as in a chain of odometry, then an arc keeps the chain as it is; straight steps stretch it.
    """

    def __init__(self) -> None:
        super().__init__(3, 3)

    def plus(self, x: Tensor, delta: Tensor) -> Tensor:
        """Return x·exp(δ)."""
        turn = delta[..., 2:]
        half = turn / 2
        sine = _sine_quotient(tf.square(half))  # of half the turn: the chord of the arc
        along = sine * _turned(half, delta[..., :2])
        angle = x[..., 2:]
        return tf.concat([x[..., :2] + _turned(angle, along), angle + turn], axis=-1)

    def magnitude(self, x: Tensor) -> Tensor:
        """Return the distance from the origin, twice, and the angle, or one radian if that is more."""
        distance = tf.norm(x[..., :2], axis=-1, keepdims=True)
        return tf.concat([distance, distance, tf.maximum(tf.abs(x[..., 2:]), 1)], axis=-1)

    def check(self, name: str, x: Tensor) -> None:
        """Raise ValueError for rows that are not finite; all others are poses."""
        if not np.isfinite(x.numpy()).all():
            raise ValueError(f"Poses must start from finite numbers. Received: {name} with NaN or infinity")


def _turned(angle: Tensor, vector: Tensor) -> Tensor:
    """Return vectors `[..., 2]` of the plane turned by angles `[..., 1]`."""
    cosine, sine = tf.cos(angle), tf.sin(angle)
    x, y = vector[..., :1], vector[..., 1:]
    return tf.concat([cosine * x - sine * y, sine * x + cosine * y], axis=-1)


def _is_rounding(gap: Array, rows: Tensor) -> bool:
    """Whether all of a difference to rows, NumPy, may be rounding."""
    return bool(np.all(gap <= np.sqrt(np.finfo(gap.dtype).eps) * (1 + np.abs(rows.numpy()))))


def _quaternion_of(vector: Tensor) -> Tensor:
    """Return exp(v/2), `[..., 4]`."""
    square = tf.reduce_sum(tf.square(vector), axis=-1, keepdims=True) / 4
    return tf.concat([_sine_quotient(square) * vector / 2, _cosine(square)], axis=-1)


def _vector_of(quaternion: Tensor) -> Tensor:
    """Return the rotation vector `[..., 3]`, of an angle of at most π."""
    quaternion = tf.where(quaternion[..., 3:] < 0, -quaternion, quaternion)
    axis, cosine = quaternion[..., :3], quaternion[..., 3:]
    square = tf.reduce_sum(tf.square(axis), axis=-1, keepdims=True)
    small, safe = _safe(square)
    sine = tf.sqrt(safe)
    series = 1 + square / 6 + 3 * square**2 / 40 + 5 * square**3 / 112
    return 2 * tf.where(small, series, tf.atan2(sine, cosine) / sine) * axis


def _multiplied(p: Tensor, q: Tensor) -> Tensor:
    """Return the product of quaternions `[..., 4]`, the scalar part last."""
    one, other = p[..., :3], q[..., :3]
    a, b = p[..., 3:], q[..., 3:]
    vector = a * other + b * one + tf.linalg.cross(one, other)
    return tf.concat([vector, a * b - tf.reduce_sum(one * other, axis=-1, keepdims=True)], axis=-1)


def _sine_quotient(square: Tensor) -> Tensor:
    """Return sin θ / θ of θ², with derivatives where θ is zero."""
    small, safe = _safe(square)
    angle = tf.sqrt(safe)
    return tf.where(small, 1 - square / 6 + square**2 / 120 - square**3 / 5040, tf.sin(angle) / angle)


def _cosine(square: Tensor) -> Tensor:
    """Return cos θ of θ², with derivatives where θ is zero."""
    small, safe = _safe(square)
    return tf.where(small, 1 - square / 2 + square**2 / 24 - square**3 / 720, tf.cos(tf.sqrt(safe)))


def _safe(square: Tensor) -> tuple[Tensor, Tensor]:
    """Return where θ² is small, and θ² with one in these places."""
    small = square < _SMALL_SQUARE
    return small, tf.where(small, tf.ones_like(square), square)


def checked_manifolds(variables: Nest[Variable], manifolds: Any) -> list:
    """Return a list of a `Manifold`, or None, for each variable of a nest.

    Args:
        manifolds: nest like it of these; None for none.

    Raises:
        TypeError, ValueError: for something else, another structure, or variables of another shape.
    """
    flat = tf.nest.flatten(variables)
    if manifolds is None:
        return [None] * len(flat)
    try:
        tf.nest.assert_same_structure(variables, manifolds, check_types=False)
    except (TypeError, ValueError):
        raise ValueError(
            f"manifolds must have the structure of the variables, with None for those on none. Received: {manifolds!r}"
        ) from None
    given = tf.nest.flatten(manifolds)
    for variable, manifold in zip(flat, given):
        if manifold is not None and not isinstance(manifold, Manifold):
            raise TypeError(
                "manifolds holds tfjac.Manifold objects, such as tfjac.manifolds.Quaternion(), or None. "
                f"Received: {manifold!r} for {variable_name(variable)}"
            )
        if manifold is not None and tuple(variable.shape)[-1:] != (manifold.size,):
            raise ValueError(
                f"The last axis of a variable on a manifold is that of its points, here of size {manifold.size}. "
                f"Received: {variable_name(variable)} of shape {tuple(variable.shape)}"
            )
    return given
