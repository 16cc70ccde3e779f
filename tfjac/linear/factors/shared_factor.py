"""The factor of a variable that moves values which all examples share, as the mean of a batch."""

import typing
from typing import Any

import tensorflow as tf

from tfjac.graph import axes
from tfjac.linear.factors.forms import DenseFactor, Factor, OuterFactor
from tfjac.linear.factors.gather_factor import GatherFactor
from tfjac.linear.shapes import Size, widened
from tfjac.types import Tensor


class SharedFactor(Factor):
    """J[n,m,c] = F[n,m,c] + Σ_s D[n,m,s] · K[s,c]: F with the shared values s as they are, D = ∂y/∂s, K = ds/dθ.

    Args:
        apart: F, a `Factor`.
        of_shared: D `[n,m,s]`.
        moved: K `[s,c]`.
    """

    apart: typing.Union[OuterFactor, GatherFactor, DenseFactor]  # noqa: UP007 (TensorFlow reads the annotation)
    of_shared: tf.Tensor
    moved: tf.Tensor

    def __init__(self, apart: Factor, of_shared: Tensor, moved: Tensor) -> None:
        self.apart, self.of_shared, self.moved = apart, widened(of_shared), widened(moved)

    @classmethod
    def of_shared_alone(cls, of_shared: Tensor, moved: Tensor) -> "SharedFactor":
        """Return the factor of a variable that y depends on by shared values alone."""
        n, m, _ = axes(of_shared)
        a, d = tf.zeros([n, 0, 1, 1], moved.dtype), tf.zeros([n, m, 0, 1, axes(moved)[1]], moved.dtype)
        return cls(OuterFactor(a, d), of_shared, moved)

    @property
    def dtype(self) -> tf.DType:
        return self.moved.dtype

    @property
    def num_columns(self) -> Size:
        return axes(self.moved)[1]

    @property
    def has_outer_form(self) -> bool:
        return False

    @property
    def mixes_examples(self) -> bool:
        return True

    def axes_of_tensors(self) -> tuple[str, ...]:
        return (*self.apart.axes_of_tensors(), "nms", "sc")

    def dense(self) -> Tensor:
        return self.apart.dense() + self._through(self.moved)

    def _through(self, x: Tensor) -> Tensor:
        """D·x of `x[s,r]`: `[n,m,r]`."""
        n, m, s = axes(self.of_shared)
        return tf.reshape(tf.matmul(tf.reshape(self.of_shared, [n * m, s]), x), [n, m, axes(x)[1]])

    def matmul(self, x: Tensor) -> Tensor:
        return self.apart.matmul(x) + self._through(tf.matmul(self.moved, x))

    def adjoint_matmul(self, u: Tensor) -> Tensor:
        n, m, s = axes(self.of_shared)
        pulled = tf.matmul(tf.reshape(self.of_shared, [n * m, s]), tf.reshape(u, [n * m, axes(u)[2]]), transpose_a=True)
        return self.apart.adjoint_matmul(u) + tf.matmul(self.moved, pulled, transpose_a=True)

    def _pairs(self) -> Tensor:
        """X `[n,m,s]` with J Jᵀ = F Fᵀ + D Xᵀ + X Dᵀ, as F Kᵀ Dᵀ + D K Fᵀ + D K Kᵀ Dᵀ is."""
        return self.apart.matmul(tf.transpose(self.moved)) + 0.5 * self._through(
            tf.matmul(self.moved, self.moved, transpose_b=True)
        )

    def kernel(self) -> Tensor:
        """n²·m²·s multiply-adds beside those of F, and n·m·s products with K."""
        n, m, s = axes(self.of_shared)
        through, pairs = (tf.reshape(each, [n * m, s]) for each in (self.of_shared, self._pairs()))
        half = tf.matmul(through, pairs, transpose_b=True)
        return self.apart.kernel() + half + tf.transpose(half)

    def squared_row_norms(self) -> Tensor:
        total = self.apart.squared_row_norms() + 2.0 * tf.reduce_sum(self.of_shared * self._pairs(), axis=2)
        return tf.maximum(total, 0.0)  # parts that cancel leave rounding

    def squared_column_norms(self) -> Tensor:
        """Σ F² + Σ_s K · (2·FᵀD + KᵀDᵀD)ᵀ."""
        n, m, s = axes(self.of_shared)
        through = tf.reshape(self.of_shared, [n * m, s])
        both = 2.0 * self.apart.adjoint_matmul(self.of_shared) + tf.matmul(
            self.moved, tf.matmul(through, through, transpose_a=True), transpose_a=True
        )
        total = self.apart.squared_column_norms() + tf.reduce_sum(tf.transpose(self.moved) * both, axis=1)
        return tf.maximum(total, 0.0)  # the bias before a batch normalisation moves nothing

    def scaled(self, scale: Any) -> "SharedFactor":
        return SharedFactor(self.apart.scaled(scale), self.of_shared, self.moved * scale)

    def joined(self, *others: Any) -> None:
        return None
